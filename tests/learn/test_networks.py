"""Networks trained through a curator: gradients against autograd's rule, training on a table that
is paid first, and what is no list of known layers refused (rule P7 of the review)."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics

from dither import learn
from dither.audit.naive_vectors import make_network_vector
from dither.data.vectors.network import find_network_vectors, list_bends, normalise
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.learn.jobs import make_estimator
from dither.learn.networks import LayerShape, draw_weights, read_layers, run_layer
from dither.learn.table_sums import quantise_network
from dither.plan import vector_functions
from dither.plan.network_functions import NetworkGradient, NetworkLayer, is_network
from tests.learn.test_tables import NAMES, Clinic, connect, invent_patients, register

LAYERS = [{"width": 8, "activation": "tanh", "normalise": True}, {"width": 4, "activation": "relu"}]


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return register(tmp_path / "site")


def make_network(widths=(5, 4), classes=3, features=6, seed=1) -> tuple[NetworkLayer, ...]:
    draws = np.random.default_rng(seed)
    layers = []
    inputs = features
    for width, activation, is_normalised in [
        (widths[0], "tanh", True),
        (widths[1], "relu", False),
        (classes, "none", False),
    ]:
        steps = draws.integers(-60_000, 60_000, (width, inputs)).tolist()
        layers.append(NetworkLayer(tuple(map(tuple, steps)), activation, is_normalised))
        inputs = width + 1
    return tuple(layers)


def find_loss(layers, x: np.ndarray, code: int, weights: list[np.ndarray]) -> float:
    """The cross entropy of one row in real numbers."""
    values = x
    for layer, matrix in zip(layers[:-1], weights, strict=False):
        shape = LayerShape(len(layer.weights), layer.activation, layer.is_normalised)
        outputs = run_layer(shape, (matrix @ values)[:, None])[:, 0]
        values = np.r_[1.0, outputs]
    scores = weights[-1] @ values
    return float(np.log(np.exp(scores - scores.max()).sum()) + scores.max() - scores[code])


def test_gradients_are_those_of_finite_differences() -> None:
    """The integers of the kernel against differences of the loss in floats."""
    layers = make_network()
    draws = np.random.default_rng(2)
    features = draws.integers(-4096, 4097, (6, 3)).astype(float)
    codes = [0, 2, 1]

    def find_slopes(scores: np.ndarray) -> np.ndarray:
        real = scores / 2.0**28
        soft = np.exp(real - real.max(axis=0))
        soft /= soft.sum(axis=0)
        soft[codes, range(3)] -= 1
        return np.floor(soft * 65536)

    vectors = find_network_vectors(NetworkGradient("b", layers), features, find_slopes)
    weights = [np.array(layer.weights) / 65536 for layer in layers]
    for row in range(3):
        expected = []
        for place, matrix in enumerate(weights):
            for index in np.ndindex(matrix.shape):
                sides = []
                for sign in (1, -1):
                    moved = [part.copy() for part in weights]
                    moved[place][index] += sign * 1e-5
                    sides.append(find_loss(layers, features[:, row] / 4096, codes[row], moved))
                expected.append((sides[0] - sides[1]) / 2e-5)
        ours = vectors[:, row] / 2.0**28
        assert np.abs(ours - expected).max() < 0.01 * np.abs(expected).max() + 1e-3


def test_a_row_has_the_same_bits_whatever_stands_beside_it() -> None:
    layers = make_network((40, 30), 7, 25)
    draws = np.random.default_rng(3)
    features = draws.integers(-4096, 4097, (25, 1003)).astype(float)

    def find_slopes(scores: np.ndarray) -> np.ndarray:
        return np.floor(scores / 2.0**12)

    whole = find_network_vectors(NetworkGradient("b", layers), features, find_slopes)
    for few in ([0], [5, 4, 3], range(500, 1003), range(1, 1003, 7)):
        alone = find_network_vectors(
            NetworkGradient("b", layers), features[:, list(few)], find_slopes
        )
        assert np.array_equal(alone, whole[:, list(few)])
    assert np.all(whole == np.floor(whole)) and np.abs(whole).max() < 2**53


def test_no_sum_is_too_large_to_be_exact() -> None:
    """The largest weights, widths and features: floats agree with Python's integers."""
    width = 256
    top = ((1 << 20),)
    layers = (
        NetworkLayer(tuple(top * 300 for _ in range(width)), "none", True),
        NetworkLayer(tuple(top * (width + 1) for _ in range(width)), "none", False),
        NetworkLayer(tuple(top * (width + 1) for _ in range(2)), "none", False),
    )
    assert is_network(layers)
    features = [4096] * 300
    margins = [sum(w * v for w, v in zip(row, features, strict=True)) for row in layers[0].weights]
    assert max(margins) < 2**53
    assert 257 * 2**20 * 2**16 < 2**53 and 256 * 2**20 * 2**24 < 2**53
    assert 256 * (2**21) ** 2 < 2**53 and 256 * 2**24 * 2**16 < 2**53
    domain = type("Domain", (), {"listed": (0, 1)})()
    naive = make_network_vector(NetworkGradient("b", layers), features, 1, domain)

    def find_slopes(scores: np.ndarray) -> np.ndarray:
        return np.array([[32768.0], [32768.0 - 65536]])

    ours = find_network_vectors(
        NetworkGradient("b", layers), np.array(features, float)[:, None], find_slopes
    )
    assert ours[:, 0].tolist() == naive


def test_tables_and_norms_are_what_they_say() -> None:
    assert len(list_bends()) == 16 * 1024 and abs(list_bends()[8 * 1024 + 1024] - 4096 * 0.7617) < 4
    normal, _ = normalise(np.array([[4096.0], [-4096], [8192], [0]]))
    assert abs(normal.mean()) < 2 and abs((normal**2).mean() - 4096**2) < 4096**2 * 0.01
    equal, _ = normalise(np.full((4, 1), 77.0))
    assert equal.tolist() == [[0.0]] * 4


def test_a_network_learns_from_a_table_and_is_paid_first(clinic: Clinic) -> None:
    model = learn.NetworkClassifier(
        10**4, delta=1e-6, n=600, layers=LAYERS, steps=120, learning_rate=0.5
    )
    con = connect(clinic)
    model.fit_table(con, "patients", target="readmitted", columns=NAMES)
    rows = invent_patients(9).replace({"": None})
    scores = model.decision_function(rows[NAMES])
    assert sklearn.metrics.roc_auc_score(rows["readmitted"], scores) > 0.75
    assert model.guarantee_.epsilon <= 10**4 and "charged" in model.guarantee_.public
    again = learn.read_model(learn.write_model(model))
    assert np.array_equal(again.decision_function(rows[NAMES]), scores)
    assert [shape.width for shape in again.hidden_] == [8, 4]


def test_a_fit_that_the_budget_does_not_cover_reads_nothing(clinic: Clinic) -> None:
    con = connect(clinic, rho=F(1, 10**6))
    with pytest.raises(BudgetError):
        learn.NetworkClassifier(1, n=600, layers=LAYERS).fit_table(
            con, "patients", target="readmitted", columns=NAMES
        )


class Stealing:
    """Code of a caller that would see rows."""

    def __call__(self, rows):
        raise AssertionError


@pytest.mark.parametrize(
    "layers",
    [
        Stealing(),
        [Stealing()],
        [{"width": 8, "activation": Stealing()}],
        [{"width": 8, "activation": "eval"}],
        [{"width": 8, "hook": "x"}],
        [{"activation": "relu"}],
        [{"width": 0}],
        [{"width": 10**6}],
        [{"width": True}],
        [{"width": 8, "normalise": 1}],
        [{"width": 8}] * 8,
    ],
)
def test_what_is_no_list_of_known_layers_is_refused(layers) -> None:
    with pytest.raises(ParameterError):
        read_layers(layers)


WEIGHTS = ((1, 2), (3, 4))


@pytest.mark.parametrize(
    "layers",
    [
        (),
        [NetworkLayer(WEIGHTS, "none", False)],
        (NetworkLayer(WEIGHTS, "none", True),),
        (NetworkLayer(WEIGHTS, "relu", False),),
        (NetworkLayer(((1, 2),), "none", False),),
        (NetworkLayer(((1, 2), (3,)), "none", False),),
        (NetworkLayer(((1, 2.0), (3, 4)), "none", False),),
        (NetworkLayer(((1, 1 << 21), (3, 4)), "none", False),),
        (NetworkLayer(WEIGHTS, "exp", False), NetworkLayer(((1, 2, 3),) * 2, "none", False)),
        (NetworkLayer(WEIGHTS, "relu", False), NetworkLayer(WEIGHTS, "none", False)),
        (NetworkLayer(WEIGHTS, "relu", 1), NetworkLayer(((1, 2, 3),) * 2, "none", False)),
        (NetworkLayer(((1, 2),) * 257, "none", False),),
    ],
)
def test_the_kernel_refuses_networks_that_do_not_fit(layers) -> None:
    assert not is_network(layers)
    with pytest.raises(RefusedError):
        vector_functions.check_function(NetworkGradient("b", layers))


def test_a_served_curator_makes_the_estimator_from_plain_values() -> None:
    estimator = make_estimator("NetworkClassifier", {"epsilon": "1", "n": 100, "layers": LAYERS})
    assert read_layers(estimator.layers)[0].is_normalised
    with pytest.raises(ParameterError, match="fit_table"):
        estimator.fit(np.zeros((3, 2)), [0, 1, 0])
    weights = draw_weights(5, [4], 2)
    assert [matrix.shape for matrix in weights] == [(4, 5), (2, 5)] and not weights[-1].any()
    assert np.abs(quantise_network(weights[0])).max() <= 65536 / np.sqrt(5) + 1
