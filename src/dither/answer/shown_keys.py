"""The keys of a GROUP BY as people see them."""

from __future__ import annotations

import datetime

from dither.plan.domain import Domain
from dither.plan.keys import list_keys

Key = str | int | bool | float | datetime.date | datetime.datetime | None


def list_shown_keys(domain: Domain) -> list[Key]:
    """List what a person sees for each code of a key, in order."""
    keys = list_keys("key", domain)
    points = range(keys.first, keys.first + keys.size)
    labels: list[Key]
    if domain.kind == "number" and domain.step == 1:
        labels = list(points)
    else:
        labels = [_label_grid_point(domain, point) for point in points]
    return [*labels, None] if domain.nullable else labels


def count_shown_keys(domain: Domain) -> int:
    """Count what `list_shown_keys` lists, without listing it."""
    return list_keys("key", domain).size + domain.nullable


def _label_grid_point(domain: Domain, grid: int) -> Key:
    """Turn an integer of the grid into the value that people read, such as a label or a date."""
    match domain.kind:
        case "category":
            return domain.labels[grid]
        case "boolean":
            return bool(grid)
        case "date":
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=grid)
        case "timestamp":
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=grid + domain.offset)
    return grid * int(domain.step) if domain.step.denominator == 1 else float(grid * domain.step)
