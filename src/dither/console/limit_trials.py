"""What a limit of rows per person would do, tried on public or invented numbers.

A lower limit leaves rows out, a higher one needs more noise. Both follow from how many rows people
have, which must not be counted in the protected data: it is invented by a law, or typed in from
something that everybody may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dither.errors import ParameterError
from dither.laws.laplace import LaplaceErrorLaw

LIMITS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1_000)
MOST_LINES = 1_000
MOST_PEOPLE = 10**12
MOST_MEAN = 1_000
_TAIL = Fraction(1, 10**4)
CONFIDENCE = "0.95"


@dataclass(frozen=True)
class LimitTrial:
    """One limit: rows that it leaves out, and the noise of a count of the rows that remain."""

    limit: int
    left_out: float
    left_out_share: float
    half_width: int

    @property
    def total(self) -> float:
        """Rows left out and the half-width together: how far off a count may be."""
        return self.left_out + self.half_width


def invent_rows(people: int, mean: Fraction) -> dict[int, Fraction]:
    """How many people have so many rows, where each further row is as likely as the one before.

    A geometric law with this mean, from one row on; its far tail is put on the last number.

    >>> invent_rows(100, Fraction(1))
    {1: Fraction(100, 1)}
    >>> float(sum(invent_rows(100, Fraction(3)).values()))
    100.0
    """
    going_on = 1 - 1 / mean
    people_by_rows: dict[int, Fraction] = {}
    remaining = Fraction(people)
    rows = 1
    while going_on and remaining > people * _TAIL:
        share = remaining * (1 - going_on)
        people_by_rows[rows] = Fraction(round(share * 10**6), 10**6)
        remaining -= people_by_rows[rows]
        rows += 1
    people_by_rows[rows] = remaining
    return people_by_rows


def read_rows(text: str) -> dict[int, Fraction]:
    """Lines `ROWS PEOPLE`: so many people have so many rows.

    >>> read_rows("1 500\\n2, 20\\n")
    {1: Fraction(500, 1), 2: Fraction(20, 1)}
    """
    people_by_rows: dict[int, Fraction] = {}
    for line in text.splitlines()[: MOST_LINES + 1]:
        words = line.replace(",", " ").replace(":", " ").split()
        if not words:
            continue
        if len(words) != 2:
            raise ParameterError("each line has two whole numbers: rows, and people who have them")
        rows, people = (read_whole(word, "a number") for word in words)
        people_by_rows[rows] = people_by_rows.get(rows, Fraction(0)) + people
    if not people_by_rows or len(people_by_rows) > MOST_LINES:
        raise ParameterError(f"type 1 to {MOST_LINES:,} lines: rows, and people who have them")
    return people_by_rows


def read_whole(text: str, name: str) -> int:
    """A whole number from 1 on."""
    text = text.strip()
    is_whole = text.isascii() and text.isdigit() and len(text) <= 13
    if not is_whole or not 0 < int(text) <= MOST_PEOPLE:
        raise ParameterError(f"{name} is a whole number from 1 to {MOST_PEOPLE:,}")
    return int(text)


def try_limits(people_by_rows: Mapping[int, Fraction], epsilon: Fraction) -> list[LimitTrial]:
    """What each limit does to a count of rows at a price: the noise has the scale limit / epsilon.

    That is how COUNT(*) is priced where a person is added or removed (docs/proofs/stability.md).
    """
    total = sum((rows * people for rows, people in people_by_rows.items()), Fraction(0))
    most = max(people_by_rows)
    limits = [limit for limit in LIMITS if limit < most]
    limits += [min(most, LIMITS[-1])] if most not in limits else []
    trials = []
    for limit in limits:
        left_out = sum(
            (max(0, rows - limit) * people for rows, people in people_by_rows.items()),
            Fraction(0),
        )
        half_width = LaplaceErrorLaw(limit / epsilon).interval(CONFIDENCE)
        trials.append(LimitTrial(limit, float(left_out), float(left_out / total), half_width))
    return trials
