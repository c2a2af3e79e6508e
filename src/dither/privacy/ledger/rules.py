"""Accounting rules: what a pot adds up, and the total function from a loss to its charge under each.

| rule | amount | delta | theorem (docs/proofs/filters.md) |
|---|---|---|---|
| pure | epsilon | none | sums, Rogers, Roth, Ullman and Vadhan 2016 |
| approx | epsilon | sum of deltas | sums, the same |
| zcdp | rho | sum of selection deltas | approximate zCDP filter, Whitehouse, Ramdas, Rogers and Wu 2023 |
| rdp | D_alpha at one order | sum of selection deltas | Feldman and Zrnic 2021 |

Charges are exact rationals, rounded up where a logarithm or a hyperbolic tangent is not rational, and in integer
arithmetic only: every auditor recomputes them to the last digit.

>>> charge(Rule("zcdp", delta_conversion=Fraction(1, 10**6)), losses.DiscreteGaussian(10, 1))
Charge(amount=Fraction(1, 200), delta=Fraction(0, 1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from dither.canonical import exact
from dither.errors import ParameterError, RefusedError
from dither.privacy import losses
from dither.privacy.ledger.logarithms import epsilon_of_order, epsilon_up
from dither.privacy.losses import Loss

Name = Literal["pure", "approx", "zcdp", "rdp"]
_ZERO = Fraction(0)
_STATED: dict[str, tuple[str, ...]] = {
    "pure": (),
    "approx": ("delta", "delta_per_question"),
    "zcdp": ("delta_conversion", "delta_selection"),
    "rdp": ("delta_conversion", "delta_selection", "alpha"),
}


class Charge(NamedTuple):
    """What a pot takes for one loss: an amount in the rule's own measure, and a delta."""

    amount: Fraction
    delta: Fraction


@dataclass(frozen=True)
class Rule:
    """A rule with all that is fixed when a pot is opened; the cap on the amount is the pot's."""

    name: Name
    delta: Fraction = _ZERO
    delta_per_question: Fraction = _ZERO
    delta_conversion: Fraction = _ZERO
    delta_selection: Fraction = _ZERO
    alpha: Fraction = _ZERO

    def __post_init__(self) -> None:
        if self.name not in get_args(Name):
            raise ParameterError(f"a pot's rule is one of {', '.join(get_args(Name))}, got {self.name!r}")
        for key in ("delta", "delta_per_question", "delta_conversion", "delta_selection", "alpha"):
            value = exact(getattr(self, key), key)
            object.__setattr__(self, key, value)
            stated = key in _STATED[self.name]
            if not stated and value:
                raise ParameterError(f"a pot with the rule {self.name!r} has no {key}: leave it out")
            if stated and key == "alpha" and value <= 1:
                raise ParameterError("an rdp pot fixes one order alpha above 1 at opening, e.g. alpha=8")
            if stated and key != "alpha" and not (0 < value < 1 or (key == "delta_selection" and value == 0)):
                raise ParameterError(
                    f"a pot with the rule {self.name!r} states {key}, in (0, 1): e.g. 1e-6, far below 1 / people"
                )
        if self.delta_per_question > self.delta:
            raise ParameterError("delta_per_question exceeds delta: no question could be paid")

    @property
    def measure(self) -> str:
        """What the amounts are called."""
        return {"pure": "epsilon", "approx": "epsilon", "zcdp": "rho", "rdp": "renyi"}[self.name]

    @property
    def delta_cap(self) -> Fraction:
        """What the deltas of all charges may add up to."""
        return self.delta if self.name == "approx" else self.delta_selection

    def guarantee(self, amount: Fraction) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) that holds when the amounts stay below `amount`, which was fixed in advance."""
        if self.name == "zcdp":
            return epsilon_up(amount, self.delta_conversion), self.delta_conversion + self.delta_selection
        if self.name == "rdp":
            epsilon = epsilon_of_order(amount, self.alpha, self.delta_conversion)
            return epsilon, self.delta_conversion + self.delta_selection
        return amount, self.delta

    def to_body(self) -> dict[str, Any]:
        return {"name": self.name} | {key: getattr(self, key) for key in _STATED[self.name]}

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Rule:
        if set(body) != {"name", *_STATED[body["name"]]}:
            raise ParameterError(f"a {body['name']} rule states {_STATED[body['name']]}")
        stated: dict[str, Any] = {key: value if key == "name" else exact(value, key) for key, value in body.items()}
        return cls(**stated)


PURE = Rule("pure")


def charge(rule: Rule, loss: Loss) -> Charge:
    """What a pot with this rule takes for a loss; what has no charge is refused, with the reason and what would fit."""
    if not isinstance(loss, Loss):
        raise ParameterError(f"a pot charges a Loss, got {type(loss).__name__}: an epsilon read off a curve is none")
    if rule.name == "pure":
        return Charge(_walk(loss, lambda event: (_pure(event),))[0], _ZERO)
    if rule.name == "zcdp":
        return Charge(*_walk(loss, _zcdp))
    if rule.name == "rdp":
        return Charge(*_walk(loss, lambda event: _rdp(event, rule.alpha)))
    epsilon, rho, delta = _walk(loss, _approx)
    if rho == 0:
        return Charge(epsilon, delta)
    share = rule.delta_per_question
    return Charge(epsilon + epsilon_up(rho, share), delta + share)


def charge_pure(loss: Loss) -> Fraction:
    """The smallest known epsilon for which a loss is epsilon-DP, exactly; refuses what has none.

    >>> charge_pure(losses.DiscreteLaplace(10, 3) + losses.Pure("0.1"))
    Fraction(2, 5)
    """
    return charge(PURE, loss).amount


def _walk(loss: Loss, price: Callable[[Loss], tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
    """Per component: sums over compositions; over the parts of a partition the largest, two under replace."""
    if isinstance(loss, losses.Composed):
        return _sums(_walk(part, price) for part in loss.losses)
    if isinstance(loss, losses.Repeated):
        return tuple(loss.count * amount for amount in _walk(loss.loss, price))
    if isinstance(loss, losses.Parallel):
        # one unit lies in one part; when it is *replaced*, the newcomer may lie in another (privacy-rules 15)
        parts = [_walk(part, price) for part in loss.losses]
        kept = 2 if loss.neighbours == "replace" else 1
        return tuple(sum(sorted(amounts, reverse=True)[:kept], _ZERO) for amounts in zip(*parts, strict=True))
    return price(loss)


def _sums(parts: Iterable[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
    return tuple(sum(amounts, _ZERO) for amounts in zip(*parts, strict=True))


def _pure(loss: Loss) -> Fraction:
    match loss:
        case losses.Pure() | losses.RandomizedResponse() | losses.BoundedRange():
            return loss.epsilon
        case losses.DiscreteLaplace() | losses.Laplace():
            return loss.sensitivity / loss.scale
        case losses.Approx() if loss.delta == 0:
            return loss.epsilon
    _refuse(loss, "pure", "Laplace noise on declared keys, randomised response, the exponential mechanism")


def _gaussian(loss: Loss) -> Fraction | None:
    """rho of what is zCDP by its own law, without a delta."""
    match loss:
        case losses.Gaussian() | losses.DiscreteGaussian():
            return Fraction(loss.sensitivity) ** 2 / (2 * loss.sigma**2)
        case losses.DiscreteGaussianVector():
            return loss.l2_squared / (2 * loss.sigma**2)
        case losses.GaussianSum():  # a replaced unit takes one vector away and brings another
            return (loss.clip_norm * (2 if loss.neighbours == "replace" else 1)) ** 2 / (2 * loss.sigma**2)
        case losses.ZCDP() if loss.delta == 0:
            return loss.rho
    return None


def _approx(loss: Loss) -> tuple[Fraction, Fraction, Fraction]:
    """(epsilon, rho, delta): rho is turned into epsilon once, for the whole question, at its stated delta."""
    if (rho := _gaussian(loss)) is not None:
        return _ZERO, rho, _ZERO
    match loss:
        case losses.Approx():
            return loss.epsilon, _ZERO, loss.delta
        case losses.ZCDP():
            return _ZERO, loss.rho, loss.delta
        case losses.RDP() | losses.PoissonSampled() | losses.SampledWithoutReplacement():
            _refuse(loss, "(epsilon, delta)", "Laplace or Gaussian noise, and anything stated as (epsilon, delta)")
    return _pure(loss), _ZERO, _ZERO


def _zcdp(loss: Loss) -> tuple[Fraction, Fraction]:
    """(rho, delta) of delta-approximate rho-zCDP."""
    if (rho := _gaussian(loss)) is not None:
        return rho, _ZERO
    match loss:
        case losses.ZCDP():
            return loss.rho, loss.delta
        case losses.BoundedRange():
            return loss.epsilon**2 / 8, _ZERO
        case losses.Approx():
            return rho_of_pure(loss.epsilon), loss.delta
        case losses.RDP() | losses.PoissonSampled() | losses.SampledWithoutReplacement():
            _refuse(loss, "zCDP", "Gaussian or Laplace noise, the exponential mechanism, a loss stated as ZCDP")
    return rho_of_pure(_pure(loss)), _ZERO


def _rdp(loss: Loss, alpha: Fraction) -> tuple[Fraction, Fraction]:
    """(D_alpha, delta): alpha * rho, and at most epsilon for a pure loss; a stated order must be alpha or above."""
    if isinstance(loss, losses.RDP):
        if loss.alpha >= alpha:
            return loss.epsilon, _ZERO
        why = f"it is stated at the order {loss.alpha}, and the pot counts at {alpha} (orders are never mixed)"
        _refuse(loss, "RDP", f"the same mechanism stated at the order {alpha} or above", why)
    if isinstance(loss, (losses.PoissonSampled, losses.SampledWithoutReplacement)):
        _refuse(loss, "RDP", f"the sampled mechanism stated as RDP at the order {alpha}")
    rho, delta = _zcdp(loss)
    if _gaussian(loss) is not None or isinstance(loss, losses.ZCDP):
        return alpha * rho, delta
    epsilon = loss.epsilon if isinstance(loss, losses.Approx) else _pure(loss)
    return min(epsilon, alpha * rho), delta


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """epsilon-DP implies rho-zCDP with rho = epsilon tanh(epsilon/2), here rounded up to a rational.

    tanh(x) <= min(1, x (15 + x^2) / (15 + 6 x^2)), a convergent of its continued fraction from above; never above the
    usual epsilon^2 / 2. Proof: docs/proofs/filters.md, lemma 3.

    >>> float(rho_of_pure(Fraction(1)))
    0.462121...
    """
    x = epsilon / 2
    return epsilon * min(Fraction(1), x * (15 + x * x) / (15 + 6 * x * x))


_WHY: dict[type[Loss], str] = {
    losses.Approx: "its delta is above 0, and the pot promises delta 0",
    losses.Gaussian: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.DiscreteGaussian: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.DiscreteGaussianVector: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.GaussianSum: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.ZCDP: "a bound on Renyi divergences gives an epsilon only together with a delta above 0",
    losses.RDP: "a bound on Renyi divergence at one order adds up only in an rdp pot of that order",
    losses.PoissonSampled: "its amplified loss is not rational; state the loss without the sampling to pay in full",
    losses.SampledWithoutReplacement: (
        "its amplified loss is not rational; state the loss without the sampling to pay in full"
    ),
}


def _refuse(loss: Loss, rule: str, fits: str, why: str | None = None) -> NoReturn:
    article = "an" if rule in ("RDP",) else "a"
    reason = why or _WHY.get(type(loss), "no rule is proved for it")
    raise RefusedError(
        f"{article} {rule} pot cannot pay for {type(loss).__name__}: {reason}. What fits: {fits}",
        rule="privacy-rules 14",
    )
