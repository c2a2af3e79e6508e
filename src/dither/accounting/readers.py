"""Losses from other people's notations: dp-accounting's DpEvents and Opacus histories.

Neither library is imported: events are read by class name and attribute. What a foreign event
leaves open (the relation, the meaning of its noise multiplier) is fixed here and said in the
docstrings; what has no proved meaning is refused.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from dither.accounting.training_events import read_training_event
from dither.accounting.training_losses import KaryResponse
from dither.canonical import exact
from dither.errors import RefusedError
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule


@refuse_beyond_floats
def from_dp_event(
    event: Any, *, neighbours: ls.Neighbours = "add_remove", unit: str = "unit"
) -> ls.Loss:
    """The loss of a dp-accounting DpEvent under the relation asked for.

    Noise multipliers are read as noise / sensitivity *under that relation*; sampled Gaussians under
    'replace', where dp-accounting reads it as noise / clip norm in one accountant and as noise / (2
    clip norm) in another, are refused: build it with GaussianSum(sigma, clip_norm).
    """
    name = type(event).__name__
    try:
        return _read(name, event, neighbours, unit)
    except AttributeError as error:
        raise _refused(name, f"it lacks a field ({error})") from None


def _read(name: str, event: Any, neighbours: ls.Neighbours, unit: str) -> ls.Loss:
    """Build the loss of an event by the name of its class.

    Raises RefusedError for events without a proved meaning.
    """
    common: dict[str, Any] = {"neighbours": neighbours, "unit": unit}

    def inner(inner_event: Any) -> ls.Loss:
        return from_dp_event(inner_event, neighbours=neighbours, unit=unit)

    if name == "GaussianDpEvent":
        return ls.Gaussian(event.noise_multiplier, **common)
    if name == "LaplaceDpEvent":
        return ls.Laplace(event.noise_multiplier, **common)
    if name == "DiscreteLaplaceDpEvent":
        return ls.DiscreteLaplace(
            1 / exact(event.noise_parameter, "noise_parameter"), event.sensitivity, **common
        )
    if name == "ZCDpEvent" and event.xi == 0:
        return ls.ZCDP(event.rho, **common)
    if name == "NoOpDpEvent":
        return ls.Pure(Fraction(0), **common)
    if name == "SelfComposedDpEvent":
        return ls.Repeated(inner(event.event), event.count)
    if name == "ComposedDpEvent":
        return ls.compose(*(inner(inner_event) for inner_event in event.events))
    if name == "PoissonSampledDpEvent":
        if neighbours == "replace":
            raise _refused(
                name,
                "give the clip norm: PoissonSampled(q, GaussianSum(sigma, clip_norm, "
                "neighbours='replace'))",
            )
        return ls.PoissonSampled(event.sampling_probability, inner(event.event))
    if name == "SampledWithoutReplacementDpEvent":
        if neighbours != "replace":
            raise _refused(name, "fixed-size samples are accounted under neighbours='replace'")
        return ls.SampledWithoutReplacement(
            event.sample_size, event.source_dataset_size, inner(event.event)
        )
    if name == "RandomizedResponseDpEvent":
        return _randomized_response(event, common)
    loss = read_training_event(name, event, common, inner)
    if loss is not None:
        return loss
    raise _refused(name, "no proved meaning here: state the loss by its mechanism")


_MOST_LENGTH = 100_000


def parse_dp_event(
    text: str, *, neighbours: ls.Neighbours = "add_remove", unit: str = "unit"
) -> ls.Loss:
    """Read the loss of a DpEvent from its printed form, `repr(event)`.

    The text is read as a syntax tree, never evaluated.

    >>> text = "SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=10.0), count=100)"
    >>> parse_dp_event(text)
    Repeated(loss=Gaussian(sigma=10, sensitivity=1), count=100, ...)
    """
    if not isinstance(text, str) or len(text) > _MOST_LENGTH:
        raise _refused(
            "this text", f"give repr(event) of a DpEvent, at most {_MOST_LENGTH:,} characters"
        )
    try:
        event = _read_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused("this text", "give repr(event) of a dp-accounting DpEvent") from None
    return from_dp_event(event, neighbours=neighbours, unit=unit)


def _read_node(node: ast.expr) -> Any:
    """Read a call as an object of a class of that name, a list as a list, a number as itself.

    Raises RefusedError for anything else.
    """
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, (ast.Name, ast.Attribute))
        and not node.args
    ):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        fields = {
            keyword.arg: _read_node(keyword.value) for keyword in node.keywords if keyword.arg
        }
        return type(name, (), fields)()
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_read_node(element) for element in node.elts]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    raise _refused(
        "this text",
        "give repr(event) of a dp-accounting DpEvent, made of events, lists and numbers",
    )


def _refused(name: str, remedy: str) -> RefusedError:
    return RefusedError(f"{name} cannot be read: {remedy}", rule=PrivacyRule.THEOREM)


def _randomized_response(event: Any, common: dict[str, Any]) -> ls.Loss:
    """Build the loss of randomised response over k buckets.

    It keeps the value with probability 1 - p, else it draws one uniformly: eps = log(1 + k
    (1-p)/p), rounded up.
    """
    p = float(event.noise_parameter)
    buckets = int(event.num_buckets)
    if p <= 0:
        raise _refused("RandomizedResponseDpEvent", "without noise there is no privacy")
    if common["neighbours"] != "replace":
        raise _refused(
            "RandomizedResponseDpEvent",
            "one's own value is replaced: account under neighbours='replace'",
        )
    epsilon = Fraction(math.log1p(buckets * (1 - p) / p) * (1 + 1e-14))
    if epsilon == 0:
        return ls.Pure(Fraction(0), **common)
    return (
        ls.RandomizedResponse(epsilon, **common)
        if buckets == 2
        else KaryResponse(epsilon, buckets, **common)
    )


@refuse_beyond_floats
def from_opacus(
    history: Iterable[tuple[float, float, int]], *, clip_norm: float = 1, unit: str = "unit"
) -> ls.Loss:
    """The loss of an Opacus accountant's `history`: (noise_multiplier, sample_rate, steps),
    Poisson, add/remove.

    True only if batches were drawn by Poisson sampling (Opacus: `poisson_sampling=True`): shuffled
    batches of fixed size are another mechanism, and cost up to ten times as much.

    >>> from_opacus([(1.1, 0.01, 100)])
    Repeated(loss=PoissonSampled(q=1/100, loss=GaussianSum(sigma=11/10, clip_norm=1)),
             count=100, ...)
    """
    norm = exact(clip_norm, "clip_norm")
    phases: list[ls.Loss] = []
    for noise, rate, steps in history:
        step_loss = ls.GaussianSum(exact(noise, "noise_multiplier") * norm, norm, unit=unit)
        phases.append(ls.Repeated(ls.PoissonSampled(exact(rate, "sample_rate"), step_loss), steps))
    if not phases:
        return ls.Pure(Fraction(0), unit=unit)
    return phases[0] if len(phases) == 1 else ls.compose(*phases)
