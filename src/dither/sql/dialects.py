"""The SQL people already know: GoogleSQL's DIFFERENTIAL_PRIVACY clause and Snowflake's interval functions.

A pass over tokens cuts what is not plain SQL and hands the rest to the stock parser; places in the text are kept.
Options may tighten what the catalog and the pot allow, never loosen it. Differences: docs/reference/dialects.md.

>>> asked = spoken("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, privacy_unit_column=p) COUNT(*) FROM t")
>>> asked.sql.split(), float(asked.epsilon), asked.unit
(['SELECT', 'COUNT(*)', 'FROM', 't'], 0.5, 'p')
>>> spoken("SELECT SUM(x, contribution_bounds_per_row => (0, 9)) FROM t").sql
'SELECT SUM(CLAMP(x, 0, 9)) FROM t'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp
from sqlglot.dialects import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dither.canonical import exact
from dither.errors import ParameterError, QueryError
from dither.question.recipe import Recipe
from dither.sql.parse import parse_trees, read_text
from dither.sql.refusals.refuse import refuse
from dither.sql.refusals.table import REFUSALS

_PER_GROUP, _PER_ROW = "CONTRIBUTION_BOUNDS_PER_GROUP", "CONTRIBUTION_BOUNDS_PER_ROW"
_BOUNDED = "DITHER_BOUNDED"
_OPTIONS = ("EPSILON", "DELTA", "MAX_GROUPS_CONTRIBUTED", "PRIVACY_UNIT_COLUMN", "GROUP_SELECTION_STRATEGY")
_NOT_OURS = {
    "AGGREGATION_THRESHOLD": (
        "WITH AGGREGATION_THRESHOLD is not differential privacy: it hides small groups and shows the others exactly, "
        "so two questions that differ in one person reveal that person. Leave it out and ask with epsilon=; groups "
        "without a list of keys are then shown by private key selection"
    ),
    "ANONYMIZATION": (
        "WITH ANONYMIZATION is the older form of WITH DIFFERENTIAL_PRIVACY, and its k_threshold has no guarantee by "
        "itself. Write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=..., privacy_unit_column=...), or plain SQL "
        "with epsilon="
    ),
}
_UNKNOWN = {
    "MAX_ROWS_CONTRIBUTED": "rows per person are limited at registration (rows_per_unit in the catalog)",
    "MIN_PRIVACY_UNITS_PER_GROUP": "the threshold follows from epsilon and delta",
    "K_THRESHOLD": "the threshold follows from epsilon and delta",
    "KAPPA": "write max_groups_contributed",
}


@dataclass(frozen=True)
class IntervalColumn:
    """A column that shows one end of another column's interval."""

    of: str
    end: str
    name: str


@dataclass(frozen=True)
class Spoken:
    """A question in plain SQL, and what its dialect said beside it."""

    original: str
    sql: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups: int | None = None
    unit: str | None = None
    public_groups: bool = False
    intervals: tuple[IntervalColumn, ...] = ()
    edits: tuple[tuple[int, int, str], ...] = ()
    rewritten: bool = False

    @property
    def is_plain(self) -> bool:
        return self.sql == self.original

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Errors inside speak of the text that was written, not of the one that was made from it."""
        try:
            yield
        except QueryError as error:
            if self.is_plain or error.start is None:
                raise
            message = str(error).rsplit("\n  ", 2)[0]
            if self.rewritten:
                raise QueryError(message) from None
            start, end = self._old(error.start), self._old(error.end or error.start)
            raise refuse(message, self.original, span=(start, end)) from None

    def _old(self, place: int) -> int:
        moved = 0
        for start, end, text in self.edits:
            if place < start + moved:
                break
            if place < start + moved + len(text):
                return start
            moved += len(text) - (end - start)
        return place - moved


def spoken(sql: str) -> Spoken:
    """Plain SQL, and the options of the dialect. Text without any of it comes back as it is."""
    low = read_text(sql).upper() if sql else ""
    if not any(word in low for word in ("DIFFERENTIAL_PRIVACY", "CONTRIBUTION_BOUNDS", "DP_INTERVAL_", *_NOT_OURS)):
        return Spoken(sql, sql)
    try:
        tokens = DuckDB().tokenize(sql)
    except SqlglotError:
        return Spoken(sql, sql)  # the parser says what is wrong
    try:
        return _Reader(sql, tokens).read()
    except RecursionError:
        raise QueryError(REFUSALS["deep"].message) from None


class _Reader:
    """One pass over the tokens, which collects edits (start, end, text) and options."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self.sql, self.tokens = sql, tokens
        self.edits: list[tuple[int, int, str]] = []
        self.options: dict[str, tuple[str | None, Token]] = {}
        self.intervals: list[IntervalColumn] = []
        self.clauses, self.per_group = 0, False

    def read(self) -> Spoken:
        for place, token in enumerate(self.tokens):
            word = token.text.upper()
            before = self.tokens[place - 1].token_type if place else None
            if before == TokenType.WITH and place > 1 and self.tokens[place - 2].token_type == TokenType.SELECT:
                if word in _NOT_OURS:
                    raise self._refuse(_NOT_OURS[word], token)
                if word == "DIFFERENTIAL_PRIVACY":
                    self._clause(place)
            elif word in (_PER_GROUP, _PER_ROW) and self._kind(place + 1) == TokenType.FARROW:
                self._bounds(place, word)
            elif word in ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH") and self._kind(place + 1) == TokenType.L_PAREN:
                self._interval(place)
        edits = tuple(sorted(self.edits))
        text = self.sql
        for start, end, new in reversed(edits):
            text = text[:start] + new + text[end:]
        read = Spoken(self.sql, text, intervals=tuple(self.intervals), edits=edits, **self._said())
        return _nested(read) if self.per_group else read

    def _refuse(self, message: str, token: Token) -> QueryError:
        return refuse(message, self.sql, span=(token.start, token.end + 1))

    def _kind(self, place: int) -> TokenType | None:
        return self.tokens[place].token_type if place < len(self.tokens) else None

    def _closing(self, place: int) -> int:
        """The place of the parenthesis that closes the one at `place`."""
        if self._kind(place) != TokenType.L_PAREN:
            raise self._refuse("an opening parenthesis must follow", self.tokens[place - 1])
        depth = 0
        for at in range(place, len(self.tokens)):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self.tokens[at].token_type, 0)
            if depth == 0:
                return at
        raise self._refuse("this parenthesis is never closed", self.tokens[place])

    def _blank(self, first: int, last: int) -> None:
        start, end = self.tokens[first].start, self.tokens[last].end + 1
        self.edits.append((start, end, " " * (end - start)))

    def _clause(self, place: int) -> None:
        self.clauses += 1
        if self.clauses > 1:
            raise self._refuse(
                "one WITH DIFFERENTIAL_PRIVACY in a question: its price is for the whole", self.tokens[place]
            )
        last = place
        if self._kind(place + 1) is not None and self.tokens[place + 1].text.upper() == "OPTIONS":
            last = self._closing(place + 2)
            self._options(place + 3, last)
        self._blank(place - 1, last)

    def _options(self, first: int, last: int) -> None:
        at = first
        while at < last:
            name = self.tokens[at].text.upper()
            if name not in _OPTIONS:
                why = _UNKNOWN.get(name, f"the options are {', '.join(_OPTIONS).lower()}")
                raise self._refuse(f"no option {self.tokens[at].text} here: {why}", self.tokens[at])
            end = at
            while end < last and self._kind(end) != TokenType.COMMA:
                end += 1
            if self._kind(at + 1) != TokenType.EQ or end < at + 3:
                raise self._refuse(f"write {name.lower()} = value", self.tokens[at])
            value = self.sql[self.tokens[at + 2].start : self.tokens[end - 1].end + 1]
            self.options[name] = (None if value.upper() == "NULL" else value, self.tokens[at])
            at = end + 1

    def _said(self) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for name, (value, token) in self.options.items():
            match name:
                case "EPSILON" | "DELTA":
                    number = _number(value)
                    if name == "EPSILON" and (number is None or number <= 0):
                        raise self._refuse("epsilon must be set, finite and positive: choose e.g. epsilon=0.5", token)
                    if name == "DELTA" and (number is None or not 0 <= number <= 1):
                        raise self._refuse("delta must lie in [0, 1]; it may be left out: the pot states it", token)
                    said[name.lower()] = number
                case "MAX_GROUPS_CONTRIBUTED":
                    number = _number(value)
                    if number is None or number.denominator != 1 or number < 1:
                        raise self._refuse(
                            "max_groups_contributed must be a whole number from 1 on: NULL means no limit, and with no "
                            "limit nothing would be guaranteed", token
                        )  # fmt: skip
                    said["max_groups"] = int(number)
                case "PRIVACY_UNIT_COLUMN":
                    if value is None:
                        raise self._refuse("privacy_unit_column must name the owner's column", token)
                    said["unit"] = value.split(".")[-1].strip('"`')
                case _:
                    strategy = (value or "").strip("'\"").upper()
                    if strategy not in ("PUBLIC_GROUPS", "LAPLACE_THRESHOLD"):
                        raise self._refuse("group_selection_strategy is PUBLIC_GROUPS or LAPLACE_THRESHOLD", token)
                    said["public_groups"] = strategy == "PUBLIC_GROUPS"
        if self.clauses and "epsilon" not in said:
            said["epsilon"] = None
        if self.clauses and "max_groups" not in said and not said.get("public_groups"):
            said["max_groups"] = 1  # GoogleSQL's default
        return said

    def _bounds(self, place: int, word: str) -> None:
        """`F(x, contribution_bounds_per_row => (lo, hi))`: the argument clamped; per group: marked for `_nested`."""
        if self._kind(place + 2) != TokenType.L_PAREN or self._kind(place - 1) != TokenType.COMMA:
            raise self._refuse(f"write {word.lower()} => (lower, upper) after the other arguments", self.tokens[place])
        inner_last = self._closing(place + 2)
        inside = self.sql[self.tokens[place + 2].end + 1 : self.tokens[inner_last].start]
        ends = [_number(part) for part in inside.split(",")]
        if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
            raise self._refuse(f"{word.lower()} takes two numbers, lower and upper", self.tokens[place])
        opening, last = self._call(place), self._closing_of_call(inner_last)
        bounds = ", ".join(part.strip() for part in inside.split(","))
        self.edits.append((self.tokens[place - 1].start, self.tokens[inner_last].end + 1, ""))
        first = self.tokens[opening + 1]
        if word == _PER_ROW:
            end = self._end_of_argument(opening + 1)
            self.edits.append((first.start, first.start, "CLAMP("))
            self.edits.append((self.tokens[end].end + 1, self.tokens[end].end + 1, f", {bounds})"))
            return
        self.per_group = True
        name = self.tokens[opening - 1]
        self.edits.append((name.start, name.start, f"{_BOUNDED}("))
        self.edits.append((self.tokens[last].end + 1, self.tokens[last].end + 1, f", {bounds})"))

    def _call(self, place: int) -> int:
        """The parenthesis of the call that `place` is an argument of."""
        depth = 0
        for at in range(place - 1, 0, -1):
            depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(self.tokens[at].token_type, 0)
            if depth < 0:
                return at
        raise self._refuse("bounds belong inside an aggregate, as in SUM(x, ...)", self.tokens[place])

    def _closing_of_call(self, after: int) -> int:
        if self._kind(after + 1) != TokenType.R_PAREN:
            raise self._refuse("contribution bounds are the last argument", self.tokens[after])
        return after + 1

    def _end_of_argument(self, first: int) -> int:
        depth = 0
        for at in range(first, len(self.tokens)):
            if depth == 0 and self.tokens[at].token_type in (TokenType.COMMA, TokenType.R_PAREN):
                return at - 1
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self.tokens[at].token_type, 0)
        raise self._refuse("this call is never closed", self.tokens[first])

    def _interval(self, place: int) -> None:
        """`, DP_INTERVAL_LOW(alias) [AS name]` leaves the list of columns: the interval is there already."""
        token, last = self.tokens[place], self._closing(place + 1)
        is_named = self._kind(last + 1) == TokenType.ALIAS
        lacks_name = is_named and self._kind(last + 2) is None
        if last != place + 3 or self._kind(place - 1) != TokenType.COMMA or lacks_name:
            raise self._refuse(
                f"write {token.text}(alias) [AS name] as a column of its own, after the column it belongs to",
                token,
            )
        of, end = self.tokens[place + 2].text, "low" if token.text.upper().endswith("LOW") else "high"
        name, last = (self.tokens[last + 2].text, last + 2) if is_named else (f"{of}_{end}", last)
        self.intervals.append(IntervalColumn(of, end, name))
        self._blank(place - 1, last)


def with_ends(recipe: Recipe, said: Spoken) -> Recipe:
    """The columns of intervals under the names that the question gave them."""
    outputs = list(recipe.outputs)
    for one in said.intervals:
        place = next((i for i, out in enumerate(outputs) if out.role == "value" and out.name == one.of), None)
        if place is None:
            names = ", ".join(output.name for output in outputs if output.role == "value")
            raise QueryError(
                f"DP_INTERVAL_{one.end.upper()}({one.of}): there is no value column {one.of}, only {names}"
            )
        low, high = (one.name, outputs[place].high) if one.end == "low" else (outputs[place].low, one.name)
        outputs[place] = replace(outputs[place], low=low, high=high)
    taken = [name.lower() for output in outputs for name in output.names]
    if twice := next((name for name in taken if taken.count(name) > 1), None):
        raise QueryError(f"two columns would be called {twice}: rename one with AS")
    return replace(recipe, outputs=tuple(outputs))


def _number(text: str | None) -> Fraction | None:
    """The number that an option states; None where it states none, or one beyond the limits of numbers."""
    try:
        return exact(text or "", "an option")
    except ParameterError:
        return None


def _nested(read: Spoken) -> Spoken:
    """Per-group bounds: first one row per person and group, then the bounded numbers of all persons together.

    GoogleSQL's COUNT and SUM bound what one person adds to a group; its AVG is the mean of the persons' means.
    """
    if read.unit is None:
        raise refuse("contribution_bounds_per_group needs privacy_unit_column in OPTIONS(...)", read.original)
    trees = parse_trees(read.sql)
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select):
        return read
    group = tree.args.get("group")
    keys = list(group.expressions) if group is not None else []
    named = {f"dp_key_{place}": key for place, key in enumerate(keys, 1)}
    inner: dict[str, exp.Expr] = {}
    outer: exp.Expr = tree.copy()
    for part in ("from_", "joins", "where", "group"):
        outer.set(part, None)
    outer = outer.transform(lambda node: _outer(node, named, inner, read))
    unit = exp.column(read.unit)
    rows = exp.Select(
        expressions=[unit.copy(), *(exp.alias_(key.copy(), name) for name, key in named.items()),
                     *(exp.alias_(value, name) for name, value in inner.items())]
    )  # fmt: skip
    for part in ("from_", "joins", "where"):
        rows.set(part, tree.args[part].copy() if isinstance(tree.args.get(part), exp.Expr) else tree.args.get(part))
    rows.set("group", exp.Group(expressions=[unit.copy(), *(key.copy() for key in keys)]))
    outer.set("from_", exp.From(this=rows.subquery("dp_units")))
    if keys:
        outer.set("group", exp.Group(expressions=[exp.column(name) for name in named]))
    return Spoken(**{**read.__dict__, "sql": outer.sql(dialect="duckdb"), "rewritten": True})


def _outer(node: exp.Expr, keys: dict[str, exp.Expr], inner: dict[str, exp.Expr], read: Spoken) -> exp.Expr:
    """An aggregate over rows as an aggregate over persons; a key as the name it has there."""
    for name, key in keys.items():
        if node == key and not isinstance(node.parent, exp.Alias):
            return exp.alias_(exp.column(name), node.name) if isinstance(node.parent, exp.Select) else exp.column(name)
        if node == key:
            return exp.column(name)
    low = high = None
    aggregate = node
    if isinstance(node, exp.Anonymous) and node.name.upper() == _BOUNDED:
        aggregate, low, high = node.expressions
    elif not isinstance(node, exp.AggFunc):
        return node
    if isinstance(aggregate, exp.Count) and not isinstance(aggregate.this, exp.Distinct):
        value: exp.Expr = exp.column(_inner(aggregate, inner))
    elif isinstance(aggregate, exp.Sum):
        value = exp.column(_inner(aggregate, inner))
    elif isinstance(aggregate, exp.Avg):
        total = _inner(exp.Sum(this=aggregate.this.copy()), inner)
        rows = _inner(exp.Count(this=aggregate.this.copy()), inner)
        value = exp.Div(this=exp.column(total), expression=exp.column(rows))
    else:
        raise refuse(
            f"{aggregate.sql(dialect='duckdb')} beside contribution_bounds_per_group is not answered: ask for it in a "
            "question of its own",
            read.original,
        )
    if low is not None and high is not None:
        value = exp.Anonymous(this="CLAMP", expressions=[value, low.copy(), high.copy()])
    made: exp.Expr = exp.Avg(this=value) if isinstance(aggregate, exp.Avg) else exp.Sum(this=value)
    if not isinstance(node.parent, exp.Select):
        return made
    column = aggregate.this.name if isinstance(aggregate.this, exp.Column) else ""
    return exp.alias_(made, f"{aggregate.key}_{column}" if column else aggregate.key)


def _inner(aggregate: exp.Expr, inner: dict[str, exp.Expr]) -> str:
    """The name of a person's own aggregate."""
    for name, known in inner.items():
        if known == aggregate:
            return name
    name = f"dp_value_{len(inner) + 1}"
    inner[name] = aggregate.copy()
    return name
