// Text whose contrast with what is painted behind it is under `least`. A point inside of every run of text is looked at:
// all that lies there below the text is blended, backgrounds of elements as well as shapes of drawings.
(least) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const opacity = (element) => {
    let product = 1;
    for (let e = element; e; e = e.parentElement) product *= Number(getComputedStyle(e).opacity);
    return product;
  };
  const painted = (element) => {
    const style = getComputedStyle(element);
    if (element instanceof SVGElement && !(element instanceof SVGSVGElement)) {
      if (style.fill === "none") return [0, 0, 0, 0];
      const colour = parse(style.fill === "currentcolor" ? style.color : style.fill);
      colour[3] *= Number(style.fillOpacity) * opacity(element);
      return colour;
    }
    const colour = parse(style.backgroundColor);
    colour[3] *= opacity(element);
    return colour;
  };
  const light = ([r, g, b]) => {
    const [R, G, B] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * R + 0.7152 * G + 0.0722 * B;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const page = getComputedStyle(document.documentElement).colorScheme.includes("dark") &&
    matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility({ opacityProperty: false, visibilityProperty: true })) continue;
    if (opacity(element) === 0) continue;  // labels of an axis that would overlap others are not drawn
    if (["SCRIPT", "STYLE", "TITLE", "DESC"].includes(element.tagName.toUpperCase())) continue;
    element.scrollIntoView({ block: "center", inline: "center" });
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = [...range.getClientRects()].find((b) => b.width > 1 && b.height > 1);
    if (!box) continue;
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
    // What lies at the point, the uppermost first; shapes do not take part in it where pointer-events are none.
    const stack = document.elementsFromPoint(x, y);
    const below = stack.includes(element) ? stack.slice(stack.indexOf(element)) : stack;
    let behind = page;
    for (const layer of [...below].reverse()) if (layer !== element || !(element instanceof SVGElement)) behind = over(painted(layer), behind);
    const style = getComputedStyle(element);
    const own = element instanceof SVGElement ? (style.fill === "currentcolor" ? style.color : style.fill) : style.color;
    const ink = parse(own);
    ink[3] *= opacity(element) * (element instanceof SVGElement ? Number(style.fillOpacity) : 1);
    const contrast = ratio(over(ink, behind), behind);
    if (contrast < least) found.push({ text: node.textContent.trim().slice(0, 60), contrast, drawn: element instanceof SVGElement });
  }
  return found;
}
