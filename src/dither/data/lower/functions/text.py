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


def _position_sql(a: SqlArguments, result: Domain) -> str:
    return f"CAST(strpos({a.sql[0]}, {a.sql[1]}) AS BIGINT)"


def _label_sql(a: SqlArguments, result: Domain) -> str:
    labels = ", ".join(map(dialect().text, a.domains[0].labels))
    return f"list_extract([{labels}], CAST({a.sql[0]} AS BIGINT) + 1)"


def _index_sql(a: SqlArguments, result: Domain) -> str:
    """Write the code of a text in an ENUM of the list: the engine hashes it, however long the list.

    Only a text of the list is cast. For any other text the engine looks for similar words to write
    an error, which takes a thousand times as long: the time would tell that there is such a text.
    """
    listed = ", ".join(a.sql[1:])
    code = f"CAST(enum_code(TRY_CAST({a.sql[0]} AS ENUM({listed}))) AS BIGINT)"
    return f"CASE WHEN {a.sql[0]} IN ({listed}) THEN {code} END"


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
    "position": _position_sql,
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
