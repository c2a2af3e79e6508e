"""HTML elements, with escaping at this one place: what is not `Html` is escaped when put inside.

>>> write_element("p", "a < b ", write_element("b", "& c"), class_="quiet")
"<p class='quiet'>a &lt; b <b>&amp; c</b></p>"
"""

from __future__ import annotations

from collections.abc import Iterable

from dither.surfaces import escape_html

_VOID = frozenset({"br", "circle", "line", "polyline", "rect"})


class Html(str):
    """Markup that may be put into a page as it is.

    Adding to it by + or in an f-string makes plain text of it again.
    """

    __slots__ = ()


EMPTY = Html()


def write_element(name: str, *children: str, **attributes: str | None) -> Html:
    """Write an element; attributes of None are left out.

    `class_` is written class, and `aria_label` is written aria-label.
    """
    start = name + "".join(
        f" {key.rstrip('_').replace('_', '-')}='{escape_html(value)}'"
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{start}/>" if name in _VOID else f"<{start}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """One piece of markup after another; plain texts are escaped."""
    safe = (child if isinstance(child, Html) else escape_html(child) for child in children)
    return Html("".join(safe))


def join_lines(lines: Iterable[str]) -> Html:
    """Texts with a line break between them."""
    return Html(write_element("br").join(join([line]) for line in lines))


def write_list(lines: Iterable[str]) -> Html:
    """Bullet points.

    >>> write_list(["a", "<b>"])
    '<ul><li>a</li><li>&lt;b&gt;</li></ul>'
    """
    return write_element("ul", *(write_element("li", line) for line in lines))


def write_details(summary: str, *children: str) -> Html:
    """What is shown after a click on its summary."""
    return write_element("details", write_element("summary", summary), *children)
