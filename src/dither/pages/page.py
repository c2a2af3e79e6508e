"""A self-contained page: a title, sections with links to them, one style; nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dither.pages.html import EMPTY, Html, write_element
from dither.pages.style import STYLE
from dither.version import __version__


@dataclass(frozen=True)
class PageSection:
    """A heading and the markup under it; `anchor` is the name that links use, if any does."""

    title: str
    body: Html
    anchor: str | None = None


def write_page(title: str, sections: Sequence[PageSection], *, lead: Html = EMPTY) -> str:
    """Write a page: sections without a body are left out, those with an anchor linked at the
    top."""
    sections = [section for section in sections if section.body]
    links = [
        write_element("a", section.title, href=f"#{section.anchor}")
        for section in sections
        if section.anchor is not None
    ]
    navigation = write_element("nav", *links) if links else EMPTY
    header = write_element("header", write_element("h1", title), lead, navigation)
    main = write_element("main", *map(_write_section, sections))
    footer = write_element("footer", f"made by dither {__version__}; no script, nothing fetched")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{write_element('title', title)}<style>{STYLE}</style></head>"
        f"{write_element('body', header, main, footer)}</html>\n"
    )


def _write_section(section: PageSection) -> Html:
    heading = write_element("h2", section.title)
    return write_element("section", heading, section.body, id=section.anchor)


def write_card(title: str, *children: str) -> Html:
    """A framed piece of a section, under a small heading."""
    return write_element("article", write_element("h3", title), *children)
