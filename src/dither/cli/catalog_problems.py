"""All problems of a catalog at once, for the person who mends it."""

from __future__ import annotations

from pathlib import Path

from dither import steward
from dither.catalog import Catalog
from dither.catalog.file.load import list_problems, load
from dither.errors import CatalogError


def load_or_list_problems(catalog_file: Path) -> Catalog:
    """Load the catalog, where nothing is wrong with it or with the columns of its source.

    Else raises one CatalogError that lists all problems.
    """
    problems = list_problems(catalog_file)
    if not problems:
        catalog = load(catalog_file)
        source_path = catalog_file.parent / catalog.source.location
        problems = steward.list_source_problems(catalog, source_path)
        if not problems:
            return catalog
    if len(problems) == 1:
        raise problems[0]
    lines = "\n".join(f"  {problem}" for problem in problems)
    raise CatalogError(f"{len(problems)} problems:\n{lines}", file=str(catalog_file))
