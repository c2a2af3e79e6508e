"""Asks and previews a question over answers: its parts one after the other, for equal shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from dither.answer.asked import Asked, read_price
from dither.answer.preview import Amounts, Preview
from dither.answer.result import Result
from dither.errors import BudgetError, ParameterError, QueryError
from dither.postprocess.combined_result import (
    CombinedResult,
    compute_number,
    describe_charges,
    make_combined_result,
)
from dither.postprocess.split_question import SplitQuestion, split_question, write_scalars
from dither.sql.dialects import read_dialect
from dither.sql.kinds import MixedKindsError
from dither.sql.refusals.table import REFUSALS

Ask: TypeAlias = Callable[[Asked], Result]
ShowPreview: TypeAlias = Callable[[Asked], Preview]


@dataclass(frozen=True)
class _Parts:
    """A question that was split, the terms of each of its parts, and why it is refused as one."""

    split: SplitQuestion
    terms: Asked
    refusal: QueryError


def ask_parts(
    question: Asked, refusal: QueryError, preview: ShowPreview, rehearse: Ask, ask: Ask
) -> CombinedResult:
    """The result of a question over answers; where it is none, the refusal of the whole question.

    What can be refused is refused before anything is spent: the parts must fit the budget together,
    and the whole is rehearsed on invented tables.
    """
    parts = _split(question, refusal)
    _check_budget(_preview_known(parts, preview))
    _combine(question, parts, rehearse).to_arrow()
    return _combine(question, parts, ask)


def preview_parts(question: Asked, refusal: QueryError, preview: ShowPreview) -> Preview:
    """Price and error of all parts together; reads no data, spends nothing."""
    parts = _split(question, refusal)
    if question.within is not None:
        raise ParameterError(
            "within= finds the price of one answer, and this question is computed from several, or "
            "from one: give epsilon= or rho="
        )
    previews = _preview_known(parts, preview)
    first = previews[0]
    count = len(parts.split.parts)
    return replace(
        first,
        price=first.price * count,
        charged=_add_charges(previews, count),
        rows=first.rows if count == 1 else None,
        columns=tuple(column for preview in previews for column in preview.columns),
        stored=len(previews) == count and all(preview.stored for preview in previews),
    )


def _split(question: Asked, refusal: QueryError) -> _Parts:
    """The parts of a question, and the terms of each: an equal share of the price."""
    if isinstance(refusal, MixedKindsError):
        raise refusal
    try:
        dialect = read_dialect(question.sql)
    except QueryError:
        raise refusal from None
    split = split_question(dialect.sql)
    is_bound_to_one = dialect.intervals or dialect.public_groups or dialect.delta is not None
    if split is None or is_bound_to_one:
        # these options are about one answer: in parts they would be lost
        raise refusal
    if question.weights is not None:
        raise ParameterError(
            "weights= are for the columns of one answer, and this question is computed from "
            "answers: ask its parts one by one"
        )
    if question.within is not None:
        return _Parts(split, question, refusal)
    price = read_price(question, dialect)
    share = price.value / len(split.parts)
    limits = [limit for limit in (question.max_groups, dialect.max_groups) if limit is not None]
    terms = replace(
        question,
        max_groups=min(limits, default=None),
        epsilon=share if price.name == "epsilon" else None,
        rho=share if price.name == "rho" else None,
    )
    return _Parts(split, terms, refusal)


def _combine(question: Asked, parts: _Parts, ask: Ask) -> CombinedResult:
    """Ask part after part, and compute the table."""
    answers: dict[str, Result] = {}
    for part in parts.split.parts:
        numbers = {
            scalar.name: compute_number(scalar.statement, answers) for scalar in part.scalars
        }
        text = write_scalars(part, numbers) if numbers else part.sql
        answers[part.name] = ask(replace(parts.terms, sql=text))
    results = list(answers.values())
    info = describe_charges(question.sql, results)
    return make_combined_result(parts.split, results, question.level, info)


def _preview_known(parts: _Parts, preview: ShowPreview) -> list[Preview]:
    """The previews of the parts whose text does not depend on the answer of another."""
    previews: list[Preview] = []
    for part in parts.split.parts:
        if part.scalars:
            continue
        try:
            previews.append(preview(replace(parts.terms, sql=part.sql)))
        except QueryError as error:
            is_about_public = str(error).startswith(REFUSALS["public only"].what)
            if is_about_public or str(error).splitlines()[0] == str(parts.refusal).splitlines()[0]:
                raise parts.refusal from None
            raise QueryError(
                f"{error}\nThis is the part of the question that needs data."
            ) from None
    return previews


def _check_budget(previews: list[Preview]) -> None:
    """Refuse answers that the budget cannot pay together."""
    balance = previews[0].balance
    charged = _add_charges([preview for preview in previews if not preview.stored], 0)
    if balance is not None and charged.amount > balance.left:
        raise BudgetError(
            f"the {len(previews)} answers that this question is computed from cost "
            f"{float(charged.amount):g} together, and {float(balance.left):g} is left: ask with a "
            "smaller price"
        )


def _add_charges(previews: list[Preview], count: int) -> Amounts:
    """What the parts take together; a part that cannot be previewed takes what the first does."""
    unknown = max(0, count - len(previews))
    amount = sum((preview.charged.amount for preview in previews), Fraction(0))
    delta = sum((preview.charged.delta for preview in previews), Fraction(0))
    if unknown:
        amount += unknown * previews[0].charged.amount
        delta += unknown * previews[0].charged.delta
    return Amounts(amount, delta)
