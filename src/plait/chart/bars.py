"""Lists of bars with their standard deviations, faded where the prior speaks."""

from plait.chart.look import BLUE, FAINT, ROW, Rows, Spec, heading, names_beside, number, plain, tips

FADED = "fill: how much comes from data"


def bars(rows: Rows, title: str, below: str = "", *, width: int = 150, of: str = "weight") -> Spec:
    """A panel of bars, one below the other in the order of the rows: name, weight, sd and data of each.

    of: what a bar is, for tooltips. The outline of a bar is as long as its weight, its inside fades with `data`; a line
    goes from one sd below the end to one above.
    """
    listed = [
        {
            **row,
            "place": place,
            "low": max(row["weight"] - row["sd"], 0.0),
            "high": row["weight"] + row["sd"],
        }
        for place, row in enumerate(rows)
    ]
    along: Spec = {"axis": {"tickCount": 3, "title": None, "format": "~p"}, "scale": {"nice": False}}
    fade = {"field": "data", "type": "quantitative", "legend": None,
            "scale": {"domain": [0, 1], "range": [FAINT, 1]}}  # fmt: skip
    bar = {"type": "bar", "height": ROW - 6, "color": BLUE, "stroke": BLUE, "strokeWidth": 1}
    sure = {"type": "rule", "strokeWidth": 1.5}
    said = tips(full="name#", weight=of, sd="sd", data="from data")
    return {
        "title": heading(title, below),
        "width": width,
        "height": max(len(listed), 1) * ROW,
        "data": plain(listed),
        "encoding": {
            "y": {"field": "place", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0, "paddingOuter": 0}}
        },
        "layer": [
            {
                "mark": bar,
                "encoding": {"x": number("weight", **along), "fillOpacity": fade, "tooltip": said},
            },
            {"mark": sure, "encoding": {"x": number("low", **along), "x2": {"field": "high"}}},
            names_beside(),
        ],
    }
