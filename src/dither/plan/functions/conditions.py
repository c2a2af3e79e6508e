"""Functions of truth: comparisons, choices and nulls. Truth values are the integers 0 and 1;
unknown is null."""

from __future__ import annotations

from dither.plan.domain import Domain
from dither.plan.functions.align import align_arguments
from dither.plan.functions.table import Arguments, Function, NullRule, truth


def _check_comparable(a: Arguments) -> None:
    """Refuse arguments that cannot be compared: mixed kinds, ids, and kinds without an order.

    Categories, texts and booleans may be tested for equality only.
    """
    kind = align_arguments(a).domains[0].kind  # refuses mixed kinds and unknown labels
    if kind == "id":
        raise a.refuse("ids name people or rows and are never read")
    if kind in ("category", "text", "boolean") and a.function not in (
        "eq",
        "ne",
        "in",
        "is_distinct_from",
        "nullif",
    ):
        raise a.refuse(f"a {kind} has no order that all engines share: compare with eq or ne")


def comparison(a: Arguments) -> Domain:
    """Compute the domain of a comparison of two values.

    Raises RefusedError where they have no common kind.
    """
    if len(a.domains) != 2:
        raise a.refuse(f"takes 2 arguments, got {len(a.domains)}")
    _check_comparable(a)
    return truth(a.any_null)


def _between(a: Arguments) -> Domain:
    """Compute the domain of BETWEEN: a truth value."""
    if len(a.domains) != 3:
        raise a.refuse(f"takes 3 arguments, got {len(a.domains)}")
    _check_comparable(a)
    return truth(a.any_null)


def _in(a: Arguments) -> Domain:
    """Compute the domain of IN with a list of constants: a truth value."""
    if not 2 <= len(a.domains) <= 1000 or None in a.constants[1:]:
        raise a.refuse("takes a value and a list of 1 to 999 constants")
    _check_comparable(a)
    return truth(a.domains[0].nullable)


def _truths(a: Arguments) -> Domain:
    """Compute the domain of AND, OR, XOR or NOT: a truth value."""
    a.all_of("boolean", 1 if a.function == "not" else 2)
    if a.function in ("not", "xor") and len(a.domains) != (1 if a.function == "not" else 2):
        raise a.refuse("takes another number of arguments")
    return truth(a.any_null)


def _any_kind(a: Arguments) -> Domain:
    if len(a.domains) != 1:
        raise a.refuse("takes one value")
    return truth(False)


def _is_truth(a: Arguments) -> Domain:
    a.expect("boolean")
    return truth(False)


def _distinct(a: Arguments) -> Domain:
    comparison(a)
    return truth(False)


_ANY: NullRule = "null if an argument is"
_NONE = "none needed"
_PHRASES = {
    "eq": "equal",
    "ne": "different",
    "lt": "less",
    "le": "less or equal",
    "gt": "more",
    "ge": "more or equal",
}
FUNCTIONS: tuple[Function, ...] = (
    *(
        Function(
            name, "two values of a kind", f"whether the first is {phrase}", _ANY, _NONE, comparison
        )
        for name, phrase in _PHRASES.items()
    ),
    Function(
        "between",
        "a value and two ends",
        "whether it lies between, ends included",
        "three-valued",
        _NONE,
        _between,
    ),
    Function("in", "a value and constants", "whether it is one of them", _ANY, _NONE, _in),
    Function(
        "and", "two or more truth values", "whether all are true", "three-valued", _NONE, _truths
    ),
    Function(
        "or", "two or more truth values", "whether one is true", "three-valued", _NONE, _truths
    ),
    Function("not", "a truth value", "the other one", _ANY, _NONE, _truths),
    Function("xor", "two truth values", "whether exactly one is true", _ANY, _NONE, _truths),
    Function("is_null", "a value", "whether it is null", "never null", _NONE, _any_kind),
    Function("is_not_null", "a value", "whether it is not null", "never null", _NONE, _any_kind),
    Function(
        "is_true",
        "a truth value",
        "whether it is true, not false or null",
        "never null",
        _NONE,
        _is_truth,
    ),
    Function(
        "is_false",
        "a truth value",
        "whether it is false, not true or null",
        "never null",
        _NONE,
        _is_truth,
    ),
    Function(
        "is_distinct_from",
        "two values of a kind",
        "whether they differ, null being a value",
        "never null",
        _NONE,
        _distinct,
    ),
)
