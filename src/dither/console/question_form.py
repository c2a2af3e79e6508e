"""A question as a person types it: the fields of a form, which are also the page's address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode

from dither.catalog import Catalog
from dither.errors import ParameterError
from dither.sql.parameters import list_parameter_names

MOST_SQL = 10_000
MOST_FIELD = 200
PARAMETER = "p_"
PRICES = {"epsilon": "epsilon", "rho": "rho", "within": "accuracy"}
START_EPSILON = "0.1"
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")


@dataclass(frozen=True)
class TypedQuestion:
    """The text of a question, its price or accuracy, and the values of its named parameters."""

    sql: str = ""
    by: str = "epsilon"
    amount: str = START_EPSILON
    confidence: str = "0.95"
    group_size: str = ""
    pot: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The named parameters of the text, each a field of the form."""
        return list_parameter_names(self.sql)

    def list_fields(self) -> dict[str, str]:
        """The fields by name: hidden inputs of a form, or the query of an address."""
        names = ("sql", "by", "amount", "confidence", "group_size", "pot")
        fields = {name: getattr(self, name) for name in names if getattr(self, name)}
        used = set(self.parameters)
        values = {name: text for name, text in self.values.items() if name in used}
        return fields | {f"{PARAMETER}{name}": text for name, text in values.items()}

    def write_query(self) -> str:
        """The question as the query of an address."""
        return urlencode(self.list_fields())

    def list_terms(self) -> dict[str, Any]:
        """The keyword arguments of `con.preview` and, with a price, of `con.sql`."""
        terms: dict[str, Any] = {self.by: self.amount.strip() or None}
        terms["confidence"] = self.confidence or "0.95"
        if self.group_size:
            terms["group_size"] = _read_count(self.group_size)
        if self.parameters:
            values = self.values
            terms["params"] = {name: _read_value(values.get(name, "")) for name in self.parameters}
        return terms


def read_question(fields: Mapping[str, str]) -> TypedQuestion:
    """The question of an address or a form; ParameterError where a field is too long."""
    sql = fields.get("sql", "").replace("\r\n", "\n")
    if len(sql) > MOST_SQL:
        raise ParameterError(
            f"a question of the console has at most {MOST_SQL:,} characters: ask longer ones by "
            "Python or HTTP"
        )
    by = fields.get("by", "epsilon")
    if by not in PRICES:
        raise ParameterError(f"a price is given by {', '.join(PRICES)}")
    values = {
        name.removeprefix(PARAMETER): _shorten(text)
        for name, text in fields.items()
        if name.startswith(PARAMETER)
    }
    return TypedQuestion(
        sql,
        by,
        _shorten(fields.get("amount", START_EPSILON)),
        _shorten(fields.get("confidence", "0.95")),
        _shorten(fields.get("group_size", "")),
        _shorten(fields.get("pot", "")),
        values,
    )


def with_price(question: TypedQuestion, by: str, amount: str) -> TypedQuestion:
    """The same question at a price, in the place of an accuracy."""
    return replace(question, by=by, amount=amount)


def _shorten(text: str) -> str:
    if len(text) > MOST_FIELD:
        raise ParameterError(f"a field of the form has at most {MOST_FIELD} characters")
    return text.strip()


def _read_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ParameterError("the size of a group is a whole number, such as 1000")
    return int(text)


def _read_value(text: str) -> int | Decimal | str:
    """A typed value: a number where it is written as one, else a text.

    >>> _read_value("12"), _read_value("-1.5"), _read_value("north"), _read_value("1e9")
    (12, Decimal('-1.5'), 'north', '1e9')
    """
    if not _NUMBER.fullmatch(text):
        return text
    try:
        return Decimal(text) if "." in text else int(text)
    except (InvalidOperation, ValueError):
        return text


AGGREGATES = ("COUNT", "SUM", "AVG", "MEDIAN")
TESTS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class BuiltQuestion:
    """What a person chose in the form that writes SQL."""

    table: str
    aggregate: str = "COUNT"
    column: str = ""
    group: str = ""
    filter_column: str = ""
    test: str = "="
    value: str = ""


def write_sql(built: BuiltQuestion, catalog: Catalog) -> str:
    """The SQL of the choices. Names come from the catalog, and the value is written as a literal.

    ParameterError where a choice is none of the catalog's.
    """
    table = _find(built.table, [entry.name for entry in catalog.tables], "table")
    columns = catalog.table(table).column_names
    aggregate = _find(built.aggregate, AGGREGATES, "aggregate")
    if aggregate == "COUNT":
        figure = "COUNT(*) AS n"
    else:
        column = _find(built.column, columns, "column")
        figure = f"{aggregate}({column}) AS {aggregate.lower()}_{column}"
    keys = [_find(built.group, columns, "group")] if built.group else []
    lines = [f"SELECT {', '.join([*keys, figure])}", f"FROM {table}"]
    if built.filter_column:
        name = _find(built.filter_column, columns, "filter")
        test = _find(built.test, TESTS, "test")
        lines.append(f"WHERE {name} {test} {_write_literal(built.value)}")
    lines += [f"GROUP BY {key}" for key in keys]
    return "\n".join(lines)


def _find(name: str, names: Any, what: str) -> str:
    if name not in names:
        raise ParameterError(f"choose a {what} that the catalog has")
    return name


def _write_literal(text: str) -> str:
    """A value as a literal of SQL.

    >>> _write_literal("it's"), _write_literal("12")
    ("'it''s'", '12')
    """
    if _NUMBER.fullmatch(text) or text.lower() in ("true", "false"):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
