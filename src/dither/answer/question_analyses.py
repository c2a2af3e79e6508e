"""The analyses of one question: its counts and sums are analysed once, whatever the price."""

from __future__ import annotations

from dataclasses import dataclass, field

from dither.plan.algebra import Aggregate, Cells, Query
from dither.plan.analysed_query import AnalysedQuery, Analyses


@dataclass(frozen=True)
class QuestionAnalyses(Analyses):
    """Analyses that also keep queries of counts and sums, by rows (their hash), keys and columns.

    A question makes few of them; the object is kept and forgotten with the bound question.
    """

    _queries: dict[tuple[str, tuple[str, ...], tuple[Aggregate, ...]], AnalysedQuery] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def share_rows(cls, analyses: Analyses) -> QuestionAnalyses:
        """Analyses for one question that share analysed rows with those of all questions."""
        return cls(analyses.catalog, analyses.facts, analyses.rules, analyses._rows)

    def analyse_query(self, query: Query) -> AnalysedQuery:
        """The query over its analysed rows."""
        if not isinstance(query, Cells):
            return super().analyse_query(query)
        key = (query.plan.hash, query.keys, query.columns)
        analysed = self._queries.get(key)
        if analysed is None:
            analysed = super().analyse_query(query)
            self._queries[key] = analysed
        return analysed
