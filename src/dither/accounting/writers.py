"""Losses in dp-accounting's notation, for people who carry on there; rounded so that no loss is
understated.

Where dp-accounting has no event of the same law, an event that bounds it is written: integer
Gaussian noise as zCDP (its curve is not the continuous one), pure losses and bounded ranges as
zCDP. What has none is refused.

>>> to_dp_event(ls.Gaussian(10) * 100)
'SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=10.0), count=100)'
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dither.accounting.arguments import check_loss
from dither.accounting.training_losses import TRAINING_LOSSES
from dither.errors import RefusedError
from dither.privacy import losses as ls
from dither.privacy.charges import measures as charges
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule

Event = tuple[str, dict[str, Any]]


@refuse_beyond_floats
def to_dp_event(loss: ls.Loss, module: Any = None) -> Any:
    """The printed form of a DpEvent; with `module=dp_accounting.dp_event` the event itself."""
    check_loss(loss)
    return (
        _print_event(_describe_event(loss))
        if module is None
        else _build_event(_describe_event(loss), module)
    )


def _describe_event(loss: ls.Loss) -> Event:
    match loss:
        case ls.Composed():
            return "ComposedDpEvent", {
                "events": [_describe_event(component) for component in loss.losses]
            }
        case ls.Repeated():
            return "SelfComposedDpEvent", {"event": _describe_event(loss.loss), "count": loss.count}
        case ls.Gaussian():
            return _gaussian(loss.sigma / loss.sensitivity)
        case ls.GaussianSum():
            return _gaussian(
                loss.sigma / (loss.clip_norm * (2 if loss.neighbours == "replace" else 1))
            )
        case ls.Laplace():
            return "LaplaceDpEvent", {"noise_multiplier": _down(loss.scale / loss.sensitivity)}
        case ls.DiscreteLaplace() if Fraction(loss.sensitivity).denominator == 1:
            shift = int(loss.sensitivity)
            return "DiscreteLaplaceDpEvent", {
                "noise_parameter": _up(1 / Fraction(loss.scale)),
                "sensitivity": shift,
            }
        case ls.PoissonSampled() if loss.neighbours == "add_remove":
            return "PoissonSampledDpEvent", {
                "sampling_probability": _up(loss.q),
                "event": _describe_event(loss.loss),
            }
        case ls.SampledWithoutReplacement() if loss.neighbours == "replace":
            sizes = {"source_dataset_size": loss.population_size, "sample_size": loss.sample_size}
            return "SampledWithoutReplacementDpEvent", {
                **sizes,
                "event": _describe_event(loss.loss),
            }
        case ls.Pure() if loss.epsilon == 0:
            return "NoOpDpEvent", {}
        case (
            ls.Parallel()
            | ls.RDP()
            | ls.PoissonSampled()
            | ls.SampledWithoutReplacement()
            | ls.Shuffled()
        ):
            raise _refused(loss, "dp-accounting has no event for it under this relation")
    if isinstance(loss, TRAINING_LOSSES):
        raise _refused(loss, "events of training runs are read, not written")
    rho, delta = charges.zcdp(loss)
    if delta:
        raise _refused(loss, "dp-accounting has no event with a delta of its own")
    return "ZCDpEvent", {"rho": _up(rho), "xi": 0.0}


def _gaussian(multiplier: Fraction) -> Event:
    return "GaussianDpEvent", {"noise_multiplier": _down(multiplier)}


def _down(value: Fraction) -> float:
    """The largest float that is no more: less noise is more loss."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)


def _up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _print_event(event: Event) -> str:
    name, fields = event
    shown = []
    for key, value in fields.items():
        if isinstance(value, list):
            text = "[" + ", ".join(map(_print_event, value)) + "]"
        else:
            text = _print_event(value) if isinstance(value, tuple) else repr(value)
        shown.append(f"{key}={text}")
    return f"{name}({', '.join(shown)})"


def _build_event(event: Event, module: Any) -> Any:
    name, fields = event
    built_fields = {
        key: [_build_event(member, module) for member in value]
        if isinstance(value, list)
        else _build_event(value, module)
        if isinstance(value, tuple)
        else value
        for key, value in fields.items()
    }
    return getattr(module, name)(**built_fields)


def _refused(loss: ls.Loss, why: str) -> RefusedError:
    return RefusedError(
        f"{type(loss).__name__} cannot be written as a DpEvent: {why}", rule=PrivacyRule.THEOREM
    )
