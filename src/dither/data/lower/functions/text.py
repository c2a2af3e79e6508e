"""SQL of the functions of texts."""

from __future__ import annotations

from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import FunctionSql, SqlArguments
from dither.plan.domain import Domain

SMALL = "abcdefghijklmnopqrstuvwxyz"
LARGE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _sql(template: str) -> FunctionSql:
    return lambda a, result: template.format(*a.sql)


def _truth(template: str) -> FunctionSql:
    return lambda a, result: dialect().truth(template.format(*a.sql))


def _label_sql(a: SqlArguments, result: Domain) -> str:
    labels = ", ".join(map(dialect().text, a.domains[0].labels))
    return f"list_extract([{labels}], CAST({a.sql[0]} AS BIGINT) + 1)"


def _index_sql(a: SqlArguments, result: Domain) -> str:
    """Write a lookup of a text in the list, which the engine hashes, however long the list is.

    The list is one text with a mark between its members, since the engine reads a thousand texts
    far more slowly than one. No text is listed twice, so that a row meets one member at most.
    """
    texts = [a.text(position) for position in range(1, len(a.sql))]
    used = {*"".join(texts)}
    mark = next(
        mark
        for mark in map(chr, range(1, 0x110000))
        if mark not in used and not "\ud800" <= mark < "\ue000"  # halves of pairs
    )
    listed = f"string_split({dialect().text(mark.join(texts))}, {dialect().text(mark)})"
    members = f"SELECT unnest({listed}) AS dither_text, unnest(range({len(texts)})) AS dither_place"
    return f"(SELECT dither_place FROM ({members}) WHERE dither_text = {a.sql[0]})"


def _parse_sql(a: SqlArguments, result: Domain) -> str:
    whole = f"regexp_full_match({a.sql[0]}, '[+-]?[0-9]{{1,18}}')"
    value = f"greatest({result.low}, least({result.high}, TRY_CAST({a.sql[0]} AS BIGINT)))"
    return f"CASE WHEN {whole} THEN {value} END"


FUNCTIONS: dict[str, FunctionSql] = {
    "lower": _sql(f"translate({{}}, '{LARGE}', '{SMALL}')"),
    "upper": _sql(f"translate({{}}, '{SMALL}', '{LARGE}')"),
    "trim": _sql("trim({}, ' ')"),
    "ltrim": _sql("ltrim({}, ' ')"),
    "rtrim": _sql("rtrim({}, ' ')"),
    "length": _sql("CAST(length({}) AS BIGINT)"),
    "byte_length": _sql("CAST(strlen({}) AS BIGINT)"),
    "left": _sql("left({}, {})"),
    "right": _sql("right({}, {})"),
    "substring": _sql("substring({}, {}, {})"),
    "starts_with": _truth("starts_with({}, {})"),
    "ends_with": _truth("ends_with({}, {})"),
    "contains": _truth("contains({}, {})"),
    "position": _sql("CAST(strpos({}, {}) AS BIGINT)"),
    "replace": _sql("replace({}, {}, {})"),
    "concat": lambda a, result: " || ".join(a.sql),
    "lpad": _sql("lpad({}, {}, {})"),
    "rpad": _sql("rpad({}, {}, {})"),
    "split_part": _sql("split_part({}, {}, {})"),
    "like": _truth("({} LIKE {})"),
    "label": _label_sql,
    "index_in": _index_sql,
    "parse_integer": _parse_sql,
}
