"""The accountant's doors refuse what is no loss, direction, engine or whole number, and say what to
give."""

from __future__ import annotations

import pytest

from dither import accounting as acc
from dither.errors import ParameterError, RefusedError

SAMPLE = acc.PoissonSampled("0.5", acc.Gaussian(1))
DOORS = {
    "epsilon": lambda loss: acc.epsilon(loss, 1e-5),
    "delta": lambda loss: acc.delta(loss, 1),
    "rdp": lambda loss: acc.rdp(loss, 2),
    "zcdp": acc.zcdp,
    "explain": lambda loss: acc.explain(loss, 1e-5),
    "profile": acc.profile,
    "tradeoff": acc.tradeoff,
    "group": lambda loss: acc.group(loss, 2),
    "most_queries": lambda loss: acc.most_queries(loss, 1, 0),
    "cautions": lambda loss: acc.cautions(loss, 1e-5),
    "to_dp_event": acc.to_dp_event,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("value", [5, None, "gaussian(1)", [acc.Pure(1)]])
def test_what_is_no_loss_is_refused_at_every_door(door, value):
    with pytest.raises(ParameterError, match="takes a loss, such as"):
        door(value)


@pytest.mark.parametrize("direction", ["sideways", "", 1, "both"])
def test_an_unknown_direction_is_refused(direction):
    for work in (acc.epsilon, acc.delta):
        with pytest.raises(ParameterError, match="direction is 'remove', 'add' or None"):
            work(SAMPLE, "0.1", direction=direction)


@pytest.mark.parametrize("engine", ["magic", "", 3])
def test_an_unknown_engine_is_refused(engine):
    for work in (acc.epsilon, acc.delta):
        with pytest.raises(ParameterError, match="engine is one of exact, contour, faded, grid"):
            work(SAMPLE, "0.1", engine=engine)


def test_a_forced_engine_that_cannot_serve_says_so():
    with pytest.raises(RefusedError, match="'exact' does not reach this loss"):
        acc.epsilon(SAMPLE * 50, 1e-6, engine="exact")


@pytest.mark.parametrize("steps", [14062.5, True, "10", 0, -3, 10.0])
def test_steps_are_a_whole_number(steps):
    with pytest.raises(ParameterError, match="steps must be a positive whole number"):
        acc.calibrate(epsilon=1, delta=1e-5, steps=steps)


@pytest.mark.parametrize("value", [True, 2.0, "3", 0])
@pytest.mark.parametrize(
    "work",
    [
        lambda value: acc.group(acc.Pure(1), value),
        lambda value: acc.accuracy_floor(1, 1e-6, value, 10**6),
        lambda value: acc.accuracy_floor(1, 1e-6, 1000, value),
        lambda value: acc.cautions(acc.Pure(1), 1e-6, value),
    ],
    ids=["group", "units", "queries", "cautions"],
)
def test_sizes_are_whole_numbers(work, value):
    with pytest.raises(ParameterError, match="positive whole number"):
        work(value)
