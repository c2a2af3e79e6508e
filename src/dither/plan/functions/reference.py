"""The reference page of functions, from the table: `docs/reference/functions.md` is this text, or a
test fails."""

from __future__ import annotations

from dither.plan.functions import FAMILIES, REFUSED

_HEAD = """\
# Functions

Every scalar function that a plan may call. Each is *total*: on every value that its arguments can
have it gives a value of a known domain or null, whatever other rows there are. Numbers are exact,
on a grid; bounds follow by interval arithmetic.
"""


def page() -> str:
    """Write the whole reference page of functions, as Markdown.

    >>> page().splitlines()[0]
    '# Functions'
    """
    lines = [_HEAD]
    for family, functions in FAMILIES.items():
        lines += [
            f"## {family.capitalize()}",
            "",
            "| function | takes | gives | nulls | guard |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| `{f.name}` | {f.takes} | {f.gives} | {f.nulls} | {f.guard} |" for f in functions
        ]
        lines.append("")
    lines += ["## Refused", "", "| function | why |", "|---|---|"]
    reasons: dict[str, list[str]] = {}
    for name, why in REFUSED.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    lines += [f"| {', '.join(names)} | {why} |" for why, names in reasons.items()]
    return "\n".join(lines) + "\n"
