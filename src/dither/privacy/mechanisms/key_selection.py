"""Which undeclared keys may be shown.

Each is shown with a probability that grows with its number of distinct owners.

Guarantee: Approx(epsilon, delta) towards a unit that is among the owners of at most m keys: each
key costs (e, d) = (epsilon / m, delta / m). Per key the chance pi(n) is the largest that any (e, d)
rule can have (Desfontaines, Voss, Gipson, Mandayam 2022), and a key without owners is never shown:

    pi(0) = 0,   pi(n+1) = min(e^e pi(n) + d,  1 - e^-e (1 - pi(n) - d),  1)

It is a threshold with truncated geometric noise: the threshold is drawn with P(T <= n) = pi(n).
Chances are enclosed in integers and compared with uniform bits exactly. Under `replace` a unit
leaves m keys and joins m others: 2m. Proof: docs/proofs/key-selection.md#truncated-geometric.

>>> keys = TruncatedGeometricKeys(epsilon=1, delta=1e-6, groups=1)
>>> from dither.laws import find_error_law
>>> keys.release([0, 1000, 1000]).tolist(), find_error_law(keys).size_shown(0.5)
([False, True, True], 14)
>>> TruncatedGeometricKeys(1, 1e-6, groups=3).loss()
Repeated(loss=Approx(epsilon=1/3, delta=1/3000000), count=3, neighbours='add_remove', unit='unit')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.canonical import number_text, positive, quote
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.charges.logarithms import log_up
from dither.privacy.losses import Approx, Loss, Neighbours
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.mechanisms.delta import small_delta
from dither.privacy.noise import Words
from dither.privacy.noise.enclosed import decide, words_for_yes
from dither.privacy.noise.enclosure import Enclosure, ceil_shift, exp_minus, fixed
from dither.privacy.noise.source import check_source

_LONGEST = 1 << 18  # sizes between "never" and "always" that a table may have


def check_groups(groups: int, neighbours: Neighbours) -> int:
    """Return how many keys one unit moves: m, or 2m if it is replaced.

    Raises ParameterError unless `groups` is a positive integer.
    """
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ParameterError(
            f"groups must be a positive integer, the most keys of one unit, got {quote(groups)}"
        )
    return 2 * groups if neighbours == "replace" else groups


def owner_counts(counts: Any) -> NDArray[Any]:
    """Read numbers of distinct owners: non-negative integers in a row.

    Raises ParameterError for any other.
    """
    owners = exact_integers(counts)
    if owners.ndim != 1 or (len(owners) and int(owners.min()) < 0):
        raise ParameterError(
            "counts must be a list of non-negative integers, the distinct owners of each key"
        )
    return owners


class OwnersOfKeys:
    """A mechanism that selects keys. One unit moves at most `moved` of them."""

    groups: int
    neighbours: Neighbours

    @property
    def moved(self) -> int:
        """How many keys one unit moves."""
        return check_groups(self.groups, self.neighbours)

    def column_sensitivity(self, column: int = 0) -> Sensitivity | None:
        """Keys have none."""
        return None

    def describe_sensitivity(self) -> str:
        """How many keys one unit moves, in words."""
        return f"{self.moved:,} keys"

    def sensitivity_document(self) -> Mapping[str, Any]:
        """Return nothing to store: the loss says how far one unit moves the keys."""
        return {}


@dataclass(frozen=True)
class TruncatedGeometricKeys(OwnersOfKeys):
    """The optimal rule of which keys to show, for one price and at most `groups` keys per unit."""

    stored_name: ClassVar[str] = (
        "TruncatedGeometricKeys"  # in digests of stored releases: never changes
    )

    epsilon: Fraction
    delta: Fraction
    groups: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"
    public_size: int | None = None

    def __post_init__(self) -> None:
        """Make epsilon and delta exact, and check the groups.

        Refuse settings where a key would be shown only above `_LONGEST` owners.
        """
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", small_delta(self.delta, self.public_size))
        moved = check_groups(self.groups, self.neighbours)
        if 5 * moved * log_up(moved / self.delta) > 2 * _LONGEST * self.epsilon:
            raise ParameterError(
                f"epsilon {number_text(self.epsilon)}, delta {number_text(self.delta)}, for one "
                f"{self.unit} over "
                f"{quote(moved)} keys asks for more than {_LONGEST} owners before a key is shown: "
                f"choose a larger "
                "epsilon or fewer groups per unit"
            )
        self.loss()

    def loss(self) -> Loss:
        """State what one selection costs: that of one key, for every key that one unit moves."""
        loss_per_key = Approx(
            self.epsilon / self.moved,
            self.delta / self.moved,
            neighbours=self.neighbours,
            unit=self.unit,
        )
        return loss_per_key if self.moved == 1 else loss_per_key * self.moved

    @property
    def _rule(self) -> tuple[Fraction, Fraction]:
        """The epsilon and delta of one key.

        Beyond 64 a larger epsilon shows nothing sooner, so it is cut off there.
        """
        return min(self.epsilon / self.moved, Fraction(64)), self.delta / self.moved

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """The chance of a key to be shown, by its number of owners."""
        return ErrorTerms("key_chances", {"words": _words(*self._rule)})

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """Return no parameter: the loss has them all."""
        return {}

    def describe(self) -> str:
        """Describe the rule in words."""
        words = _words(*self._rule)
        half = next((n for n, word in enumerate(words) if word / 2**64 >= 1 / 2), len(words))
        return (
            f"truncated geometric threshold on the owners of every key: {half:,} are "
            "shown with chance 1/2"
        )

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """1 for every key that is shown, else 0."""
        return [int(is_chosen) for is_chosen in self.release(exact, source=source)]

    def release(self, counts: Any, *, source: Words | None = None) -> NDArray[np.bool_]:
        """Choose which keys to show, as a mask.

        `counts` are the distinct owners of each, after the limit of `groups` per unit.
        """
        owners = owner_counts(counts)
        supply = check_source(source)
        epsilon, delta = self._rule
        thresholds = _words(epsilon, delta)
        sizes = np.minimum(owners, len(thresholds)).astype(np.int64)
        table = np.array([*thresholds, 0], np.uint64)
        drawn = supply.words(len(owners))
        is_chosen: NDArray[np.bool_] = (drawn < table[sizes]) | (sizes == len(thresholds))
        for i in np.flatnonzero((drawn == table[sizes]) & (sizes > 0) & (sizes < len(thresholds))):
            is_chosen[i] = decide(
                partial(_chance, epsilon, delta, int(sizes[i])), int(drawn[i]), supply
            )
        return is_chosen


@lru_cache(maxsize=64)
def _words(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Tabulate floor(2**64 pi(n)) for n = 0, 1, ... as long as pi(n) < 1. pi(n) is the chance that
    a key of n owners is shown."""
    enclosures = {128: chances(epsilon, delta, 128)}

    def chance_of(n: int, bits: int) -> Enclosure:
        if bits not in enclosures:
            enclosures[bits] = chances(epsilon, delta, bits)
        return enclosures[bits][n] if n < len(enclosures[bits]) else Enclosure(1 << bits, 1 << bits)

    words = (words_for_yes(partial(chance_of, n)) for n in range(len(enclosures[128])))
    return tuple(word for word in words if word < 1 << 64)


def _chance(epsilon: Fraction, delta: Fraction, n: int, bits: int) -> Enclosure:
    return chances(epsilon, delta, bits)[n]


def chances(epsilon: Fraction, delta: Fraction, bits: int) -> list[Enclosure]:
    """Enclose pi(0), pi(1), ... up to the last that is below 1.

    >>> [f"{low / 2**64:.7f}" for low, high in chances(Fraction(1), Fraction(1, 10**6), 64)[:4]]
    ['0.0000000', '0.0000010', '0.0000037', '0.0000111']
    """
    work = bits + 64 + 2 * (delta.denominator.bit_length() - delta.numerator.bit_length() + 2)
    whole = 1 << work
    step = exp_minus(epsilon, work)
    shift = fixed(delta, work)
    enclosures = [Enclosure(0, 0)]
    # 1 - pi(n): the third branch is accurate there, the first in pi(n)
    missing = Enclosure(whole, whole)
    while True:
        low, high = enclosures[-1]
        rise = Enclosure(
            (low << work) // step.high + shift.low, -(-(high << work) // step.low) + shift.high
        )
        remaining = Enclosure(max(0, missing.low - shift.high), max(0, missing.high - shift.low))
        fall = Enclosure(
            remaining.low * step.low >> work, ceil_shift(remaining.high * step.high, work)
        )
        pi = Enclosure(min(rise.low, whole - fall.high), min(rise.high, whole - fall.low))
        missing = Enclosure(whole - pi.high, whole - pi.low)
        if missing.high == 0:
            return [
                Enclosure(low >> (work - bits), ceil_shift(high, work - bits))
                for low, high in enclosures
            ]
        enclosures.append(pi)
