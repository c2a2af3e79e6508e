"""Jobs: named algorithms that the curator runs as a whole, with one answer on the schedule.

An algorithm chooses what to measure next from what was released so far. Its steps are not sent one
by one, since when each was measured would tell of the data. Only the algorithms of this list run;
what they return is computed from released numbers alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dither.protocol.act_messages import StrictModel

MOST_COLUMNS = 1_000
MOST_LABELS = 100_000
ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Label = Annotated[str, StringConstraints(max_length=1_000)]
Words = Annotated[str, StringConstraints(max_length=1_000)]
Parameters = Annotated[str, StringConstraints(max_length=100_000)]
Ratio = Annotated[str, StringConstraints(max_length=8_200, pattern=r"^[0-9]+/[0-9]+$")]
BinsToBuy = Annotated[str, StringConstraints(max_length=8, pattern=r"^buy(:[0-9]{1,4})?$")]
Bins = dict[ColumnName, int | BinsToBuy | Annotated[list[Label], Field(max_length=MOST_COLUMNS)]]
"""By column how many bins of equal width, the values at which bins begin, as texts, or how many
are to begin at bought quantiles."""


class ConstraintDocument(StrictModel):
    """A comparison of two columns that holds for every row, and how that is known."""

    text: Words
    provenance: Words


class SynthesizeTerms(StrictModel):
    """A synthetic table. `labels` are those of undeclared categories, as the asker bought them.

    `price` is in the measure of the lease; `asked` are the words for it in certificates.
    """

    algorithm: Literal["synthesize"] = "synthesize"
    table: ColumnName
    columns: Annotated[list[ColumnName], Field(min_length=1, max_length=MOST_COLUMNS)]
    method: ColumnName
    bins: Bins
    constraints: Annotated[list[ConstraintDocument], Field(max_length=MOST_COLUMNS)]
    labels: dict[ColumnName, Annotated[list[Label], Field(max_length=MOST_LABELS)]]
    measure: Literal["epsilon", "rho"]
    price: Ratio
    asked: Words


class LinkedTerms(StrictModel):
    """Two linked synthetic tables; `columns` are lists by table."""

    algorithm: Literal["synthesize_linked"] = "synthesize_linked"
    parent: ColumnName
    child: ColumnName
    columns: dict[ColumnName, Annotated[list[ColumnName], Field(max_length=MOST_COLUMNS)]]
    method: ColumnName
    bins: Bins
    measure: Literal["epsilon", "rho"]
    price: Ratio
    asked: Words


class FitTerms(StrictModel):
    """A model of a table. `rows` is the plan of the rows; `parameters` are JSON, as text."""

    algorithm: Literal["fit"] = "fit"
    estimator: ColumnName
    parameters: Parameters
    rows: dict[str, Any]
    target: ColumnName | None = None
    columns: Annotated[list[ColumnName], Field(min_length=1, max_length=MOST_COLUMNS)]


JobTerms = Annotated[SynthesizeTerms | LinkedTerms | FitTerms, Field(discriminator="algorithm")]


class RunJob(StrictModel):
    """Run a named algorithm: one charge, many steps, one answer.

    A second call with the same `idempotency_key` is given the first one's answer, or told again
    that it failed after its charge, and charges nothing. Under another key the same job is charged
    again.
    """

    kind: Literal["job"] = "job"
    pot: ColumnName
    terms: JobTerms
    idempotency_key: ColumnName


class JobDone(StrictModel):
    """What a job made: a model as its own format writes it (JSON, as text)."""

    kind: Literal["job"] = "job"
    document: str
