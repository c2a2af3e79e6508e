"""Functions of truth: comparisons, choices and nulls. Truth values are the integers 0 and 1; unknown is null."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dither.plan.domain import INTEGERS, Domain, hull, is_stored
from dither.plan.functions.table import Arguments, Function, NullRule, cast, truth

SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _aligned(a: Arguments) -> Arguments:
    """All arguments as one kind on one grid: numbers on their common step, constant labels as codes."""
    kinds = {domain.kind for domain in a.domains}
    if kinds == {"number"}:
        step, factors = a.common()
        domains = tuple(
            replace(d, low=d.low * f, high=d.high * f, step=step, keys=None)
            for d, f in zip(a.domains, factors, strict=True)
        )
        most = max(domain.largest for domain in domains)
        return replace(
            a, domains=domains, sql=tuple(f"{cast(s, most)} * {f}" for s, f in zip(a.sql, factors, strict=False))
        )
    if kinds == {"category", "text"}:
        return _with_labels(a)
    if kinds == {"timestamp"}:  # a constant has no zone of its own
        zones = [domain.offset for domain, constant in zip(a.domains, a.constants, strict=True) if constant is None]
        offset = zones[0] if zones else 0
        a = replace(
            a,
            domains=tuple(
                domain if constant is None else replace(domain, offset=offset)
                for domain, constant in zip(a.domains, a.constants, strict=True)
            ),
        )
    hull(a.domains, a.function)
    if kinds <= set(INTEGERS):
        return replace(a, sql=tuple(cast(sql, 0) for sql in a.sql))
    return a


def _with_labels(a: Arguments) -> Arguments:
    labels = next(domain.labels for domain in a.domains if domain.kind == "category")
    domains, sql = [], []
    for place, domain in enumerate(a.domains):
        text = a.sql[place] if a.sql else ""
        if domain.kind == "text":
            if a.constants[place] not in labels:
                raise a.refuse(f"a category is compared with one of its labels ({', '.join(labels[:20])})")
            at = labels.index(a.text(place))
            domain, text = Domain("category", False, at, at, labels=labels), str(at)
        elif domain.labels != labels:
            raise a.refuse("two categories with different labels")
        domains.append(domain)
        sql.append(text)
    return replace(a, domains=tuple(domains), sql=tuple(sql) if a.sql else ())


def _comparable(a: Arguments) -> None:
    aligned = _aligned(a)
    kind = aligned.domains[0].kind
    if kind == "id":
        raise a.refuse("ids name people or rows and are never read")
    if kind in ("category", "text", "boolean") and a.function not in ("eq", "ne", "in", "is_distinct_from", "nullif"):
        raise a.refuse(f"a {kind} has no order that all engines share: compare with eq or ne")


def _comparison(a: Arguments) -> Domain:
    if len(a.domains) != 2:
        raise a.refuse(f"takes 2 arguments, got {len(a.domains)}")
    _comparable(a)
    return truth(a.any_null)


def _comparison_sql(a: Arguments, result: Domain) -> str:
    left, right = _aligned(a).sql
    return f"CAST(({left}) {SIGNS[a.function]} ({right}) AS BIGINT)"


def _between(a: Arguments) -> Domain:
    if len(a.domains) != 3:
        raise a.refuse(f"takes 3 arguments, got {len(a.domains)}")
    _comparable(a)
    return truth(a.any_null)


def _between_sql(a: Arguments, result: Domain) -> str:
    value, low, high = _aligned(a).sql
    return f"CAST((({value}) >= ({low}) AND ({value}) <= ({high})) AS BIGINT)"


def _in(a: Arguments) -> Domain:
    if not 2 <= len(a.domains) <= 1000 or None in a.constants[1:]:
        raise a.refuse("takes a value and a list of 1 to 999 constants")
    _comparable(a)
    return truth(a.domains[0].nullable)


def _in_sql(a: Arguments, result: Domain) -> str:
    value, *listed = _aligned(a).sql
    return f"CAST((({value}) IN ({', '.join(listed)})) AS BIGINT)"


def _truths(a: Arguments) -> Domain:
    a.all_of("boolean", 1 if a.function == "not" else 2)
    if a.function in ("not", "xor") and len(a.domains) != (1 if a.function == "not" else 2):
        raise a.refuse("takes another number of arguments")
    return truth(a.any_null)


def _joined(word: str) -> Callable[[Arguments, Domain], str]:
    return lambda a, result: "CAST((" + f" {word} ".join(f"({sql} = 1)" for sql in a.sql) + ") AS BIGINT)"


def _xor_sql(a: Arguments, result: Domain) -> str:
    return f"CAST({a.sql[0]} <> {a.sql[1]} AS BIGINT)"


def _any_kind(a: Arguments) -> Domain:
    if len(a.domains) != 1 or a.domains[0].kind == "id":
        raise a.refuse("takes one value that is no id")
    return truth(False)


def _is_truth(a: Arguments) -> Domain:
    a.expect("boolean")
    return truth(False)


def _distinct(a: Arguments) -> Domain:
    _comparison(a)
    return truth(False)


def _distinct_sql(a: Arguments, result: Domain) -> str:
    left, right = _aligned(a).sql
    return f"CAST((({left}) IS DISTINCT FROM ({right})) AS BIGINT)"


def _chosen(a: Arguments, places: list[int], nullable: bool) -> Domain:
    """The domain of a value that is one of some arguments."""
    some = replace(
        a,
        domains=tuple(a.domains[p] for p in places),
        constants=tuple(a.constants[p] for p in places),
        sql=(),
    )
    found = hull(_aligned(some).domains, a.function)
    if found.kind == "id":
        raise a.refuse("ids name people or rows and are never read")
    return replace(found, nullable=nullable, keys=None, undeclared=False)


def _chosen_sql(a: Arguments, places: list[int]) -> tuple[str, ...]:
    some = Arguments(
        a.function,
        tuple(a.domains[p] for p in places),
        tuple(a.constants[p] for p in places),
        tuple(a.sql[p] for p in places),
    )
    return _aligned(some).sql


def _case_places(a: Arguments) -> list[int]:
    last = [len(a.domains) - 1] if len(a.domains) % 2 else []
    return [*range(1, len(a.domains), 2), *last]


def _case(a: Arguments) -> Domain:
    if not 2 <= len(a.domains) <= 101:
        raise a.refuse("takes pairs of a condition and a value, then perhaps a value for the rest")
    for place in range(0, len(a.domains) - 1, 2):
        if a.domains[place].kind != "boolean":
            raise a.refuse(f"argument {place + 1} must be a truth value")
    places = _case_places(a)
    return _chosen(a, places, len(a.domains) % 2 == 0 or any(a.domains[p].nullable for p in places))


def _case_sql(a: Arguments, result: Domain) -> str:
    places = _case_places(a)
    values = dict(zip(places, _chosen_sql(a, places), strict=True))
    whens = " ".join(f"WHEN {a.sql[p]} = 1 THEN {values[p + 1]}" for p in range(0, len(a.domains) - 1, 2))
    rest = f" ELSE {values[places[-1]]}" if len(a.domains) % 2 else ""
    return f"CASE {whens}{rest} END"


def _if(a: Arguments) -> Domain:
    if len(a.domains) != 3:
        raise a.refuse("takes a condition and two values")
    return _case(a)


def _coalesce(a: Arguments) -> Domain:
    if not 2 <= len(a.domains) <= 50:
        raise a.refuse("takes 2 to 50 values")
    return _chosen(a, list(range(len(a.domains))), all(domain.nullable for domain in a.domains))


def _coalesce_sql(a: Arguments, result: Domain) -> str:
    return f"coalesce({', '.join(_chosen_sql(a, list(range(len(a.domains)))))})"


def _nullif(a: Arguments) -> Domain:
    _comparison(a)
    return replace(a.domains[0], nullable=True, keys=None, undeclared=False)


def _nullif_sql(a: Arguments, result: Domain) -> str:
    left, right = _aligned(a).sql
    kept = cast(a.sql[0], a.domains[0].largest) if is_stored(a.domains[0]) else a.sql[0]
    return f"CASE WHEN ({left}) = ({right}) THEN NULL ELSE {kept} END"


_ANY: NullRule = "null if an argument is"
_NONE = "none needed"
_SAID = {"eq": "equal", "ne": "different", "lt": "less", "le": "less or equal", "gt": "more", "ge": "more or equal"}
FUNCTIONS: tuple[Function, ...] = (
    *(
        Function(
            name, "two values of a kind", f"whether the first is {said}", _ANY, _NONE, _comparison, _comparison_sql
        )
        for name, said in _SAID.items()
    ),
    Function(
        "between",
        "a value and two ends",
        "whether it lies between, ends included",
        "three-valued",
        _NONE,
        _between,
        _between_sql,
    ),
    Function("in", "a value and constants", "whether it is one of them", _ANY, _NONE, _in, _in_sql),
    Function("and", "two or more truth values", "whether all are true", "three-valued", _NONE, _truths, _joined("AND")),
    Function("or", "two or more truth values", "whether one is true", "three-valued", _NONE, _truths, _joined("OR")),
    Function(
        "not", "a truth value", "the other one", _ANY, _NONE, _truths, lambda a, result: f"1 - {cast(a.sql[0], 1)}"
    ),
    Function("xor", "two truth values", "whether exactly one is true", _ANY, _NONE, _truths, _xor_sql),
    Function(
        "is_null",
        "a value",
        "whether it is null",
        "never null",
        _NONE,
        _any_kind,
        lambda a, r: f"CAST(({a.sql[0]} IS NULL) AS BIGINT)",
    ),
    Function(
        "is_not_null",
        "a value",
        "whether it is not null",
        "never null",
        _NONE,
        _any_kind,
        lambda a, r: f"CAST(({a.sql[0]} IS NOT NULL) AS BIGINT)",
    ),
    Function(
        "is_true",
        "a truth value",
        "whether it is true, not false or null",
        "never null",
        _NONE,
        _is_truth,
        lambda a, r: f"coalesce({cast(a.sql[0], 1)}, 0)",
    ),
    Function(
        "is_false",
        "a truth value",
        "whether it is false, not true or null",
        "never null",
        _NONE,
        _is_truth,
        lambda a, r: f"1 - coalesce({cast(a.sql[0], 1)}, 1)",
    ),
    Function(
        "is_distinct_from",
        "two values of a kind",
        "whether they differ, null being a value",
        "never null",
        _NONE,
        _distinct,
        _distinct_sql,
    ),
    Function(
        "if",
        "a truth value and two values",
        "the first if true, else the second",
        "null if it says so",
        _NONE,
        _if,
        _case_sql,
    ),
    Function(
        "case",
        "conditions and values in turn, then perhaps a value for the rest",
        "the value after the first true condition",
        "null if it says so",
        _NONE,
        _case,
        _case_sql,
    ),
    Function(
        "coalesce",
        "two or more values of a kind",
        "the first that is not null",
        "skips nulls",
        _NONE,
        _coalesce,
        _coalesce_sql,
    ),
    Function(
        "nullif",
        "two values of a kind",
        "null if they are equal, else the first",
        "null if it says so",
        _NONE,
        _nullif,
        _nullif_sql,
    ),
)
