"""Texts and labels that are joined by: both sides as texts, where their stored values differ."""

from __future__ import annotations

from dataclasses import replace

from dither.plan.domain import Domain
from dither.plan.stability.join import comparable
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
    """Turn a field into a text, which can meet any other text."""
    assert field.of is not None
    return replace(field, of=as_text(field.of, _find_domain(field, scope)))
