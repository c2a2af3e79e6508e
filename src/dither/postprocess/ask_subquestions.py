"""Asks and previews a question over answers: its parts one after the other, for equal shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import pyarrow as pa

from dither.answer.asked import Asked, read_price
from dither.answer.preview import Amounts, Preview
from dither.answer.result import Result
from dither.canonical import decimal_text
from dither.catalog import Catalog
from dither.errors import BudgetError, DitherError, ParameterError, QueryError
from dither.postprocess.combined_result import (
    CombinedResult,
    compute_number,
    describe_charges,
    list_public_values,
    make_combined_result,
    name_public_rows,
)
from dither.postprocess.split_question import (
    SplitQuestion,
    SubQuestion,
    split_question,
    write_scalars,
)
from dither.question.unit_limits import PartLimits, UnitLimits
from dither.sql.dialect_question import DialectQuestion
from dither.sql.dialects import read_dialect
from dither.sql.kinds import MixedKindsError
from dither.sql.refusals.table import REFUSALS

Ask: TypeAlias = Callable[[Asked], Result]
ShowPreview: TypeAlias = Callable[[Asked], Preview]
ReadPublic: TypeAlias = Callable[[str], pa.Table]
_STAND_INS = ("1000000000", "-1000000000")
_OF_STAND_INS = (
    "a condition waits for the number of another answer: this is what it is with one beyond all "
    "values in its place"
)
_MOST_TRIED = 3
"""Numbers that are each tried above and below all values."""


@dataclass(frozen=True)
class SplitTerms:
    """A question that was split, the terms of each of its parts, and why it is refused as one."""

    split: SplitQuestion
    terms: Asked
    refusal: QueryError
    read_public: ReadPublic

    def ask_part(self, name: str, sql: str) -> Asked:
        """The terms of one part, with its own limits where some were bought."""
        limits = self.terms.limits
        if isinstance(limits, PartLimits):
            limits = dict(limits.parts)[name]
        return replace(self.terms, sql=sql, limits=limits)


def ask_subquestions(
    question: Asked,
    refusal: QueryError,
    catalog: Catalog,
    preview: ShowPreview,
    rehearse: Ask | None,
    ask: Ask,
    read_public: ReadPublic,
    *,
    fresh: bool = False,
    dry_run: bool = False,
    split: SplitQuestion | None = None,
) -> CombinedResult:
    """Answer a question over answers: ask its parts, and compute the rest from their answers.

    Raises the refusal of the whole question where it is no such question. What can be refused is
    refused before anything is spent: the whole is rehearsed on invented tables, and the first part
    that is charged must fit the budget together with all after it. `fresh` says that answers which
    are stored are bought anew, `dry_run` that none is charged. `rehearse` is None where the same
    question was rehearsed before; its `split` is then known too.
    """
    split_terms = read_split(question, refusal, catalog, read_public, split)
    previews = _preview_known(split_terms, preview)
    if rehearse is not None:
        _combine(question, split_terms, rehearse).to_arrow()

    def check(position: int, terms: Asked) -> None:
        own_preview = preview(terms)
        names = [subquestion.name for subquestion in split_terms.split.subquestions[position + 1 :]]
        if fresh or not own_preview.stored:
            later = [previews.get(name, own_preview) for name in names]
            _check_budget(
                [
                    own_preview,
                    *(
                        later_preview
                        for later_preview in later
                        if fresh or not later_preview.stored
                    ),
                ]
            )

    return _combine(question, split_terms, ask, None if dry_run else check)


def preview_subquestions(
    question: Asked,
    refusal: QueryError,
    catalog: Catalog,
    preview: ShowPreview,
    read_public: ReadPublic,
) -> Preview:
    """Price and error of all parts together; reads no data, spends nothing."""
    split_terms = read_split(question, refusal, catalog, read_public)
    if question.within is not None:
        raise ParameterError(
            "within= finds the price of one answer, and this question is computed from several, or "
            "from one: give epsilon= or rho="
        )
    previews = _preview_all(split_terms, preview)
    first = previews[0]
    count = len(split_terms.split.subquestions)
    return replace(
        first,
        price=first.price * count,
        charged=_add_charges(previews, count),
        rows=first.rows if count == 1 else None,
        columns=tuple(column for preview in previews for column in preview.columns),
        stored=len(previews) == count and all(preview.stored for preview in previews),
    )


def read_split(
    question: Asked,
    refusal: QueryError,
    catalog: Catalog,
    read_public: ReadPublic,
    split: SplitQuestion | None = None,
) -> SplitTerms:
    """Split a question into parts, unless that was done before; the terms of each are an equal
    share of the price.

    Raises `refusal` where it cannot be split.
    """
    if isinstance(refusal, MixedKindsError):
        raise refusal
    try:
        dialect = read_dialect(question.sql)
    except QueryError:
        raise refusal from None
    split = split or _split_text(dialect.sql, catalog, read_public)
    if split is None or _has_terms_of_one_answer(dialect):
        raise refusal
    if question.weights is not None:
        raise ParameterError(
            "weights= are for the columns of one answer, and this question is computed from "
            "answers: ask its parts one by one"
        )
    check_part_limits(question.limits, split)
    limits = [limit for limit in (question.max_groups, dialect.max_groups) if limit is not None]
    question = replace(question, max_groups=min(limits, default=None))
    if question.within is not None:
        return SplitTerms(split, question, refusal, read_public)
    price = read_price(question, dialect)
    share = price.value / len(split.subquestions)
    terms = replace(
        question,
        epsilon=share if price.name == "epsilon" else None,
        rho=share if price.name == "rho" else None,
    )
    return SplitTerms(split, terms, refusal, read_public)


def check_part_limits(limits: UnitLimits | PartLimits | None, split: SplitQuestion) -> None:
    """Refuse limits that were not bought for the parts of this question."""
    names = [subquestion.name for subquestion in split.subquestions]
    if limits is None or (isinstance(limits, UnitLimits) and len(names) == 1):
        return
    if isinstance(limits, UnitLimits) or [name for name, _ in limits.parts] != names:
        raise ParameterError(
            f"this question is computed from {len(names)} answers, and limits= are for others: buy "
            'them for this question, as in limits = con.suggest("limits", sql, epsilon=0.1)'
        )


def _split_text(sql: str, catalog: Catalog, read_public: ReadPublic) -> SplitQuestion | None:
    """Split the text of a question by the tables of a catalog."""
    tables = {
        table.name.lower(): frozenset(column.name.lower() for column in table.columns)
        for table in catalog.tables
    }
    public_tables = {table.name.lower() for table in catalog.tables if table.kind == "public"}
    return split_question(
        sql, tables, public_tables, lambda *asked: list_public_values(read_public, *asked)
    )


def _has_terms_of_one_answer(dialect: DialectQuestion) -> bool:
    """Whether the options of a dialect state what no part would know of."""
    has_options = dialect.delta is not None or dialect.public_groups
    return has_options or bool(dialect.intervals) or bool(dialect.reports) or dialect.rewritten


def _combine(
    question: Asked,
    split_terms: SplitTerms,
    ask: Ask,
    check: Callable[[int, Asked], None] | None = None,
) -> CombinedResult:
    """Check and ask part after part, and compute the table."""
    answers: dict[str, Result] = {}
    public_rows = name_public_rows(split_terms.split.public_tables, split_terms.read_public)
    for position, subquestion in enumerate(split_terms.split.subquestions):
        numbers = {
            scalar.name: compute_number(scalar, answers, public_rows)
            for scalar in subquestion.scalars
        }
        text = write_scalars(subquestion, numbers) if numbers else subquestion.sql
        terms = split_terms.ask_part(subquestion.name, text)
        if check is not None:
            check(position, terms)
        answers[subquestion.name] = ask(terms)
    results = list(answers.values())
    info = describe_charges(question.sql, results)
    return make_combined_result(split_terms.split, results, question.level, info, public_rows)


def _preview_waiting(
    subquestion: SubQuestion, split_terms: SplitTerms, preview: ShowPreview
) -> Preview | None:
    """Preview a part whose text holds numbers of other answers, with others in their place.

    These lie beyond all values, above or below: a bound of a comparison then narrows nothing in one
    of the previews. The widest is shown. None where the part cannot be previewed so. Limits that
    are for another part are refused.
    """
    previews: list[Preview] = []
    refusal: ParameterError | None = None
    names = [scalar.name for scalar in subquestion.scalars]
    for chosen in product(_STAND_INS, repeat=min(len(names), _MOST_TRIED)):
        numbers = dict.fromkeys(names, chosen[0]) | dict(zip(names, chosen, strict=False))
        text = write_scalars(subquestion, numbers)
        terms = split_terms.ask_part(subquestion.name, text)
        try:
            previews.append(preview(terms))
        except ParameterError as error:
            refusal = error if terms.limits is not None else None
        except DitherError:
            continue
    if not previews and refusal is not None:
        raise refusal
    if not previews:
        return None
    widest = max(previews, key=lambda shown: [column.half_width or 0 for column in shown.columns])
    columns = tuple(
        replace(column, notes=(*column.notes, _OF_STAND_INS)) for column in widest.columns
    )
    return replace(widest, columns=columns, stored=False, earlier=None)


def _preview_all(split_terms: SplitTerms, preview: ShowPreview) -> list[Preview]:
    """Preview all parts in their order; one that waits for the answer of another has a number in
    its place, and is left out where it cannot be previewed so."""
    previews: dict[str, Preview | None] = {**_preview_known(split_terms, preview)}
    for subquestion in split_terms.split.subquestions:
        if subquestion.scalars:
            waiting = _preview_waiting(subquestion, split_terms, preview)
            previews[subquestion.name] = waiting
    names = [subquestion.name for subquestion in split_terms.split.subquestions]
    return [shown for name in names if (shown := previews[name]) is not None]


def _preview_known(split_terms: SplitTerms, preview: ShowPreview) -> dict[str, Preview]:
    """Map the names of parts to their previews, if their text depends on no other part's answer."""
    previews: dict[str, Preview] = {}
    for subquestion in split_terms.split.subquestions:
        if subquestion.scalars:
            continue
        try:
            terms = split_terms.ask_part(subquestion.name, subquestion.sql)
            previews[subquestion.name] = preview(terms)
        except QueryError as error:
            is_about_public = str(error).startswith(REFUSALS["public only"].what)
            if (
                is_about_public
                or str(error).splitlines()[0] == str(split_terms.refusal).splitlines()[0]
            ):
                raise split_terms.refusal from None
            raise QueryError(
                f"{error}\nThis is the part of the question that needs data."
            ) from None
    return previews


def _check_budget(previews: list[Preview]) -> None:
    """Refuse answers that the budget cannot pay together: the first is asked next."""
    balance = previews[0].balance
    charged = _add_charges(previews, 0)
    if balance is None:
        return
    if charged.amount > balance.left or charged.delta > balance.delta_left:
        delta = f", delta {decimal_text(charged.delta, up=True)}" if charged.delta else ""
        raise BudgetError(
            f"the {len(previews)} answers that this question is computed from cost "
            f"{decimal_text(charged.amount, up=True)}{delta} together, and "
            f"{decimal_text(balance.left)} is left: ask "
            "with a smaller price"
        )


def _add_charges(previews: list[Preview], count: int) -> Amounts:
    """Add up what the parts take; one that cannot be previewed takes what the first does."""
    unknown = max(0, count - len(previews))
    amount = sum((preview.charged.amount for preview in previews), Fraction(0))
    delta = sum((preview.charged.delta for preview in previews), Fraction(0))
    if unknown:
        amount += unknown * previews[0].charged.amount
        delta += unknown * previews[0].charged.delta
    return Amounts(amount, delta)
