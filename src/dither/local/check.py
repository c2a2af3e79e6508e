"""An exact audit of a protocol on a small domain: no sampling, only fractions.

Enumerates the law of the report for every input and asks: do the probabilities sum to one; is every
ratio between two inputs at most e**epsilon (certified); does the estimator have the stated mean; is
its variance the stated formula. `same_law` compares what the randomiser really draws with the law
it states, by a chi-square test with a stated rate of false alarms. Planted bugs (tests/local) go
through these very functions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import BudgetError
from dither.local.client import Client
from dither.local.coins import Coins
from dither.local.odds import at_most_exp
from dither.local.protocol import Protocol
from dither.local.values import repeat_value
from dither.local.wire import Payloads
from dither.privacy.noise import Words


@dataclass(frozen=True)
class Checked:
    """The largest ratio, and the problems: none when everything holds exactly."""

    largest_ratio: Fraction | None
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def epsilon(self) -> float:
        """The logarithm of the largest ratio found (a float, for people)."""
        return float("inf") if self.largest_ratio is None else log(self.largest_ratio)


def check(protocol: Protocol, *, inputs: list[Any] | None = None, moments: bool = True) -> Checked:
    """Audit the laws of all inputs (or those given): privacy, sums, moments and additivity.

    >>> from dither import local
    >>> local.check(local.Direct(1, domain=5)).ok
    True
    """
    groups = protocol.neighbours() if inputs is None else [inputs]
    values = [value for group in groups for value in group]
    laws_of = [[protocol.law(value) for value in group] for group in groups]
    laws = [law for group in laws_of for law in group]
    problems = _check_sums(laws)
    ratios = [largest_ratio(group) for group in laws_of]
    ratio = None if None in ratios else max(r for r in ratios if r is not None)
    if ratio is None:
        problems.append("privacy: an output is possible for one value and impossible for another")
    elif not at_most_exp(ratio, protocol.epsilon):
        problems.append(
            f"privacy: a ratio of {float(ratio):.6g} exceeds e**{float(protocol.epsilon):g}"
        )
    sent = getattr(protocol, "report_law", None)
    if sent is not None:
        singles = [largest_ratio([sent(value) for value in group]) for group in groups]
        if any(s is None or not at_most_exp(s, protocol.epsilon_one) for s in singles):  # type: ignore[attr-defined]
            problems.append("privacy: one report alone exceeds the epsilon stated for it")
    if moments:
        problems += [
            p
            for value, law in zip(values, laws, strict=True)
            for p in _check_moments(protocol, value, law, sent)
        ]
        problems += _check_additive(protocol, laws)
    return Checked(ratio, tuple(dict.fromkeys(problems)))


def _check_sums(laws: list[dict[bytes, Fraction]]) -> list[str]:
    wrong = [sum(law.values()) for law in laws if sum(law.values()) != 1]
    return [f"law: probabilities sum to {float(wrong[0]):.6g}"] if wrong else []


def largest_ratio(laws: list[dict[bytes, Fraction]]) -> Fraction | None:
    """Find the largest ratio of the probabilities of one output under two inputs.

    None if one of them is zero.
    """
    worst = Fraction(1)
    for output in {output for law in laws for output in law}:
        weights = [law.get(output, Fraction(0)) for law in laws]
        if max(weights) > 0:
            if min(weights) <= 0:
                return None
            worst = max(worst, max(weights) / min(weights))
    return worst


def _check_moments(
    protocol: Protocol, value: Any, law: dict[bytes, Fraction], sent: Any
) -> list[str]:
    """List what is wrong with estimates from one report of `value`, by exact sums over its law.

    Every payload must be valid, the mean must be the protocol's target, and the variance that
    of its formula. `sent`, if given, maps a value to the law of what leaves the device;
    otherwise it is `law`.
    """
    outputs = law if sent is None else sent(value)
    mean: Any = 0
    square: Any = 0
    for payload, weight in outputs.items():
        row = np.frombuffer(payload, np.uint8).reshape(1, -1)
        if not protocol.valid(row).all():
            return ["wire: the aggregator would reject a report that the client can send"]
        tally = np.array([Fraction(int(count)) for count in protocol.tally(row)], object)
        estimate = protocol.debias(tally, 1)
        mean = mean + weight * estimate
        square = square + weight * estimate * estimate
    target = protocol.target(value)
    problems = []
    if (mean != target).any():
        problems.append("estimate: biased")
    if (square - mean * mean != protocol.user_variance(value)).any():
        problems.append("estimate: the variance differs from its formula")
    return problems


def _check_additive(protocol: Protocol, laws: list[dict[bytes, Fraction]]) -> list[str]:
    """Check that the estimate of many reports is the sum of the estimates of each.

    It is tried on an output of two inputs; returns a list of problems.
    """
    rows = [np.frombuffer(next(iter(law)), np.uint8).reshape(1, -1) for law in (laws[0], laws[-1])]
    left, right = (
        np.array([Fraction(int(count)) for count in protocol.tally(row)], object) for row in rows
    )
    apart = protocol.debias(left, 1) + protocol.debias(right, 1)
    if (protocol.debias(left + right, 2) != apart).any():
        return ["estimate: biased for more than one report"]
    return []


def check_client(client: Client, history: list[Any]) -> tuple[str, ...]:
    """Report a history of values and compare the answers really drawn with those charged for.

    Every call of the protocol's randomiser draws a new independent answer, so the client must have
    charged epsilon for each, and must refuse before the lifetime budget is passed.
    """
    drawn = 0
    inside = False
    kind = type(client.protocol)

    def count_one(self: Protocol, value: Any, coins: Coins, device: int = 0) -> bytes:
        """Draw one permanent report, and count the draw once.

        `inside` is set meanwhile, so that a call of `permanent` from here is not counted
        again.
        """
        nonlocal drawn, inside
        drawn += 1
        inside = True
        answer = kind.permanent_one(self, value, coins, device)
        inside = False
        return answer

    def count_many(
        self: Protocol, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw permanent reports, and count the draw unless `permanent_one` makes it."""
        nonlocal drawn
        drawn += 0 if inside else 1
        return kind.permanent(self, values, source, devices)

    watched = type("Watched", (kind,), {"permanent_one": count_one, "permanent": count_many})
    protocol = client.protocol
    before = client.spent
    promised = client.lifetime_epsilon - sum(renewal.epsilon for renewal in client.renewals)
    client.protocol = object.__new__(watched)
    client.protocol.__dict__.update(protocol.__dict__)
    for value in history:
        with suppress(BudgetError):
            client.report(value)
    client.protocol = protocol
    problems = []
    if drawn * protocol.epsilon > client.spent - before:
        problems.append(
            f"client: {drawn} answers drawn, {float((client.spent - before) / protocol.epsilon):g} "
            f"charged"
        )
    if client.lifetime_epsilon != promised + sum(renewal.epsilon for renewal in client.renewals):
        problems.append("client: the lifetime budget was raised without a recorded renewal")
    if client.spent > client.lifetime_epsilon:
        problems.append("client: the lifetime budget was passed")
    return tuple(problems)


def same_law(
    protocol: Protocol, value: Any, draws: int, source: Words, false_alarm: float = 1e-9
) -> bool:
    """Whether `draws` permanent reports of one value look like the stated law (chi-square)."""
    from scipy.stats import chi2

    law = protocol.law(value)
    payloads = protocol.permanent(repeat_value(value, draws), source)
    observed: dict[bytes, int] = {}
    rows, counts = np.unique(np.ascontiguousarray(payloads), axis=0, return_counts=True)
    for row, count in zip(rows, counts, strict=True):
        observed[row.tobytes()] = int(count)
    if any(output not in law or law[output] == 0 for output in observed):
        return False
    statistic = 0.0
    cells = 0
    rare_seen = 0.0
    rare_expected = 0.0
    for output, weight in law.items():
        expected = float(weight) * draws
        if expected < 10:  # pooled, so that the chi-square approximation holds
            rare_seen += observed.get(output, 0)
            rare_expected += expected
        elif expected:
            statistic += (observed.get(output, 0) - expected) ** 2 / expected
            cells += 1
    if rare_expected >= 10:
        statistic += (rare_seen - rare_expected) ** 2 / rare_expected
        cells += 1
    return bool(chi2.sf(statistic, max(1, cells - 1)) > false_alarm)


def epsilon_at_least(
    protocol: Protocol,
    first: Any,
    second: Any,
    draws: int,
    source: Words,
    false_alarm: float = 1e-9,
) -> float:
    """Compute a lower bound on the true epsilon between two values, from reports alone.

    For domains too large to enumerate. The event is "the report speaks for `first` rather than
    `second`" (by the estimator's own contributions, which is the report's likelihood order for all
    oracles here). Its two probabilities are bounded by Clopper and Pearson, so that the bound
    exceeds the truth with probability at most `false_alarm`.
    """
    from scipy.stats import beta

    direction = protocol.target(first) - protocol.target(second)
    entries = np.flatnonzero([bool(component) for component in direction])
    weights = np.array([float(direction[entry]) for entry in entries])
    hits = []
    for value in (first, second):
        payloads = protocol.randomise(repeat_value(value, draws), source)
        scores = [
            protocol.debias(protocol.tally(row[None]), 1)[entries] @ weights for row in payloads
        ]
        hits.append(int(np.count_nonzero(np.array(scores, np.float64) > 1e-9)))
    low = float(beta.ppf(false_alarm / 2, hits[0], draws - hits[0] + 1)) if hits[0] else 0.0
    high = (
        float(beta.ppf(1 - false_alarm / 2, hits[1] + 1, draws - hits[1]))
        if hits[1] < draws
        else 1.0
    )
    return log(low / high) if low > high else 0.0
