"""Texts and labels that are joined by: both sides as texts, where their stored values differ."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Domain
from dither.plan.stability import Public
from dither.plan.stability.join import comparable
from dither.rules import PrivacyRule
from dither.sql.resolve import as_text
from dither.sql.scope import Field, Scope

Pair = tuple[Field, Field]


def align_texts(pairs: list[Pair], left: Scope, right: Scope) -> list[Pair]:
    """Turn labels that meet texts into texts, unless the texts are the list that the labels come
    from."""
    aligned_pairs = []
    for left_field, right_field in pairs:
        if _have_two_lists(left_field, right_field, left, right):
            left_field = _read_text(left_field, left)
            right_field = _read_text(right_field, right)
        aligned_pairs.append((left_field, right_field))
    return aligned_pairs


def check_stored_texts(pairs: list[Pair], left: Scope, right: Scope, node: exp.Expr) -> None:
    """Refuse a join by a public column whose list of labels the private side does not have.

    Its labels would have to be read as texts, and how many of its rows share a text is no
    registered fact.
    """
    for left_field, right_field in pairs:
        if not _have_two_lists(left_field, right_field, left, right):
            continue
        for field, joined, scope in (
            (right_field, left_field, right),
            (left_field, right_field, left),
        ):
            is_public = isinstance(scope.context.analyse(scope.relation.plan).node, Public)
            if is_public and _find_domain(field, scope).labels:
                raise scope.context.error(
                    f"{joined.name} cannot be joined with {field.name}: they have different lists "
                    f"of labels. Instead: WHERE {joined.name} IN (SELECT {field.name} FROM ...), "
                    f"or declare both with the same list {PrivacyRule.PUBLIC_FACTS.label}",
                    node,
                )


def _have_two_lists(left_field: Field, right_field: Field, left: Scope, right: Scope) -> bool:
    """Whether two fields are texts or labels that are stored in different ways."""
    left_domain = _find_domain(left_field, left)
    right_domain = _find_domain(right_field, right)
    are_texts = {left_domain.kind, right_domain.kind} <= {"category", "text"}
    return are_texts and not comparable(left_domain, right_domain)


def _find_domain(field: Field, scope: Scope) -> Domain:
    assert field.of is not None
    return scope.domain(field.of)


def _read_text(field: Field, scope: Scope) -> Field:
    """Turn a field into a text without a list, which can meet any other text."""
    domain = _find_domain(field, scope)
    value = field.of
    assert value is not None
    text: Expression = as_text(value, domain)
    if domain.kind == "text" and domain.labels:
        text = Call("concat", (value, Value("text", "")))
    return replace(field, of=text)
