"""From events to what the engines compose: dominating pairs in either direction.

Composition keeps the two directions (one unit removed, one unit added) apart until the end. Events
whose law is known (noise mechanisms) have the same pair above and below; of events known by a
guarantee only (Pure, ZCDP, ...) the pair above dominates whatever keeps the guarantee, and the pair
below is one mechanism that keeps it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

from dither.accounting.adaptive_range import MOST_MECHANISMS, RangeComposition
from dither.accounting.bounded_range import BoundedRangeFactor, two_losses
from dither.accounting.events import Events
from dither.accounting.gaussian_mixtures import GaussianMixtureLaw
from dither.accounting.guarantees import (
    amplified_epsilon,
    gaussian_mu_squared,
    has_rounding,
    pure_epsilon,
    sigma_fraction,
)
from dither.accounting.integer_laws import (
    discrete_gaussian,
    discrete_laplace,
    drawn,
    poisson_sampled,
    randomized_response,
)
from dither.accounting.laws import GaussianLaw, LaplaceLaw
from dither.accounting.masses import mass_at_infinity
from dither.accounting.mixtures import GridMixture, MixtureFactor
from dither.accounting.sampled import Kind, OutOfReach, SampledGaussianFactor
from dither.accounting.shuffled import clones, responses
from dither.accounting.training_laws import BEST_OF, DIRECTED, build_training_laws, is_loose
from dither.accounting.transforms import AtomsFactor, GaussianFactor, LaplaceFactor
from dither.accounting.wide_gaussians import (
    NO_BLUR,
    Blur,
    blur_wide_gaussian,
    is_wide_gaussian,
)
from dither.errors import RefusedError
from dither.privacy import losses as ls
from dither.rules import PrivacyRule

Direction = Literal["remove", "add"]
Law = (
    GaussianFactor
    | LaplaceFactor
    | AtomsFactor
    | SampledGaussianFactor
    | GaussianLaw
    | LaplaceLaw
    | BoundedRangeFactor
    | RangeComposition
    | MixtureFactor
    | GridMixture
    | GaussianMixtureLaw
)
_DIRECTED = (ls.PoissonSampled, *DIRECTED)
_HALF = Fraction(1, 2)
_MORE_RANGE_SHARES = (Fraction(3, 4), Fraction(15, 16))
DIRECTIONS: tuple[Direction, Direction] = ("remove", "add")


@dataclass
class Workload:
    """One alternative, ready for the engines."""

    events: Events
    neighbours: str
    upper: dict[Direction, list[Law]] = field(default_factory=dict)
    lower: dict[Direction, list[Law]] = field(default_factory=dict)
    more_lower: list[dict[Direction, list[Law]]] = field(default_factory=list)
    """Other mechanisms with these losses: each bounds the truth from below."""
    vague: bool = False
    """Some event has no dominating pair (zCDP, RDP and what is built of them): only the Renyi route
    bounds it."""
    loose: bool = False
    """Some event is known by its guarantee only, so that another route may beat the pair above."""
    blur: Blur = NO_BLUR
    """What the laws miss of wide integer Gaussians, which stand there as continuous ones."""

    @property
    def symmetric(self) -> bool:
        return self.upper["remove"] is self.upper["add"]

    @cached_property
    def masses(self) -> tuple[Fraction, Fraction]:
        """Bounds of the mass at infinity, the same in both directions."""
        return mass_at_infinity(self.events)


def build_workload(events: Events, neighbours: str) -> Workload:
    """The dominating pairs, above and below, of events that one unit may meet together.

    Such events are one entry of what `alternatives` lists.
    """
    result = Workload(events, neighbours)
    result.upper = _build_laws(result, events, "upper")
    result.lower = _build_laws(result, events, "lower") if result.loose else result.upper
    if any(isinstance(event, ls.BoundedRange) for event in events):
        result.more_lower = [
            _build_laws(result, events, "lower", share) for share in _MORE_RANGE_SHARES
        ]
    return result


def _build_laws(
    result: Workload, events: Events, side: str, range_share: Fraction = _HALF
) -> dict[Direction, list[Law]]:
    """The laws of all events for either direction; one list for both if nothing is sampled.

    `range_share` says which exponential mechanism stands below a bounded range.
    """
    rho = Fraction(0)
    exact_sum = len(events) <= 32
    scaled = 0
    laplaces: Counter[Fraction] = Counter()
    common: list[Law] = []
    removed: list[Law] = []
    added: list[Law] = []
    responses: Counter[Fraction] = Counter()
    for event, count in events.items():
        if has_rounding(event):
            result.loose = True
            if side == "lower":
                continue
        if isinstance(event, _DIRECTED):
            if_removed, if_added = _recall_laws(result, event, count, side)
            removed += if_removed
            added += if_added
            continue
        if isinstance(event, ls.Laplace):
            laplaces[event.sensitivity / event.scale] += count
            continue
        mu_squared = gaussian_mu_squared(event)
        if mu_squared is not None:
            if exact_sum:
                rho += count * mu_squared / 2
            else:
                scaled += _scaled(mu_squared, count, side)
        elif isinstance(event, (ls.Pure, ls.Approx, ls.RandomizedResponse)):
            if event.epsilon > 0:
                responses[event.epsilon] += count
        elif isinstance(event, ls.DiscreteLaplace) and event.sensitivity == 1:
            responses[1 / event.scale] += count
        elif isinstance(event, ls.DiscreteGaussian) and is_wide_gaussian(event):
            rho += count * (event.sensitivity / event.sigma) ** 2 / 2
            if side == "upper":
                result.blur = result.blur.join(blur_wide_gaussian(event, count))
        elif isinstance(event, (ls.ZCDP, ls.RDP, ls.DiscreteGaussianVector, ls.BoundedRange)):
            gained, more, laws = _build_guarantee(result, event, count, side, range_share)
            rho += gained
            responses.update(more)
            common += laws
        else:
            common += _recall_laws(result, event, count, side)[0]
    common += [randomized_response(epsilon, count) for epsilon, count in sorted(responses.items())]
    if laplaces:
        common.append(LaplaceFactor(tuple(laplaces), tuple(laplaces.values())))
    if scaled:
        rho += Fraction(scaled, 1 << 400)
    if rho:
        common.append(GaussianFactor(rho))
    # under replace the pair of a sample is its own mirror image
    if not removed or result.neighbours == "replace":
        both = removed + common
        return {"remove": both, "add": both}
    return {"remove": removed + common, "add": added + common}


def _scaled(mu_squared: Fraction, count: int, side: str) -> int:
    """count mu^2 / 2 in units of 2^-400, rounded against the side: keeps long sums of unlike
    fractions short."""
    return ((mu_squared.numerator * count) << 399) // mu_squared.denominator + (side == "upper")


def _build_guarantee(
    result: Workload, event: ls.Loss, count: int, side: str, range_share: Fraction
) -> tuple[Fraction, Counter[Fraction], list[Law]]:
    """Events known by a guarantee: a Gaussian or a randomised response that keeps it (below), a
    pair above if any."""
    result.loose = True
    none: Counter[Fraction] = Counter()
    if isinstance(event, ls.BoundedRange):
        # below: of one alone the pair above is the truth
        if side == "upper" or count == len(result.events) == 1:
            return Fraction(0), none, [BoundedRangeFactor(event.epsilon, count)]
        if len(result.events) == 1 and count <= MOST_MECHANISMS and range_share == _HALF:
            return Fraction(0), none, [RangeComposition(event.epsilon, count)]
        return Fraction(0), none, [two_losses(event.epsilon, range_share, count)]
    result.vague = True
    if isinstance(event, ls.ZCDP):
        return count * event.rho, none, []
    if isinstance(event, ls.RDP):
        return count * event.epsilon / event.alpha, none, []
    assert isinstance(event, ls.DiscreteGaussianVector)
    try:
        # below: a unit that moves l2_squared cells by one each
        return Fraction(0), none, [discrete_gaussian(event.sigma, 1, count * event.l2_squared)]
    except OutOfReach:
        return Fraction(0), none, []


def _recall_laws(
    result: Workload, event: ls.Loss, count: int, side: str
) -> tuple[list[Law], list[Law]]:
    """The laws of an event, if removed and if added; on the (frozen) loss, since workloads grow by
    appending."""
    kept: dict[tuple[int, str], tuple[bool, bool, list[Law], list[Law]]] | None
    kept = event.__dict__.get("_accounting_laws")
    entry = None if kept is None else kept.get((count, side))
    if entry is None:
        own = Workload(Events(), result.neighbours)
        removed = added = _build_sampled_or_integer(own, event, count, side, "remove")
        if isinstance(event, _DIRECTED) and result.neighbours == "add_remove":
            added = _build_sampled_or_integer(own, event, count, side, "add")
        entry = (own.vague, own.loose, removed, added)
        if (kept is None or len(kept) <= 64) and not any(
            isinstance(law, AtomsFactor) for law in removed
        ):
            event.__dict__.setdefault("_accounting_laws", {})[count, side] = entry
    vague, loose, removed, added = entry
    if vague or loose:
        result.vague = result.vague or vague
        result.loose = result.loose or loose
    return removed, added


def _build_sampled_or_integer(
    result: Workload, event: ls.Loss, count: int, side: str, direction: Direction
) -> list[Law]:
    if isinstance(event, ls.DiscreteLaplace):
        try:
            return [discrete_laplace(event.scale, event.sensitivity, count)]
        except OutOfReach:
            # too many atoms: above, any mechanism of the same epsilon; below, a unit that moves the
            # integer by one
            result.loose = True
            return [
                randomized_response(
                    (event.sensitivity if side == "upper" else 1) / event.scale, count
                )
            ]
    if isinstance(event, ls.DiscreteGaussian):
        try:
            return [discrete_gaussian(event.sigma, event.sensitivity, count)]
        except OutOfReach:
            result.loose = result.vague = True
            return []
    if isinstance(event, ls.Shuffled):
        result.loose = True
        try:
            return [(clones if side == "upper" else responses)(event.epsilon, event.users, count)]
        except OutOfReach:
            return [randomized_response(event.epsilon, count)] if side == "upper" else []
    if isinstance(event, ls.PoissonSampled):
        return _build_poisson(result, event, count, side, direction)
    if isinstance(event, ls.SampledWithoutReplacement):
        return _build_fixed_size(result, event, count, side)
    laws = build_training_laws(event, count, side, direction)
    if laws is None:
        raise RefusedError(
            f"no accounting rule for a loss of type {event.type}", rule=PrivacyRule.THEOREM
        )
    result.loose = result.loose or is_loose(event)
    result.vague = result.vague or isinstance(event, BEST_OF)
    return list(laws)


def _build_poisson(
    result: Workload, event: ls.PoissonSampled, count: int, side: str, direction: Direction
) -> list[Law]:
    inner = event.loss
    q = event.q
    mu_squared = gaussian_mu_squared(inner)
    if event.neighbours == "replace":
        if isinstance(inner, ls.GaussianSum):
            sigma = inner.sigma / inner.clip_norm
            return [SampledGaussianFactor("swap", q, sigma, count)]
        drawn_law = _drawn(inner, q, count) if mu_squared is None else None
        if drawn_law is not None:
            result.loose = True
            return [drawn_law] if side == "upper" else []
        raise RefusedError(
            f"Poisson sampling of {type(inner).__name__} under 'replace' has no proved pair here: "
            f"give the clip norm, "
            "PoissonSampled(q, GaussianSum(sigma, clip_norm, neighbours='replace')), or account "
            "under 'add_remove'",
            rule=PrivacyRule.SAMPLING,
        )
    kind: Kind = direction
    if mu_squared is not None:
        return [SampledGaussianFactor(kind, q, sigma_fraction(mu_squared, side), count)]
    if isinstance(inner, (ls.Pure, ls.Approx, ls.RandomizedResponse)):
        if inner.epsilon == 0:
            return []
        return [poisson_sampled(randomized_response(inner.epsilon, 1), q, direction, count)]
    if isinstance(inner, ls.Laplace):
        return [LaplaceLaw(direction, q, inner.sensitivity / inner.scale, count)]
    try:
        if isinstance(inner, ls.DiscreteLaplace):
            return [
                poisson_sampled(
                    discrete_laplace(inner.scale, inner.sensitivity, 1), q, direction, count
                )
            ]
        if isinstance(inner, ls.DiscreteGaussian):
            return [
                poisson_sampled(
                    discrete_gaussian(inner.sigma, inner.sensitivity, 1), q, direction, count
                )
            ]
    except OutOfReach:
        pass
    result.vague = result.loose = True
    return []


def _drawn(inner: ls.Loss, q: Fraction, count: int) -> Law | None:
    """Under replace nothing relates a sample with the unit to one without it: the pair that also
    shows the draw."""
    if isinstance(inner, ls.Laplace):
        return LaplaceLaw("drawn", q, inner.sensitivity / inner.scale, count)
    try:
        if isinstance(inner, ls.DiscreteLaplace):
            return drawn(discrete_laplace(inner.scale, inner.sensitivity, 1), q, count)
        if isinstance(inner, ls.DiscreteGaussian):
            return drawn(discrete_gaussian(inner.sigma, inner.sensitivity, 1), q, count)
    except OutOfReach:
        pass
    epsilon = pure_epsilon(inner)
    return None if epsilon is None else drawn(randomized_response(epsilon, 1), q, count)


def _build_fixed_size(
    result: Workload, event: ls.SampledWithoutReplacement, count: int, side: str
) -> list[Law]:
    if event.neighbours != "replace":
        raise RefusedError(
            "sampling without replacement is proved for 'replace' neighbours (swap one unit): "
            "state the losses with "
            "neighbours='replace', or sample by Poisson and account under 'add_remove'",
            rule=PrivacyRule.SAMPLING,
        )
    q = Fraction(event.sample_size, event.population_size)
    inner = event.loss
    result.loose = True
    mu_squared = gaussian_mu_squared(inner)
    if mu_squared is not None:
        sigma = sigma_fraction(mu_squared, side)
        if side == "lower":
            # one instance: all other units at -C, this one at +C or -C, hence the remove pair at
            # the whole shift
            return (
                [SampledGaussianFactor("remove", q, sigma, count)]
                if q < 1
                else [GaussianFactor(count * mu_squared / 2)]
            )
        return [GaussianLaw("fixed", q, sigma, count)]
    epsilon = pure_epsilon(inner)
    if epsilon is None:
        result.vague = True
        return []
    if side == "lower":
        return [] if q < 1 else [randomized_response(epsilon, count)]
    amplified = amplified_epsilon(epsilon, q)
    return [randomized_response(amplified, count)]
