"""A cell of a notebook: a table or a chart in colours that follow the notebook, light or dark.

A notebook has a style of its own, and may be light in a dark browser. So a cell sets no background
and takes the colour of its text from around it; what is quiet is that colour at part strength.
"""

from __future__ import annotations

from dither.pages.html import Html, write_element

CELL_STYLE = """
.dither-cell { color: inherit; font-size: .9em; }
.dither-cell table { border-collapse: collapse; margin: .3em 0; color: inherit; background: none; }
.dither-cell th, .dither-cell td { text-align: left; vertical-align: top;
  padding: .25em .8em .25em 0;
  border: 0; border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  font-variant-numeric: tabular-nums; background: none; }
.dither-cell td.figure, .dither-cell th.figure { text-align: right; }
.dither-cell .quiet { opacity: .75; font-size: .92em; margin: .2em 0; }
.dither-cell .wide { overflow-x: auto; }
.dither-cell pre { overflow-x: auto; color: inherit; background: none; }
.dither-cell .chart { display: grid; gap: 0 .7em;
  grid-template-columns: minmax(4.5em, auto) 1fr auto;
  align-items: center; max-width: 44em; margin: .6em 0 .2em; }
.dither-cell .chart .label, .dither-cell .chart .value { text-align: right; }
.dither-cell .chart svg { display: block; width: 100%; overflow: visible; }
.dither-cell .chart circle { fill: currentColor; }
.dither-cell .chart .whisker { stroke: currentColor; stroke-width: 1.6; }
.dither-cell .chart .zero { stroke: currentColor; stroke-opacity: .3; }
.dither-cell .axis { position: relative; height: 1.4em; opacity: .75; font-size: .85em; }
.dither-cell .axis i { position: absolute; transform: translateX(-50%); font-style: normal; }
"""


def write_cell(*children: str) -> Html:
    """Markup for the output of a notebook's cell, with the style that it needs.

    >>> write_cell("a < b").endswith("a &lt; b</div>")
    True
    """
    style = write_element("style", Html(CELL_STYLE))
    return write_element("div", style, *children, class_="dither-cell")


def write_notes(lines: list[str]) -> Html:
    """Sentences below a table, one in each paragraph."""
    notes = (write_element("p", line, class_="quiet") for line in lines)
    return Html("".join(notes))
