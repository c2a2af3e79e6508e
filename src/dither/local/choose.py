"""Which oracle? The one with the least noise among those whose reports and server fit, with the
reasons in words.

Noise per user (Var*, a value nobody holds), from the exact formulas: direct (R + d - 2) / (R -
1)**2, optimised unary and optimal hash 4 R / (R - 1)**2, Hadamard with one block (R + 1)**2 / (R -
1)**2, subset selection a little below unary. So direct wins for d < 3 e**epsilon + 2; above that
the others differ in bytes and server time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dither.canonical import Number
from dither.errors import ParameterError
from dither.local.direct import Direct
from dither.local.hadamard import Hadamard
from dither.local.localhash import OptimalHash
from dither.local.odds import read_epsilon
from dither.local.subset import Subset
from dither.local.support import Oracle
from dither.local.unary import OptimisedUnary
from dither.local.wire import HEADER_BYTES
from dither.privacy.numbers import refuse_beyond_floats

_SLACK = (
    1.02  # of two oracles within two per cent of noise, the cheaper one for the server is taken
)


@dataclass(frozen=True)
class Candidate:
    """One oracle with its figures: noise per user, bytes of a report, server steps per report."""

    oracle: Oracle
    noise: float
    report_bytes: int
    server_steps: int


@dataclass(frozen=True)
class Choice:
    """The oracle chosen and the table it was chosen from."""

    oracle: Oracle
    table: tuple[Candidate, ...]
    reason: str

    def explain(self) -> str:
        """Write the table of oracles for people, with the chosen one marked."""
        lines = [f"{'oracle':<18}{'noise/user':>12}{'bytes':>8}{'server steps/report':>22}"]
        for row in self.table:
            mark = " <- chosen" if row.oracle == self.oracle else ""
            lines.append(
                f"{row.oracle.type:<18}{row.noise:>12.4f}{row.report_bytes:>8}{row.server_steps:>22}{mark}"
            )
        return "\n".join([*lines, self.reason])


_MAKERS: tuple[Callable[..., Oracle], ...] = (Direct, Hadamard, OptimisedUnary, Subset, OptimalHash)


@refuse_beyond_floats
def candidates(epsilon: Number, domain: int) -> list[Candidate]:
    """List all oracles for a domain, with their figures."""
    table = []
    for make in _MAKERS:
        if make is not OptimalHash and domain > 1 << 16:
            continue
        oracle = make(epsilon, domain)
        steps = domain if make in (OptimisedUnary, Subset, OptimalHash) else 1
        noise = float(oracle.noise_variance)
        table.append(Candidate(oracle, noise, HEADER_BYTES + oracle.payload_bytes, steps))
    return table


@refuse_beyond_floats
def choose(
    epsilon: Number,
    domain: int,
    *,
    report_bytes: int | None = None,
    server_steps: int | None = None,
) -> Choice:
    """Choose the oracle with the least noise whose reports fit into `report_bytes` bytes.

    The header is counted. `server_steps` limits the work per report. Raises ParameterError where no
    oracle fits.

    >>> choose(1, 5).oracle.type, choose(1, 1000).oracle.type, choose(1, 1000,
    ...     server_steps=1).oracle.type
    ('direct', 'local_hash', 'hadamard')
    """
    read_epsilon(epsilon)
    table = candidates(epsilon, domain)
    fit = [
        row
        for row in table
        if (report_bytes is None or row.report_bytes <= report_bytes)
        and (server_steps is None or row.server_steps <= server_steps)
    ]
    if not fit:
        smallest = min(row.report_bytes for row in table)
        raise ParameterError(
            f"no oracle fits: the smallest report for this domain has {smallest} bytes"
        )
    least = min(row.noise for row in fit)
    chosen = min(
        (row for row in fit if row.noise <= least * _SLACK),
        key=lambda r: (r.server_steps, r.report_bytes),
    )
    reason = (
        f"{chosen.oracle.type}: noise {chosen.noise:.4g} per user, within 2% of the least possible "
        f"here "
        f"({least:.4g}), and of those the cheapest to collect"
    )
    if report_bytes is not None:
        reason += f"; reports of at most {report_bytes} bytes"
    return Choice(chosen.oracle, tuple(table), reason)
