"""Asks and previews a question over answers: its parts one after the other, for equal shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from dither.answer.asked import Asked, read_price
from dither.answer.preview import Amounts, Preview
from dither.answer.result import Result
from dither.errors import BudgetError, ParameterError, QueryError
from dither.postprocess.combined_result import (
    CombinedResult,
    build_combined_result,
    compute_number,
    describe_charges,
)
from dither.postprocess.split_question import Part, SplitQuestion, split_question, write_scalars
from dither.sql.dialects import read_dialect


class AnswersQuestions(Protocol):
    """What a connection does with one question."""

    def sql(self, sql: str, **terms: Any) -> Result:
        """Its answer."""

    def preview(self, sql: str, **terms: Any) -> Preview:
        """Its price and error."""


def ask_parts(
    connection: AnswersQuestions,
    question: Asked,
    refusal: QueryError,
    *,
    fresh: bool = False,
    dry_run: bool = False,
) -> CombinedResult:
    """The result of a question over answers; where it is none, the refusal of the whole question.

    What can be refused is refused before anything is spent: the parts must fit the budget together,
    and the whole is rehearsed on invented tables.
    """
    split, terms = _split(question, refusal)
    _check_budget(_preview_known(connection, split, terms, refusal))
    if not dry_run:
        _combine(connection, split, question, {**terms, "dry_run": True}).to_arrow()
    return _combine(connection, split, question, {**terms, "fresh": fresh, "dry_run": dry_run})


def _combine(
    connection: AnswersQuestions, split: SplitQuestion, question: Asked, terms: Mapping[str, Any]
) -> CombinedResult:
    """Ask part after part, and compute the table."""
    answers: dict[str, Result] = {}
    for part in split.parts:
        numbers = {
            scalar.name: compute_number(scalar.statement, answers) for scalar in part.scalars
        }
        text = write_scalars(part, numbers) if numbers else part.sql
        answers[part.name] = connection.sql(text, **terms)
    parts = list(answers.values())
    info = describe_charges(question.sql, parts)
    return build_combined_result(split, parts, question.level, info)


def preview_parts(connection: AnswersQuestions, question: Asked, refusal: QueryError) -> Preview:
    """Price and error of all parts together; reads no data, spends nothing."""
    if question.within is not None:
        raise ParameterError(
            "within= finds the price of one answer, and this question is computed from several, or "
            "from one: give epsilon= or rho="
        )
    split, terms = _split(question, refusal)
    terms["group_size"] = question.group_size
    previews = _preview_known(connection, split, terms, refusal)
    first = previews[0]
    count = len(split.parts)
    return replace(
        first,
        price=first.price * count,
        charged=_add_charges(previews, count),
        rows=first.rows if count == 1 else None,
        columns=tuple(column for preview in previews for column in preview.columns),
        stored=len(previews) == count and all(preview.stored for preview in previews),
    )


def _split(question: Asked, refusal: QueryError) -> tuple[SplitQuestion, dict[str, Any]]:
    """The parts of a question, and the terms on which each is asked."""
    dialect = read_dialect(question.sql)
    split = split_question(dialect.sql)
    if split is None:
        raise refusal
    if question.weights is not None:
        raise ParameterError(
            "weights= are for the columns of one answer, and this question is computed from "
            "answers: ask its parts one by one"
        )
    price = read_price(question, dialect)
    ends = question.ends
    terms = {
        price.name: price.value / len(split.parts),
        "confidence": question.level,
        "max_groups": question.max_groups,
        "quantile_intervals": False if ends is None else ends.price_share,
    }
    return split, terms


def _preview_known(
    connection: AnswersQuestions,
    split: SplitQuestion,
    terms: Mapping[str, Any],
    refusal: QueryError,
) -> list[Preview]:
    """The previews of the parts whose text does not depend on the answer of another."""
    return [
        _preview_part(connection, part, terms, refusal) for part in split.parts if not part.scalars
    ]


def _preview_part(
    connection: AnswersQuestions, part: Part, terms: Mapping[str, Any], refusal: QueryError
) -> Preview:
    try:
        return connection.preview(part.sql, **terms)
    except QueryError as error:
        if str(error).splitlines()[0] == str(refusal).splitlines()[0]:
            raise refusal from None
        raise QueryError(f"{error}\nThis is the part of the question that needs data.") from None


def _check_budget(previews: list[Preview]) -> None:
    """Refuses answers that the budget cannot pay together."""
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
