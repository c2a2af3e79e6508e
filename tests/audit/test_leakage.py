"""Leakage: known numbers, the theorems on random channels, the estimators against brute force.

The systems of these tests draw from a fixed stream, so their verdicts never vary: what is tested is
arithmetic and agreement with the book, not the randomness of the product (tests/noise does that).
"""

import json
import math
import re
import zlib
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from dither.audit.confidence import upper
from dither.audit.leakage import places, systems, tables
from dither.audit.leakage.channel import Channel, response
from dither.audit.leakage.estimate import METHODS, Trained, from_pairs, neighbours
from dither.audit.leakage.limits import (
    advantage,
    central_epsilon,
    central_leakage,
    central_risk,
    certified_epsilon,
    graph_entropy,
    graph_risk,
    local_epsilon,
    local_risk,
)
from dither.audit.leakage.line import LineClassifier
from dither.audit.leakage.systems import Geometric, Matrix, Plane, random_system, spiky, uniforms
from dither.audit.leakage.tables import EXPERIMENTS
from dither.cli import audit_leakage
from dither.cli.main import app
from dither.errors import ParameterError
from dither.privacy.noise import Words
from tests.case_lists import mark_rest

rng = np.random.default_rng(11)


class Fixed(Words):
    """A fixed stream, for the data of a test."""

    def __init__(self, seed: int) -> None:
        self.stream = np.random.default_rng(seed)

    def words(self, count, width=64):
        return self.stream.integers(0, 2**width, count, np.uint64, endpoint=False)


@pytest.fixture(autouse=True)
def _fixed_systems(monkeypatch, request):
    source = Fixed(zlib.crc32(request.node.name.encode()))
    monkeypatch.setattr(systems, "SystemSource", lambda: source)
    for name in ("uniform_below", "discrete_laplace"):
        monkeypatch.setattr(systems, name, partial(getattr(systems, name), source=source))


@pytest.mark.parametrize(
    ("k", "epsilon", "risk"),
    [
        (2, 1, 0.268941),
        (10, 1, 0.768031),
        (10, 0.5, 0.845172),
        (10, math.log(3), 0.75),
        (100, 1, 0.973276),
        (400, math.log(2), 0.995012),
    ],
)
def test_randomised_response_attains_the_local_bound(k, epsilon, risk):
    """Randomised response over k values has the least Bayes risk that its epsilon allows."""
    channel = Channel(response(k, epsilon))
    assert (
        channel.bayes_risk
        == pytest.approx(risk, abs=1e-6)
        == pytest.approx(local_risk(k, epsilon), abs=1e-6)
    )
    assert local_epsilon(k, channel.bayes_risk) == pytest.approx(epsilon, rel=1e-9)
    assert channel.distance([(0, 1)]) == pytest.approx(epsilon)


def test_central_and_graph_numbers():
    for n, risk in ((1, 0.268941), (2, 0.465553), (3, 0.609288), (10, 0.956396)):
        assert central_risk(n, 1.0) == pytest.approx(risk, abs=1e-6)
        assert central_epsilon(n, central_risk(n, 1.0)) == pytest.approx(1.0)
    assert central_leakage(1, 1.0) == pytest.approx(0.379885, abs=1e-6)
    assert central_leakage(3, 1.0) == pytest.approx(1.139656, abs=1e-6)
    for m, entropy, risk in ((5, 0.696357, 0.501602), (10, 0.765176, 0.534748)):
        near = np.minimum(np.arange(m), m - np.arange(m))
        distances = np.bincount(near).tolist()
        assert graph_entropy(distances, 1.0) == pytest.approx(entropy, abs=1e-6)
        ring = np.exp(-1.0 * near[(np.arange(m)[:, None] - np.arange(m)) % m])
        channel = Channel(ring / ring.sum(axis=1, keepdims=True))
        assert (
            channel.bayes_risk
            == pytest.approx(risk, abs=1e-6)
            == pytest.approx(graph_risk(distances, 1.0), abs=1e-6)
        )
    bounds = advantage(1.0)
    assert bounds["accuracy"] == pytest.approx(0.731059, abs=1e-6)
    assert advantage(math.log(3))["accuracy"] == pytest.approx(0.75)
    assert certified_epsilon(10, 5_000, 5_000) == 0.0


def test_theorems_on_random_channels():
    for _ in range(60):
        matrix = rng.random((4, 6)) + 0.01
        channel = Channel(matrix / matrix.sum(axis=1, keepdims=True), rng.dirichlet([1] * 4))
        assert -1e-12 <= channel.leakage <= channel.capacity + 1e-12
        assert channel.bayes_risk <= channel.random_guess + 1e-12
        assert all(
            channel.bayes_risk <= channel.risk(rng.integers(0, 4, 6)) + 1e-12 for _ in range(5)
        )
        post = rng.random((6, 3))
        after = channel.after(post / post.sum(axis=1, keepdims=True))
        assert (
            after.bayes_risk >= channel.bayes_risk - 1e-12
            and after.distance() <= channel.distance() + 1e-9
        )
        assert (
            local_epsilon(4, channel.bayes_risk, channel.random_guess) <= channel.distance() + 1e-9
        )
        assert channel.additive_leakage >= -1e-12 and 0 <= channel.bayes_security <= 1 + 1e-12
    with pytest.raises(ParameterError):
        Channel(np.ones((2, 2)))
    assert Channel(np.eye(2)).distance() == math.inf


def test_every_printed_bayes_risk_is_reproduced():
    """Table 15.3 with the conventions of erratum 8; exact values of section 12."""
    exact = [
        0.0,
        0.00667057,
        0.60046535,
        0.36420065,
        0.36420065,
        0.36420065,
        0.23838200,
        0.92381674,
    ]
    for each, risk in zip(EXPERIMENTS, exact, strict=False):
        found = each.build().bayes_risk
        assert found == pytest.approx(risk, abs=1e-8) and round(found, 3) == pytest.approx(
            each.risk, abs=1e-9
        )
    assert np.mean([random_system().bayes_risk for _ in range(20)]) == pytest.approx(
        0.97914, abs=3e-4
    )
    assert spiky().bayes_risk == 0


def test_the_geometric_channel_is_two_epsilon_private_between_neighbours_because_it_is_clipped():
    system = Geometric(0.2, 100, 1_000)
    o = np.arange(1_000)
    matrix = np.stack([system.chance(s, o) for s in range(100)])
    channel = Channel(matrix)
    assert channel.distance([(i, i + 1) for i in range(99)]) == pytest.approx(2.0)
    assert channel.bayes_risk == pytest.approx(system.bayes_risk)
    cut = np.exp(-0.2 * np.abs(o - 10 * np.arange(100)[:, None]))
    divided = Channel(cut / cut.sum(axis=1, keepdims=True))
    assert divided.distance([(i, i + 1) for i in range(99)]) == pytest.approx(2.535, abs=1e-3)


def brute(secrets, outputs, point, k):
    """The book's rule, literally: sort, find the group that straddles k, let its most frequent
    secret fill up."""
    order = sorted(range(len(secrets)), key=lambda i: abs(outputs[i] - point))
    distances = [abs(outputs[i] - point) for i in order]
    labels = [secrets[i] for i in order]
    edge = distances[k - 1]
    inside = [s for s, d in zip(labels, distances, strict=True) if d < edge]
    group = [s for s, d in zip(labels, distances, strict=True) if d == edge]
    best = min(sorted(set(group)), key=lambda s: -group.count(s))
    votes = inside + [best] * (k - len(inside))
    return min(sorted(set(votes)), key=lambda s: -votes.count(s))


def test_nearest_neighbours_vote_as_the_book_says_ties_included():
    for k in (1, 2, 3, 5):
        secrets, outputs = rng.integers(0, 3, 30), rng.integers(0, 12, 30)
        trained = Trained(secrets, outputs, 3)
        for point in range(12):
            assert trained.nearest(np.array([point]), k)[0] == brute(
                secrets.tolist(), outputs.tolist(), point, k
            )
    seen = Trained(np.array([2, 2, 1]), np.array([5, 5, 9]), 3)
    assert seen.frequentist(np.array([5, 9, 7])).tolist() == [2, 1, 2]
    assert (
        neighbours("ln", 1000) == 7
        and neighbours("log10", 1000) == 3
        and neighbours("nn", 10**6) == 1
    )


@pytest.mark.all
def test_the_line_votes_as_the_tree_does():
    for _ in range(60):
        examples, kinds, size = (int(rng.integers(*ends)) for ends in ((1, 60), (2, 5), (2, 40)))
        secrets, outputs, every = (
            rng.integers(0, kinds, examples),
            rng.integers(0, size, examples),
            np.arange(size),
        )
        line, tree = LineClassifier(secrets, outputs, kinds, size), Trained(secrets, outputs, kinds)
        assert (line.guess("frequentist") == tree.frequentist(every)).all()
        for k in range(1, min(examples, 9) + 1):
            assert (line.nearest(k) == tree.nearest(every, k)).all()


QUICK_TABLES = ["15.4", "15.5", "15.6", "15.7"]


@pytest.mark.parametrize(
    "shown", mark_rest([QUICK_TABLES[1:2], QUICK_TABLES], quick=1), ids=["one", "all"]
)
def test_estimates_converge_with_the_sample_sizes_that_the_book_prints(monkeypatch, shown):
    """The quick systems: counts and orders within the tolerance (median of three; the stream is
    fixed)."""
    monkeypatch.setattr(
        tables, "EXPERIMENTS", [each for each in EXPERIMENTS if each.table in shown]
    )
    found = list(tables.reproduce(full=False, runs=3, step=0.1))
    assert [each.experiment.table for each in found] == shown
    for each in found:
        assert not any(each.misses.values()), (each.experiment.name, each.counts)


def test_a_wrong_estimator_or_a_wrong_convention_misses_the_book():
    """Planted: delta taken absolutely where it is relative, and outputs that are shifted after
    training."""
    geometric = EXPERIMENTS[3]
    system = geometric.build()
    secrets, outputs = system.pairs(geometric.quick)
    right = tables.curves(system, secrets, outputs, 0.1)
    counts = {
        d: tuple(right[m].converged(system.bayes_risk, d) for m in METHODS)
        for d in geometric.counts
    }
    assert not any(tables.disagreements(geometric, d, counts[d]) for d in counts)
    absolute = {
        d: tuple(right[m].converged(system.bayes_risk, d, absolute=True) for m in METHODS)
        for d in geometric.counts
    }
    assert all(tables.disagreements(geometric, d, absolute[d]) for d in (0.1, 0.05))
    wrong = tables.curves(system, secrets, (outputs + 5) % system.outputs, 0.1)
    assert wrong["nn"].converged(system.bayes_risk, 0.1) is None


@pytest.mark.all
def test_estimators_on_generated_places_converge_in_the_order_of_the_book(monkeypatch):
    """Blahut-Arimoto (table 15.10): outputs come again and again, so all four estimators converge
    together."""
    only = {key: rows for key, rows in places.PRINTED.items() if key[1:] == ("Blahut-Arimoto", 2)}
    monkeypatch.setattr(places, "PRINTED", only)
    (found,) = places.reproduce(pairs=20_000, step=0.3)
    counts = found.counts[0.1]
    assert found.distinct <= 400 and None not in counts and max(counts) <= 1.3 * min(counts)
    plane = Plane(8.0, side=6, margin=300.0, fine=30.0)
    prior = plane.hot_spots
    assert prior.sum() == pytest.approx(1) and prior.max() > 5 * prior.min()
    assert plane.risk_of_geometric(np.full(36, 1 / 36)) == pytest.approx(
        plane.bayes_risk, abs=1e-12
    )
    coarse, fine = (plane.risk_of_laplace(prior, fine=f, margin=900.0) for f in (15.0, 5.0))
    assert coarse == pytest.approx(fine, abs=0.003)
    secrets, points = plane.laplace_pairs(40_000, prior)
    away = np.hypot(*(points[:, None] - plane.secret_centres[None]).transpose(2, 0, 1))
    best = (np.log(prior)[None] - plane.rate * away).argmax(axis=1)
    assert (best != secrets).mean() == pytest.approx(fine, abs=0.015)  # six standard deviations


def test_pairs_give_estimates_warnings_and_a_certified_epsilon():
    system = Matrix(response(4, 1.0))
    secrets, outputs = system.pairs(12_000)
    found = from_pairs(secrets, outputs)
    assert abs(found.risk - system.bayes_risk) < 0.05 and found.random_guess == pytest.approx(
        0.75, abs=0.03
    )
    assert 0.5 < certified_epsilon(4, found.errors, found.held_out, 1e-6) <= 1.0
    assert any("upper bounds" in each for each in found.warnings)
    continuous = from_pairs(secrets, outputs + uniforms(len(outputs)))
    assert any("continuous" in each for each in continuous.warnings)
    with pytest.raises(ParameterError):
        from_pairs([0] * 10, [0] * 10)


def test_location_privacy_on_generated_points():
    plane = Plane(4.0)
    assert len(plane.secret_centres) == 400 and len(plane.grid) == 115_600
    assert plane.rate == pytest.approx(0.0138629, abs=1e-7)
    secrets, points = plane.laplace_pairs(40_000)
    moved = np.hypot(*(points - plane.secret_centres[secrets]).T)
    assert moved.mean() == pytest.approx(144.27, rel=0.03)
    small = Plane(8.0, side=4, margin=300.0, fine=30.0)
    _, grid_points = small.geometric_pairs(2_000)
    assert {tuple(p) for p in grid_points} <= {
        tuple(p) for p in small.grid
    } and 0 < small.bayes_risk < 1
    prior = np.full(16, 1 / 16)
    channel = Channel(small.blahut_arimoto(prior))
    plain = np.exp(
        -small.rate
        * np.hypot(*(small.secret_centres[:, None] - small.secret_centres[None]).transpose(2, 0, 1))
    )
    assert channel.bayes_risk >= Channel(plain / plain.sum(axis=1, keepdims=True)).bayes_risk - 1e-9


def test_many_points_against_many_points_use_a_tree():
    """20,000 by 20,000: far more than the machine could hold as a matrix of distances
    (bench/audit.py times 1e5)."""
    plane = Plane(4.0)
    secrets, points = plane.laplace_pairs(20_000)
    fresh, others = plane.laplace_pairs(20_000)
    guesses = Trained(secrets, points, 400).nearest(others, 10)
    assert 0.5 < (guesses != fresh).mean() < 0.8  # R* of the discrete version is 0.653


@pytest.mark.all
def test_the_command_prints_the_book_beside_ours_and_the_leakage_of_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "EXPERIMENTS", (replace(EXPERIMENTS[-2], quick=12_000),))
    monkeypatch.setattr(audit_leakage, "Plane", cache(Plane))  # its risk takes seconds
    ran = CliRunner().invoke(app, ["audit", "leakage", "--runs", "1"], env={"COLUMNS": "170"})
    assert ran.exit_code == 0 and "geometric 2, 10K x 1K" in ran.output, ran.output
    assert re.search(r"leakage: \d of 4 rows of the book within tolerance", ran.output)
    told = CliRunner().invoke(app, ["audit", "leakage", "--runs", "1", "--json"])
    data = json.loads(told.stdout)
    assert (
        data["systems"][0]["risk"] == pytest.approx(0.92381674)
        and len(data["systems"][0]["rows"]) == 4
    )
    assert data["planar_geometric_uniform"][0]["risk"] == pytest.approx(places.UNIFORM[8], abs=5e-6)
    secrets, outputs = Matrix(response(4, 1.0)).pairs(2_000)
    file = tmp_path / "pairs.csv"
    lines = (f"{s},{o}" for s, o in zip(secrets, outputs, strict=True))
    file.write_text("\n".join(["secret,output", *lines]) + "\n")
    ran = CliRunner().invoke(app, ["audit", "leakage", str(file), "--json"])
    assert 0 <= json.loads(ran.stdout)["epsilon_at_least"] <= 1.0


def test_the_best_of_four_classifiers_has_a_quarter_of_alpha_each():
    """Four independent guessers of a fair coin, 5,000 held-out pairs: at full alpha one of them
    certifies a positive epsilon in 18% of all cases, at a share each in at most 5% (binomial law).
    """
    held_out, alpha = 5_000, 0.05

    def chance_of_alarm(classifiers):
        alarms = [
            errors
            for errors in range(2_300, 2_500)
            if certified_epsilon(2, errors, held_out, alpha, classifiers=classifiers) > 0
        ]
        return 1 - (1 - binom.cdf(max(alarms), held_out, 0.5)) ** 4

    assert chance_of_alarm(1) > 0.17 and 0.04 < chance_of_alarm(4) <= alpha


def test_the_certified_epsilon_uses_the_prior_of_the_pairs():
    """Nine of ten secrets are the same, and guessing it errs in a tenth: that shows nothing."""
    errors, held_out, counts = 500, 5_000, (18_000, 1_000, 600, 400)
    assert certified_epsilon(4, errors, held_out) > 3
    assert certified_epsilon(4, errors, held_out, prior_counts=counts) == 0
    limit = max(upper(count, 20_000, 0.05 / 2 / 4) for count in counts)
    better = certified_epsilon(4, 50, held_out, prior_counts=counts)
    assert better == local_epsilon(4, upper(50, held_out, 0.05 / 2), 1 - limit) > 0


def test_all_training_pairs_are_used_and_a_sorted_file_is_shuffled():
    secrets, outputs = Matrix(response(2, 3.0)).pairs(4_000)
    order = np.argsort(secrets, kind="stable")
    leakage = from_pairs(secrets[order], outputs[order])
    assert {line.examples[-1] for line in leakage.curves} == {3_000}
    assert leakage.risk < 0.2 and leakage.certify(1e-9) > 1


@pytest.mark.parametrize("header", ["", "secret,output\n"])
def test_the_first_line_of_pairs_is_kept_unless_it_is_a_header(tmp_path, header):
    file = tmp_path / "pairs.csv"
    file.write_text(header + "first,1.5\n" + "second,2\n" * 3)
    secrets, outputs = audit_leakage._read_pairs(file)
    assert secrets == ["first", "second", "second", "second"]
    assert outputs.tolist() == [[1.5], [2], [2], [2]]


@pytest.mark.parametrize("line", ["Ada,many", "Ada", "Ada,1,2"])
def test_a_line_that_is_no_pair_is_named_by_its_number(tmp_path, line):
    file = tmp_path / "pairs.csv"
    file.write_text(f"secret,output\nBob,1\n{line}\n")
    with pytest.raises(ParameterError, match="line 3 of pairs.csv") as refused:
        audit_leakage._read_pairs(file)
    assert "Ada" not in str(refused.value)
