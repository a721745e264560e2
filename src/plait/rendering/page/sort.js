// Tables that can be sorted by a column: a button in every heading.
"use strict";
(() => {
  const number = (text) => {
    const plain = text.replace(/[<>]/g, "").replace(/[,±%\s]/g, "");
    return plain !== "" && Number.isFinite(Number(plain)) ? Number(plain) : null;
  };
  const sort = (table, column, heading) => {
    const falls = heading.getAttribute("aria-sort") === "descending";
    const body = table.tBodies[0];
    const sign = falls ? 1 : -1;
    const keyed = [...body.rows].map((row) => {
      const text = row.cells[column].textContent.trim();
      return { row, text, value: number(text) };
    });
    keyed.sort((a, b) => {
      if (a.value !== null && b.value !== null) return sign * (a.value - b.value);
      if (a.value !== null || b.value !== null) return a.value !== null ? -1 : 1;
      return sign * a.text.localeCompare(b.text);
    });
    body.append(...keyed.map(({ row }) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falls ? "ascending" : "descending");
  };
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }
})();
