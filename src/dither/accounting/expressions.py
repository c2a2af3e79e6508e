"""Losses written by hand: `10000 * poisson(0.01, gaussian(1.1)) + laplace(10)`. A small grammar, no
eval.

    sum     = product { "+" product }
    product = factor { "*" factor }          exactly one factor is a loss, the others are counts
    factor  = number | name "(" argument { "," argument } ")" | "(" sum ")"
    argument= [ name "=" ] ( number | sum )

Numbers are decimals, with an exponent or as p/q, and mean exactly what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from fractions import Fraction
from typing import Any

from dither.canonical import decimal_text, exact, number_text, shorten
from dither.errors import ParameterError, QueryError
from dither.privacy import losses as ls

_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?:/\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|([-+*(),=]))"
)


def _parallel(*losses: ls.Loss) -> ls.Loss:
    return ls.Parallel(tuple(losses))


def _shuffled(epsilon: Fraction, users: Fraction, **common: Any) -> ls.Loss:
    """The one theorem for shuffling that is implemented; the name says which."""
    return ls.Shuffled(epsilon, users, theorem="FMT21", **common)  # type: ignore[arg-type]


NAMES: dict[str, tuple[Callable[..., ls.Loss], bool]] = {
    "gaussian": (ls.Gaussian, True),
    "gaussian_sum": (ls.GaussianSum, True),
    "laplace": (ls.Laplace, True),
    "discrete_laplace": (ls.DiscreteLaplace, True),
    "discrete_gaussian": (ls.DiscreteGaussian, True),
    "discrete_gaussian_vector": (ls.DiscreteGaussianVector, True),
    "rounded_gaussian": (ls.RoundedGaussian, True),
    "randomized_response": (ls.RandomizedResponse, True),
    "rr": (ls.RandomizedResponse, True),
    "pure": (ls.Pure, True),
    "approx": (ls.Approx, True),
    "exponential": (ls.BoundedRange, True),
    "zcdp": (ls.ZCDP, True),
    "rdp": (ls.RDP, True),
    "shuffled_fmt21": (_shuffled, True),
    "poisson": (ls.PoissonSampled, False),
    "fixed_size": (ls.SampledWithoutReplacement, False),
    "parallel": (_parallel, False),
}
"""Every name of the grammar, and whether it takes neighbours and unit itself."""

_NAMES_BY_CLASS: dict[object, str] = {
    **{make: name for name, (make, _) in reversed(NAMES.items())},
    ls.Parallel: "parallel",
    ls.Shuffled: "shuffled_fmt21",
}


MOST_LENGTH = 10_000
MOST_PARENTHESES = 100


class _Parser:
    def __init__(self, text: str, common: dict[str, Any]) -> None:
        """Cut the text into tokens (kind, text, position).

        Raises QueryError at a character that is none.
        """
        self.text = text
        self.common = common
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                raise self.error(f"unexpected {text[start]!r}", start)
            kind = ("number", "name", "sign")[match.lastindex - 1 if match.lastindex else 0]
            self.tokens.append(
                (kind, match.group(match.lastindex or 1), match.start(match.lastindex or 1))
            )
            position = match.end()
        self.next = 0

    def error(self, message: str, position: int | None = None) -> QueryError:
        """Make the error for a position, by default that of the next token.

        The caller raises it.
        """
        start = (
            position
            if position is not None
            else (self.tokens[self.next][2] if self.next < len(self.tokens) else len(self.text))
        )
        names = ", ".join(sorted(NAMES))
        return QueryError(
            f"{message} at character {start + 1} of {shorten(self.text, 200)!r}: write e.g. 1000 * "
            f"poisson(0.01, "
            f"gaussian(1.1)); known names: {names}",
            start=start,
            end=start + 1,
        )

    def peek(self) -> str:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else ""

    def kind(self, ahead: int = 0) -> str:
        return self.tokens[self.next + ahead][0] if self.next + ahead < len(self.tokens) else ""

    def take(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.error(f"expected {sign!r}")
        self.next += 1

    def sum(self) -> ls.Loss:
        """Read losses joined by `+` as their composition."""
        terms = [self.product()]
        while self.peek() == "+":
            self.next += 1
            terms.append(self.product())
        return terms[0] if len(terms) == 1 else ls.compose(*terms)

    def product(self) -> ls.Loss:
        """Read numbers and one loss joined by `*` as that loss, repeated."""
        loss: ls.Loss | None = None
        count = Fraction(1)
        start = self.next
        while True:
            value = self.factor()
            if isinstance(value, Fraction):
                count = self.number(count * value)
            elif loss is not None:
                raise self.error("two losses cannot be multiplied: add them")
            else:
                loss = value
            if self.peek() != "*":
                break
            self.next += 1
        if loss is None:
            raise self.error("a number is not a loss", self.tokens[start][2])
        if count.denominator != 1 or count < 1:
            raise self.error(
                f"a loss is repeated a whole number of times, not {number_text(count)}",
                self.tokens[start][2],
            )
        return loss if count == 1 else loss * int(count)

    def factor(self) -> ls.Loss | Fraction:
        """Read a number, a loss, or a sum in parentheses."""
        kind = self.kind()
        text = self.peek()
        if kind == "number":
            self.next += 1
            return self.number(text)
        if text == "(":
            self.next += 1
            inner = self.sum()
            self.take(")")
            return inner
        if kind == "name":
            return self.call()
        raise self.error("expected a loss or a number")

    def call(self) -> ls.Loss:
        """One loss, `name(argument, ...)`; the sensitivity of a discrete noise is 1 by default."""
        name = self.peek()
        start = self.tokens[self.next][2]
        if name not in NAMES:
            raise self.error(f"unknown loss {name!r}")
        self.next += 1
        self.take("(")
        values: list[Any] = []
        named: dict[str, Any] = {}
        while self.peek() != ")":
            if (
                self.kind() == "name"
                and self.next + 1 < len(self.tokens)
                and self.tokens[self.next + 1][1] == "="
            ):
                key = self.peek()
                self.next += 2
                named[key] = self.argument()
            else:
                values.append(self.argument())
            if self.peek() == ",":
                self.next += 1
            elif self.peek() != ")":
                raise self.error("expected ',' or ')'")
        self.take(")")
        make, leaf = NAMES[name]
        if (
            name in ("discrete_laplace", "discrete_gaussian")
            and len(values) == 1
            and "sensitivity" not in named
        ):
            named["sensitivity"] = Fraction(1)
        try:
            return make(*values, **named, **(self.common if leaf else {}))
        except (TypeError, ParameterError) as error:
            raise self.error(f"{name}: {error}", start) from None

    def argument(self) -> ls.Loss | Fraction:
        """Read an argument of a call: a number, or a loss."""
        following = self.tokens[self.next + 1][1] if self.next + 1 < len(self.tokens) else ""
        if self.kind() == "number" and following in (",", ")"):
            number = self.number(self.peek())
            self.next += 1
            return number
        return self.sum()

    def number(self, value: str | Fraction) -> Fraction:
        try:
            return exact(value, "a number")
        except ParameterError as error:
            raise self.error(str(error)) from None


def parse(
    text: str, *, neighbours: ls.Neighbours | None = None, unit: str | None = None
) -> ls.Loss:
    """Read the loss that a text denotes.

    Neighbours and unit, where given, hold for all its events. Raises QueryError with the position
    of a mistake.

    >>> parse("3 * gaussian(10) + laplace(2, sensitivity=4)").neighbours
    'add_remove'
    """
    if not isinstance(text, str) or len(text) > MOST_LENGTH or text.count("(") > MOST_PARENTHESES:
        raise QueryError(
            f"a loss is a text of at most {MOST_LENGTH:,} characters and {MOST_PARENTHESES} "
            f"parentheses: write several "
            "and add them in Python"
        )
    common = {
        key: value
        for key, value in (("neighbours", neighbours), ("unit", unit))
        if value is not None
    }
    parser = _Parser(text, common)
    loss = parser.sum()
    if parser.next < len(parser.tokens):
        raise parser.error(f"unexpected {parser.peek()!r}")
    return loss


def write_expression(loss: ls.Loss) -> str:
    """Write a loss in the grammar of this module; neighbours and unit are not part of it.

    A loss that the grammar has no name for is written under its stored name.

    >>> write_expression(parse("100 * poisson(0.01, gaussian(1.1)) + laplace(2, sensitivity=4)"))
    '100 * poisson(0.01, gaussian(1.1)) + laplace(2, 4)'
    """
    if isinstance(loss, ls.Repeated):
        inner = write_expression(loss.loss)
        bare = not isinstance(loss.loss, ls.Composed | ls.Repeated)
        return f"{loss.count} * {inner}" if bare else f"{loss.count} * ({inner})"
    if isinstance(loss, ls.Composed):
        return " + ".join(map(write_expression, loss.losses))
    name = _NAMES_BY_CLASS.get(type(loss), loss.type)
    arguments = []
    for parameter in fields(loss):
        value = getattr(loss, parameter.name)
        optional = parameter.default is not MISSING and value == parameter.default
        if parameter.name not in ("neighbours", "unit", "theorem") and not optional:
            arguments.append(_write_argument(value))
    return f"{name}({', '.join(arguments)})"


def _write_argument(value: Any) -> str:
    """Write a number exactly: as a decimal where one is exact and short, else as p/q."""
    if isinstance(value, ls.Loss):
        return write_expression(value)
    if isinstance(value, tuple):
        return ", ".join(map(_write_argument, value))
    if not isinstance(value, int | Fraction):
        return str(value)
    number = Fraction(value)
    decimal = decimal_text(number)
    return decimal if Fraction(decimal) == number else f"{number.numerator}/{number.denominator}"
