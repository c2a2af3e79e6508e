"""A file of the shape of the census extract that many tutorials begin with: its header as it comes,
with blanks and hyphens, and invented rows."""

from __future__ import annotations

import random
from pathlib import Path

HEADER = (
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, "
    "race, sex, capital-gain, capital-loss, hours-per-week, native-country, Salary"
)
EDUCATIONS = ("Bachelors", "HS-grad", "Some-college", "Masters")


def write_adult(file: Path, rows: int, seed: int = 1) -> None:
    """The header and so many invented rows; every eleventh has an unknown workclass, written ?."""
    draw = random.Random(seed)
    lines = [HEADER, *(_write_row(draw, number) for number in range(rows))]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_row(draw: random.Random, number: int) -> str:
    work = "?" if number % 11 == 0 else draw.choice(("Private", "State-gov"))
    values = (
        draw.randrange(17, 90),
        work,
        draw.randrange(10_000, 900_000),
        draw.choice(EDUCATIONS),
        draw.randrange(1, 17),
        "Never-married",
        "Adm-clerical",
        "Not-in-family",
        "White",
        draw.choice(("Male", "Female")),
        0,
        0,
        draw.randrange(10, 80),
        "United-States",
        draw.choice(("<=50K", ">50K")),
    )
    return ", ".join(map(str, values))
