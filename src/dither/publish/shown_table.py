"""A table for people: columns in a wide terminal, one fact a line in a narrow one, HTML in a
notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dither.pages.html import Html, write_element
from dither.surfaces import escape_label, make_rich_cell

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class ShownTable:
    """Heads and rows of texts. `figures` are the columns of numbers: right-aligned, never broken.

    A terminal too narrow for the longest words of a row shows every row as a list of its facts.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures: frozenset[int] = frozenset()
    title: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._choose_widths(options.max_width)
        if widths is not None:
            yield self._make_columns(widths)
            return
        if self.title:
            yield make_rich_cell(self.title)
        for row in self.rows:
            yield self._make_record(row)
            yield make_rich_cell("")

    def _choose_widths(self, available: int) -> list[int] | None:
        """Choose widths at which no word and no number is broken; None if there are none.

        What is left of the terminal goes to heads, then to the first columns whose texts wrap.
        """
        from rich.cells import cell_len

        widths = []
        wished = []
        for index, texts in enumerate(zip(self.heads, *self.rows, strict=True)):
            whole = list(map(escape_label, texts))
            words = whole if index in self.figures else " ".join(whole).split()
            widths.append(max(map(cell_len, words), default=0))
            wished.append(max(map(cell_len, whole)))
        spare = available - sum(widths) - 3 * len(widths) - 1
        if spare < 0:
            return None
        for index, wish in [*enumerate(map(cell_len, self.heads)), *enumerate(wished)]:
            more = min(spare, max(0, wish - widths[index]))
            widths[index] += more
            spare -= more
        return widths

    def _make_columns(self, widths: list[int]) -> RichTable:
        """Make the table with a column for each head, in these widths."""
        from rich.table import Table as RichTable

        table = RichTable(title=make_rich_cell(self.title) if self.title else None)
        for index, head in enumerate(self.heads):
            is_figure = index in self.figures
            table.add_column(
                make_rich_cell(head),
                justify="right" if is_figure else "left",
                no_wrap=is_figure,
                width=widths[index],
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*map(make_rich_cell, row))
        return table

    def _make_record(self, row: tuple[str, ...]) -> RichTable:
        """Make one row as lines of a head and its value."""
        from rich.table import Table as RichTable

        record = RichTable.grid(padding=(0, 2))
        record.add_column(overflow="fold")
        record.add_column(overflow="fold")
        for head, value in zip(self.heads, row, strict=True):
            record.add_row(make_rich_cell(head), make_rich_cell(value))
        return record

    def write_html(self) -> Html:
        """Write the table for a notebook."""
        head = self._write_row("th", self.heads)
        body = [self._write_row("td", row) for row in self.rows]
        table = write_element("table", write_element("thead", head), write_element("tbody", *body))
        title = [write_element("p", escape_label(self.title))] if self.title else []
        return write_element("div", *title, table, class_="wide")

    def _write_row(self, element: str, texts: tuple[str, ...]) -> Html:
        """Write one row of HTML cells; figures get a class of their own."""
        kinds = ("figure" if index in self.figures else None for index in range(len(texts)))
        cells = zip(texts, kinds, strict=True)
        return write_element(
            "tr", *(write_element(element, escape_label(text), class_=kind) for text, kind in cells)
        )
