"""End to end: SQL text to release, on tiny neighbouring databases that the audit invents and
registers as *dev*.

For every pair and question: binding has the same outcome on both (the same recipe, or the same
words of refusal); the rows of each plan differ by no more than its claimed stability (symmetric
difference, by the naive evaluator); what is measured on the two databases (cells, those of unlisted
keys too, owners by key, rows by point of a quantile) differs by no more than was claimed for it, in
every norm (`sensitivity_check`); the answers have the same columns, types, keys, number of rows and
public facts. Then the tester runs the whole path as a black box. A prod lineage is refused before
anything is read (rule audits-fixed-in-advance). Time is shown, not judged: embedded mode makes no
promise about it.
"""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from scipy.stats import mannwhitneyu

from dither.audit import naive, questions, sensitivity_check
from dither.audit.alpha_budget import share
from dither.audit.black_box import test
from dither.audit.verdict import Budget, Verdict
from dither.errors import DitherError, RefusedError
from dither.plan.algebra import Keys, Query
from dither.plan.stability import Loose, Owned
from dither.rules import PrivacyRule
from dither.session import Connection

EPSILON = Fraction(1, 10)  # a low claim: a hundred runs can refute it
DELTA = 1e-9
_VARYING = {"release_id", "released_at", "pot_spent_after", "repeated"}


class RegisteredDatabase(Protocol):
    """A registered dev database. The command line makes it: only it may act as a steward."""

    @property
    def connection(self) -> Connection: ...

    def measured(self, query: Query) -> Any: ...
    def close(self) -> None: ...


Registrar = Callable[[str, questions.Files], RegisteredDatabase]


@dataclass
class Findings:
    """Counts of what was tried, and the faults."""

    pairs: int = 0
    row_pairs: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    measured: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: list[tuple[float, float]] = field(default_factory=list)

    @property
    def slower(self) -> float:
        """Compute the p-value of a rank test between the times of both sides: for information."""
        if len(self.seconds) < 8:
            return 1.0
        first_seconds, second_seconds = zip(*self.seconds, strict=True)
        return float(mannwhitneyu(first_seconds, second_seconds).pvalue)


def refuse_prod(connection: Connection) -> None:
    """An audit never reads a prod lineage."""
    if connection._kernel.version.context != "dev":
        raise RefusedError(
            "this dataset is prod: audits run on dev datasets only", rule=PrivacyRule.AUDITS
        )


def audit_system(
    register: Registrar,
    *,
    seconds: float,
    alpha: float = 1e-6,
    per_pair: int = 20,
    black_box_runs: int = 120,
    black_box_share: float = 0.5,
    row_pairs: int = 40,
    tell: Callable[[Findings], None] = lambda _: None,
) -> Findings:
    """Pairs of neighbours until the time is used up; at least one. Sample sizes are fixed in
    advance, time is not.

    Each registered pair goes the whole way; `row_pairs` more are put through the plans by the naive
    evaluator alone, which is a hundred times faster.
    """
    findings = Findings()
    start = time.monotonic()
    black_box_seconds = 0.0
    while not findings.pairs or time.monotonic() - start < seconds:
        files = questions.neighbours()
        databases = [register(questions.CATALOG, side_files) for side_files in files]
        try:
            for database in databases:
                refuse_prod(database.connection)
            oracles = [
                _register_oracle(side_files, databases[0].connection) for side_files in files
            ]
            sql_texts = [questions.question() for _ in range(per_pair)]
            live = [sql for sql in sql_texts if _compare(findings, databases, oracles, sql)]
            for _ in range(row_pairs):
                _compare_more_rows(findings, databases[0].connection)
            if live and black_box_seconds < black_box_share * max(1.0, time.monotonic() - start):
                before = time.monotonic()
                alpha_share = share(len(findings.verdicts) + 1, alpha)
                findings.verdicts.append(
                    _black_box(databases, live[0], black_box_runs, alpha_share)
                )
                black_box_seconds += time.monotonic() - before
        finally:
            for database in databases:
                database.close()
        findings.pairs += 1
        tell(findings)
    findings.faults += [
        f"black box: {verdict}" for verdict in findings.verdicts if verdict.violated
    ]
    return findings


def _compare(
    findings: Findings,
    databases: list[RegisteredDatabase],
    oracles: list[naive.NaiveDatabase],
    sql: str,
) -> bool:
    """Ask both databases one question, note what differs, and return whether it was answered."""
    outcomes = [_bind_or_refusal(database.connection, sql) for database in databases]
    if repr(outcomes[0]) != repr(outcomes[1]):
        findings.faults.append(f"binding depends on data: {sql}: {outcomes}")
        return False
    if isinstance(outcomes[0], str):
        findings.refused[outcomes[0][:60]] += 1
        return False
    connection = databases[0].connection
    chosen = any(
        isinstance(query, Keys) for query in outcomes[0].queries
    )  # keys that noise decides about
    for query in outcomes[0].queries:
        _check_rows(findings, sql, query, oracles, connection)
        facts = connection._kernel.version.facts
        sides = [database.measured(query) for database in databases]
        findings.faults += [
            f"{words}: {sql}"
            for words in sensitivity_check.list_broken_claims(
                query, sides, connection.catalog, facts
            )
        ]
        findings.measured[sensitivity_check.describe_query(query, connection.catalog, facts)] += 1
    answers = []
    took = []
    for database in databases:
        before = time.perf_counter()
        answers.append(_answer_or_refusal(database.connection, sql))
        took.append(time.perf_counter() - before)
    findings.seconds.append((took[0], took[1]))
    shapes = [_describe_shape(answer, chosen=chosen) for answer in answers]
    if shapes[0] != shapes[1]:
        findings.faults.append(f"the shape of an answer depends on data: {sql}: {shapes}")
    findings.answered[_name_kind(sql)] += 1
    return not isinstance(answers[0], str)


def _compare_more_rows(findings: Findings, connection: Connection) -> None:
    """Compare the plans' rows of some questions on another pair of neighbours."""
    oracles = [_register_oracle(side_files, connection) for side_files in questions.neighbours()]
    for sql in (questions.question() for _ in range(4)):
        recipe = _bind_or_refusal(connection, sql)
        if not isinstance(recipe, str):
            for query in recipe.queries:
                _check_rows(findings, sql, query, oracles, connection)
    findings.row_pairs += 1


def _bind_or_refusal(connection: Connection, sql: str) -> Any:
    try:
        return connection.bind(sql)
    except DitherError as error:
        return f"{type(error).__name__}: {error}"


def _answer_or_refusal(connection: Connection, sql: str) -> Any:
    try:
        return connection.sql(sql, epsilon=EPSILON, fresh=True)
    except DitherError as error:
        return f"{type(error).__name__}: {error}"


def _describe_shape(answer: Any, *, chosen: bool) -> Any:
    """Describe everything that is not a noisy value: names, types, public facts.

    Keys and rows are part of it unless noise chose them.
    """
    if isinstance(answer, str):
        return answer
    table = answer.to_arrow(intervals=True)
    keys = [column.name for column in answer.columns if column.role == "key"]
    facts = {name: value for name, value in answer.info.items() if name not in _VARYING}
    described = [
        (c.name, c.role, c.aggregate, c.noise, str(c.scale), c.limits) for c in answer.columns
    ]
    schema = [(arrow_field.name, str(arrow_field.type)) for arrow_field in table.schema]
    rows = None if chosen else (table.select(keys).to_pydict(), table.num_rows)
    return schema, rows, described, repr(facts)


def _register_oracle(files: questions.Files, connection: Connection) -> naive.NaiveDatabase:
    """Register the files by the naive evaluator.

    What it shows holds for every key of the installation.
    """
    raws = {}
    for name, text in files.items():
        head, *lines = csv.reader(text.splitlines())
        raws[name.removesuffix(".csv")] = [
            dict(zip(head, (cell or None for cell in line), strict=True)) for line in lines
        ]
    return naive.with_sample(naive.register(raws, connection.catalog, bytes(32)), bytes(32))


def _check_rows(
    findings: Findings,
    sql: str,
    query: Query,
    oracles: list[naive.NaiveDatabase],
    connection: Connection,
) -> None:
    """Note a fault where the plan's rows move by more than was claimed.

    It is about the symmetric difference: of owned rows only the newcomer's may move.
    """
    without, within = (
        Counter(
            (owner, repr(sorted(row.items(), key=str)))
            for owner, row in naive.naive_rows(query.plan, oracle)
        )
        for oracle in oracles
    )
    moved = (within - without) + (without - within)
    node = connection._kernel.version.analyses.analyse_rows(query.plan).node
    claimed = node.rows if isinstance(node, (Owned, Loose)) else 0  # public rows never move
    others = [
        owner for owner, _ in moved if isinstance(node, Owned) and owner != questions.NEWCOMER
    ]
    if others or sum(moved.values()) > claimed:
        findings.faults.append(
            f"{sum(moved.values())} rows moved, {len(others)} of others, claimed {claimed}: {sql}"
        )


def _black_box(databases: list[RegisteredDatabase], sql: str, runs: int, alpha: float) -> Verdict:
    """Test one question on two neighbouring databases by repeated fresh answers."""

    def mechanism(index: int) -> Any:
        answer: Any = databases[index].connection.sql(sql, epsilon=EPSILON, fresh=True)
        return [value for column in answer.raw.columns for value in column.to_pylist()]

    spend = Budget(runs, alpha)
    price = float(EPSILON)
    return test(
        mechanism,
        0,
        1,
        price,
        DELTA,
        budget=spend,
        name=sql,
        vectorised=False,
    )


def _name_kind(sql: str) -> str:
    """Write a short name for a kind of question."""
    kinds = (
        "COUNT(*)",
        "COUNT(DISTINCT",
        "SUM(",
        "AVG(",
        "MEDIAN(",
        "QUANTILE",
        "VAR",
        "MIN(",
        "MAX(",
    )
    clauses = ("JOIN", "diag", "GROUP BY", "ROLLUP", "SELECT DISTINCT", "LEAST", "WHERE")
    return " ".join(word.rstrip("(") for word in (*kinds, *clauses) if word in sql)
