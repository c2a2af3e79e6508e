"""SQL of the functions of days and seconds."""

from __future__ import annotations

from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import FunctionSql, SqlArguments, cast, divide_floor
from dither.plan.domain import Domain
from dither.plan.functions.dates import DAY


def _sql_day(sql: str) -> str:
    return dialect().to_date(sql)


def _sql_local(a: SqlArguments) -> str:
    return f"({cast(a.sql[0], a.domains[0].largest)} + ({a.domains[0].offset}))"


def _engine(function: str) -> FunctionSql:
    return lambda a, result: f"CAST({dialect().date_part(function, _sql_day(a.sql[0]))} AS BIGINT)"


def _week_day(a: SqlArguments, result: Domain) -> str:
    return f"(({cast(a.sql[0], 0)} + 3) % 7 + 7) % 7 + 1"


def _time_sql(size: int, unit: int) -> FunctionSql:
    """The part of `unit` seconds inside the last `size` seconds."""
    return lambda a, result: dialect().divide(
        f"(({_sql_local(a)} % {size} + {size}) % {size})", str(unit), size
    )


def _add_days_sql(a: SqlArguments, result: Domain) -> str:
    n = a.domains[1]
    return f"{cast(a.sql[0], 0)} + {cast(a.sql[1], n.largest * int(n.step))} * {int(n.step)}"


def _between_sql(a: SqlArguments, result: Domain) -> str:
    sizes = (result.largest, *(domain.largest for domain in a.domains))
    return f"{cast(a.sql[1], *sizes)} - {cast(a.sql[0], *sizes)}"


def _add_months_sql(a: SqlArguments, result: Domain) -> str:
    months = a.whole(1, -120_000, 120_000)
    return dialect().count_days(dialect().add_months(_sql_day(a.sql[0]), months))


def _truncated_sql(field: str) -> FunctionSql:
    return lambda a, result: dialect().count_days(
        dialect().truncate_date(field, _sql_day(a.sql[0]))
    )


def _days_in_month_sql(a: SqlArguments, result: Domain) -> str:
    last = dialect().last_day(_sql_day(a.sql[0]))
    return f"CAST({dialect().date_part('day', last)} AS BIGINT)"


def _ymd(sql: str) -> str:
    year, month, day = (
        dialect().date_part(field, _sql_day(sql)) for field in ("year", "month", "day")
    )
    return f"({year} * 10000 + {month} * 100 + {day})"


def _age_sql(a: SqlArguments, result: Domain) -> str:
    return divide_floor(f"{_ymd(a.sql[1])} - {_ymd(a.sql[0])}", "10000")


FUNCTIONS: dict[str, FunctionSql] = {
    "year": _engine("year"),
    "quarter": _engine("quarter"),
    "month": _engine("month"),
    "week": _engine("week"),
    "day": _engine("day"),
    "day_of_week": _week_day,
    "day_of_year": _engine("dayofyear"),
    "days_in_month": _days_in_month_sql,
    "is_weekend": lambda a, result: dialect().truth(f"{_week_day(a, result)} >= 6"),
    "hour": _time_sql(DAY, 3600),
    "minute": _time_sql(3600, 60),
    "second": _time_sql(60, 1),
    "date_of": lambda a, result: divide_floor(_sql_local(a), str(DAY)),
    "add_days": _add_days_sql,
    "days_between": _between_sql,
    "add_months": _add_months_sql,
    "trunc_year": _truncated_sql("year"),
    "trunc_quarter": _truncated_sql("quarter"),
    "trunc_month": _truncated_sql("month"),
    "trunc_week": lambda a, result: (
        f"{cast(a.sql[0], 0)} - (({cast(a.sql[0], 0)} + 3) % 7 + 7) % 7"
    ),
    "last_day": lambda a, result: dialect().count_days(dialect().last_day(_sql_day(a.sql[0]))),
    "add_seconds": _add_days_sql,
    "seconds_between": _between_sql,
    "age_years": _age_sql,
}
