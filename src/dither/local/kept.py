"""Protocols without a tally of bounded size: the collector keeps the payloads, and asks the
protocol about them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.protocol import Protocol
from dither.local.support import Oracle, SupportOracle
from dither.local.values import read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, uniform_below
from dither.stored import stored


@stored()
@dataclass(frozen=True)
class KeptReports(Protocol):
    """The collector keeps the payloads; `ask` names the method to call with
    `collector.payloads`."""

    ask = "find"

    @property
    def keeps_reports(self) -> bool:
        return True

    @property
    def tally_size(self) -> int:
        return 0

    def _refuse(self) -> ParameterError:
        return ParameterError(
            f"{self.type} keeps its reports: collect payloads and call {self.ask}(payloads)"
        )

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        raise self._refuse()

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        raise self._refuse()

    def user_variance(self, value: Any) -> NDArray[Any]:
        raise self._refuse()

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        raise self._refuse()


@stored(bits="bits")
@dataclass(frozen=True)
class Search(KeptReports):
    """A search over integers of `bits` bits: each user draws a public group and answers that
    group's question.

    Payload: the group (1 byte), then the payload of the group's oracle, padded with zeros.
    """

    bits: int = 32

    @property
    @abstractmethod
    def oracles(self) -> tuple[Oracle, ...]:
        """The oracle of every group."""

    @abstractmethod
    def project_values(self, values: NDArray[np.int64], group: int) -> NDArray[np.int64]:
        """The values that users of a group report: prefixes, pieces, or the values themselves."""

    @property
    def payload_bytes(self) -> int:
        return 1 + max(oracle.payload_bytes for oracle in self.oracles)

    def inputs(self) -> list[int]:
        return list(range(1 << min(self.bits, 3)))

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Put each value in a random group and answer with that group's oracle.

        A payload is the group number (one byte) and the oracle's payload, padded with
        zeros.
        """
        held = read_values(values, 1 << self.bits)
        group = uniform_below(len(self.oracles), len(held), source=source)
        payloads = np.zeros((len(held), self.payload_bytes), np.uint8)
        payloads[:, 0] = group
        for number, oracle in enumerate(self.oracles):
            here = np.flatnonzero(group == number)
            answer = oracle.permanent(self.project_values(held[here], number), source)
            payloads[here[:, None], 1 + np.arange(oracle.payload_bytes)] = answer
        return payloads

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Groups are equally likely; the group's oracle reports its projection of the value.
        """
        law = {}
        for number, oracle in enumerate(self.oracles):
            (projected,) = self.project_values(np.array([value], np.int64), number)
            for answer, weight in oracle.law(int(projected)).items():
                law[bytes([number]) + answer.ljust(self.payload_bytes - 1, b"\0")] = weight / len(
                    self.oracles
                )
        return law

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        """Mark the payloads that some client could have sent.

        They have an existing group, a valid answer of its oracle, and zeros as padding.
        """
        good = np.zeros(len(payloads), np.bool_)
        for number, oracle in enumerate(self.oracles):
            end = 1 + oracle.payload_bytes
            padded = (payloads[:, end:] == 0).all(axis=1)
            good |= (payloads[:, 0] == number) & padded & oracle.valid(payloads[:, 1:end])
        return good

    def answers(self, payloads: Payloads, group: int) -> Payloads:
        """The payloads of one group's oracle."""
        end = 1 + self.oracles[group].payload_bytes
        return np.ascontiguousarray(payloads[payloads[:, 0] == group, 1:end])


def scale_estimate(
    oracle: Oracle, counts: NDArray[np.float64], respondents: int, reports: int, groups: float
) -> Estimate:
    """Scale counts among `respondents` users, 1/groups of all, up to all `reports`.

    The variance includes that of drawing the respondents.
    """
    inner = oracle.variances(np.clip(counts, 0, respondents), respondents)
    spread = groups**2 * inner + (groups - 1) * np.clip(groups * counts, 0, reports)
    return Estimate(groups * counts, spread, reports, groups * float(oracle.largest_move))


def chance_support(oracle: SupportOracle, respondents: int, tried: int, level: float) -> int:
    """Compute the support that with probability `level` no value that nobody holds exceeds.

    `tried` is the number of such values that are looked at.

    Each report supports such a value with probability q exactly, so its support is binomial: no
    normal approximation, which fails for few reports and small q.
    """
    from scipy.stats import binom

    return int(binom.isf((1 - level) / max(1, tried), respondents, float(oracle.q)))


def keep_largest(
    estimate: Estimate, chosen: NDArray[np.int64], keep: int
) -> tuple[NDArray[np.int64], Estimate]:
    """Return the `keep` largest of the chosen entries, and their estimate."""
    order = chosen[np.argsort(estimate.values[chosen])[::-1][:keep]]
    kept = Estimate(
        estimate.values[order], estimate.variances[order], estimate.reports, estimate.largest_move
    )
    return order, kept
