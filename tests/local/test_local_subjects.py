"""Every protocol through testers that know nothing of it: this file's, and the audit kit's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log

import pytest
from scipy.stats import beta

from dither import local
from dither.audit import black_box
from dither.audit.black_box import Budget
from dither.local.subjects import EXAMPLES, ProtocolSubject, subject, subjects
from tests.case_lists import mark_between, mark_rest
from tests.local.seeded_words import SeededWords

RUNS, ALPHA = 6_000, 1e-9


def refuted(case: ProtocolSubject) -> bool:
    """Whether some event, chosen on half of the runs, breaks the claim on the other half
    (Clopper-Pearson, 1e-9)."""
    seen = [
        [row.tobytes() for row in case.mechanism(data, RUNS)] for data in (case.first, case.second)
    ]
    first = [Counter(rows[: RUNS // 2]) for rows in seen]
    later = [Counter(rows[RUNS // 2 :]) for rows in seen]
    for a, b in ((0, 1), (1, 0)):
        # the best set of outputs: those whose ratio, seen so far, is above the claim
        chosen = {
            y
            for y in first[a]
            if log((first[a][y] + 0.5) / (first[b][y] + 0.5)) > case.epsilon * 0.8
        }
        if not chosen:
            continue
        hits = [sum(later[side][y] for y in chosen) for side in (a, b)]
        n = RUNS - RUNS // 2
        low = float(beta.ppf(ALPHA / 4, hits[0], n - hits[0] + 1)) if hits[0] else 0.0
        high = float(beta.ppf(1 - ALPHA / 4, hits[1] + 1, n - hits[1])) if hits[1] < n else 1.0
        if low > 0 and log(low / high) > case.epsilon:
            return True
    return False


CASES = list(subjects(SeededWords(40)))


def test_every_protocol_is_a_subject() -> None:
    ours = {
        name
        for name, kind in local.protocol._TYPES.items()
        if kind.__module__.startswith("dither.")
    }
    assert {protocol.type for protocol in EXAMPLES} == ours


@pytest.mark.parametrize(
    "case", mark_between(CASES, step=3), ids=[f"{c.name}-{i}" for i, c in enumerate(CASES)]
)
def test_no_claim_is_refuted(case: ProtocolSubject) -> None:
    assert not refuted(case)


@dataclass(frozen=True)
class Doubled(local.OptimisedUnary):
    """Draws at twice the epsilon that it states."""

    @property
    def q(self):  # type: ignore[no-untyped-def]
        return local.OptimisedUnary(2 * self.epsilon, self.domain).q


@dataclass(frozen=True)
class HalfNoise(local.Degrees):
    """Noise of scale 1/(2 epsilon): the sensitivity of a link that both ends count, forgotten."""

    def permanent(self, values, source, devices=None):  # type: ignore[no-untyped-def]
        return local.Degrees(2 * self.epsilon, self.groups).permanent(values, source)


@dataclass(frozen=True)
class TagsInTheOpen(local.FragmentPuzzle):
    """The tag of the word sent beside the randomised piece, because it is only eight bits."""

    def permanent(self, values, source, devices=None):  # type: ignore[no-untyped-def]
        rows = super().permanent(values, source).copy()
        rows[:, -1] = [self.tag(int(value)) for value in values]
        return rows


def test_a_doubled_epsilon_is_refuted() -> None:
    assert refuted(subject(Doubled(1, 4), source=SeededWords(41)))
    assert refuted(subject(HalfNoise(1), source=SeededWords(42)))
    open_tags = TagsInTheOpen(1, 4, 2, 1, "d", 3)
    assert open_tags.tag(0) != open_tags.tag(7)
    assert refuted(subject(open_tags, source=SeededWords(43)))


@pytest.mark.parametrize("step", mark_rest([4, 1], quick=1))
def test_the_audit_kit_refutes_none_of_them(step: int) -> None:
    small = Budget(runs=4_000, alpha=1e-9)
    for case in CASES[::step]:
        verdict = black_box.test(
            case.mechanism, case.first, case.second, epsilon=case.epsilon, budget=small
        )
        assert verdict.outcome != "violated", case.name
    lie = subject(Doubled(1, 4), source=SeededWords(42))
    assert (
        black_box.test(
            lie.mechanism, lie.first, lie.second, epsilon=1, budget=Budget(runs=20_000)
        ).outcome
        == "violated"
    )
