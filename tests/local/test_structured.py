"""Heavy hitters, marginals, ranges, places, text, graphs, models, shuffling, poisoning, presets,
simulation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy.stats import chi2
from typer.testing import CliRunner

from dither import ParameterError, local
from dither.cli.local import app
from dither.local import graph, graphgen, poisoning, shuffle, text
from dither.local.odds import at_most_exp
from dither.local.sgd import LocalSGD
from dither.local.simulate import measure, population
from dither.local.spatial import norm_above
from dither.privacy.losses import Loss, Pure
from tests.case_lists import mark_between
from tests.local.seeded_words import SeededWords

SMALL = [
    local.Marginals(1, 3, 2),
    local.Marginals(2, 4, 4),
    local.Hierarchy(1, 4, 2),
    local.Hierarchy(2, 9, 3),
    local.Haar(1, 8),
    local.Haar(3, 4),
]


@pytest.mark.parametrize("protocol", mark_between(SMALL, step=3), ids=lambda p: p.type)
def test_exact_audit(protocol: local.Protocol) -> None:
    assert local.check(protocol).problems == ()
    assert local.from_json(protocol.to_json()) == protocol
    for value in protocol.inputs()[:3]:
        assert local.same_law(protocol, value, 10_000, SeededWords(value))


def test_prefix_search_is_private_and_draws_its_law() -> None:
    protocol = local.PrefixSearch(1, 3, 1, 1, 3)
    assert local.check(protocol, moments=False).problems == ()
    assert local.same_law(protocol, 5, 20_000, SeededWords(1))


def test_planted_words_are_found() -> None:
    """Words at 5%, 3% and 2%, epsilon 4; all above three standard errors, nothing else."""
    letters = text.Alphabet("abcdefgh")
    generator = np.random.default_rng(0)
    users = 40_000
    planted = {"beach": 0.05, "faced": 0.03, "caged": 0.02}
    values = [
        letters.encode(word, 5)
        for word, share in planted.items()
        for _ in range(int(share * users))
    ]
    noise = generator.integers(0, 8, (users - len(values), 5))
    values += [letters.encode("".join(letters.letters[i] for i in row), 5) for row in noise]
    protocol = local.PrefixSearch(4, letters.bits * 5, 8, 6)
    payloads = protocol.randomise(np.array(values), SeededWords(2))
    collector, other = local.Aggregator(protocol), local.Aggregator(protocol)
    collector.add_payloads(payloads[:1_000])
    other.add_payloads(payloads[1_000:])
    collector = local.Aggregator.from_bytes(collector.to_bytes()).merge(other)
    assert collector.reports == users and collector.rejected == 0
    found, counts = protocol.find(collector.payloads, keep=12)
    names = [letters.decode(int(value), 5) for value in found]
    assert set(planted) <= set(names) and len(names) <= 4
    for word, share in planted.items():
        place = names.index(word)
        assert abs(counts.values[place] - share * users) < 6.5 * counts.errors[place] + users * 0.01
    with pytest.raises(ParameterError, match="find"):
        collector.estimate()


@pytest.mark.all
def test_the_fragment_puzzle_finds_planted_words() -> None:
    """Words nobody listed, at 5%, 3% and 3%, epsilon 4; three pieces of two letters, tags of 8
    bits."""
    letters, users = text.Alphabet("abcdefgh"), 60_000
    planted = {"beach": 0.05, "faced": 0.03, "caged": 0.03}
    values = [
        letters.encode(word, 6)
        for word, share in planted.items()
        for _ in range(int(share * users))
    ]
    noise = np.random.default_rng(0).integers(0, 8, (users - len(values), 6))
    values += [letters.encode("".join(letters.letters[i] for i in row), 6) for row in noise]
    protocol = local.FragmentPuzzle(4, bits=letters.bits * 6, step=8)
    assert protocol.positions == 3 and local.from_json(protocol.to_json()) == protocol
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(np.array(values), SeededWords(2)))
    found, counts = protocol.find(collector.payloads)
    assert {letters.decode(int(value), 6) for value in found} == set(planted)
    for value, count, error in zip(found, counts.values, counts.errors, strict=True):
        assert abs(count - planted[letters.decode(int(value), 6)] * users) < 6.5 * error
    # nobody agrees on anything: nothing is found
    alone = protocol.randomise(np.arange(20_000) * 811 % (1 << 24), SeededWords(3))
    assert len(protocol.find(alone)[0]) == 0


def test_pieces_and_tags_are_those_of_the_page() -> None:
    protocol = local.FragmentPuzzle(1, bits=10, step=4, tag_bits=3, name="x")
    value = 0b1011_0110_01
    tag = int.from_bytes(hashlib.sha256(b"x:729").digest()[:2], "big") >> 13
    assert [int(protocol.project_values(np.array([value]), group)[0]) for group in range(6)] == [
        0b1011 << 3 | tag,
        0b0110 << 3 | tag,
        0b01 << 3 | tag,
        value,
        value,
        value,
    ]


def test_marginals_need_all_lower_weights() -> None:
    """175 coefficients for ten attributes and order three, not 120."""
    assert local.Marginals(1, 10, 3).coefficients == 175
    generator, users = np.random.default_rng(1), 60_000
    bits = np.stack(
        [generator.random(users) < 0.3, generator.random(users) < 0.6, np.zeros(users, bool)],
        axis=1,
    )
    bits[:, 2] = bits[:, 0] ^ (generator.random(users) < 0.1)
    values = bits @ np.array([1, 2, 4])
    protocol = local.Marginals(2, 3, 2)
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(values, SeededWords(3)))
    for pair in ((0, 1), (0, 2), (2, 1)):
        cells = protocol.marginal(collector.estimate(), pair)
        truth = np.array(
            [
                np.sum((bits[:, pair[0]] == (c & 1)) & (bits[:, pair[1]] == (c >> 1)))
                for c in range(4)
            ]
        )
        assert cells.values.sum() == pytest.approx(users)
        assert (np.abs(cells.values - truth) < 6.5 * cells.errors).all()


@pytest.mark.parametrize(
    "protocol", [local.Hierarchy(1, 256, 4), local.Haar(1, 256)], ids=lambda p: p.type
)
def test_ranges_and_quantiles(protocol: local.Haar) -> None:
    values = np.clip(np.random.default_rng(2).normal(120, 30, 50_000), 0, 255).astype(np.int64)
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(values, SeededWords(4)))
    ordered = protocol.ordered(collector.tally, collector.reports)
    assert ordered.range(0, 256) == pytest.approx(50_000)
    for start, end in ((0, 100), (90, 150), (37, 200)):
        truth = int(((values >= start) & (values < end)).sum())
        assert (
            abs(ordered.range(start, end) - truth)
            < 6.5 * protocol.range_variance(start, end, 50_000) ** 0.5
        )
    for share in (0.1, 0.5, 0.9):
        assert abs(ordered.quantile(share) - np.quantile(values, share)) < 12


def test_haar_range_variance_is_exact() -> None:
    """Measured over 300 runs for a range that nobody is in; chi-square at 1e-9."""
    protocol, users, runs = local.Haar(1, 16), 400, 300
    payloads = protocol.randomise(np.full(users * runs, 15), SeededWords(5)).reshape(
        runs, users, -1
    )
    spread = protocol.range_variance(2, 7, users)
    found = [protocol.ordered(protocol.tally(part), users).range(2, 7) for part in payloads]
    squares = float(np.square(found).sum() / spread)
    # the user is on the path of the range's top coefficient, which lowers the variance by its
    # squared mean
    assert chi2.isf(1 - 5e-10, runs) * 0.9 < squares < chi2.isf(5e-10, runs)


def _metric_holds(noise: local.PlanarLaplace, pairs: int = 4_000) -> bool:
    """For random places within `radius`: does the largest exponent between their lattice points
    stay within epsilon?"""
    generator, radius = np.random.default_rng(0), float(noise.radius)
    start = generator.uniform(-2 * radius, 2 * radius, (pairs, 2))
    turn, length = generator.uniform(0, 6.3, pairs), generator.uniform(0, radius, pairs)
    end = start + np.stack([np.cos(turn), np.sin(turn)], axis=1) * length[:, None]
    for (x, y), apart in zip((noise.cells(start) - noise.cells(end)).tolist(), length, strict=True):
        worst = float(noise.weight_exponent(x, y))  # seen at one of the two lattice points
        if worst > min(float(noise.loss(Fraction(apart)).epsilon), float(noise.epsilon)) * (
            1 + 1e-12
        ):
            return False
    return True


@dataclass(frozen=True)
class ForgetsToRound(local.PlanarLaplace):
    """epsilon * distance for *places*, as if they lay on the lattice: what this library claimed
    before its red team."""

    @property
    def _step(self) -> Fraction:
        return self.epsilon * self.side / self.radius

    def loss(self, distance: object = None) -> Loss:
        return Pure(
            self.epsilon * Fraction(distance) / self.radius, neighbours="replace", unit="user"
        )  # type: ignore[arg-type]


def test_planar_laplace_never_passes_its_metric() -> None:
    """Weights of all displacements in a window: |log ratio| <= step * distance, in exact exponents.

    And between *places*, not lattice points: two points however close may round to cells sqrt(2)
    sides apart.
    """
    noise = local.PlanarLaplace(2, side="1/2", radius=1)
    step = noise.epsilon / (2 + Fraction(14143, 10000))
    points = list(product(range(-6, 7), repeat=2))
    for (x, y), (dx, dy) in product(points[::5], product(range(-3, 4), repeat=2)):
        if (dx, dy) == (0, 0):
            continue
        gap = abs(noise.weight_exponent(x, y) - noise.weight_exponent(x - dx, y - dy))
        assert gap**2 <= step**2 * (dx * dx + dy * dy)  # compared as squares
    assert norm_above(3, 4) == 5 and norm_above(1, 1) ** 2 >= 2
    assert _metric_holds(noise) and not _metric_holds(ForgetsToRound(2, side="1/2", radius=1))
    near = noise.cells([[0.2499, 0.2499], [0.2501, 0.2501]])
    assert (near[1] - near[0]).tolist() == [1, 1]  # a fifth of a thousandth apart, and a whole cell


def test_planar_laplace_has_its_law_and_radius() -> None:
    noise = local.PlanarLaplace(1, side=1, radius=1)
    drawn = noise.noise(4_000, source=SeededWords(6))
    window = [(x, y) for x in range(-2, 3) for y in range(-2, 3)]
    far = range(-120, 121)
    total = sum(exp(-float(noise.rate) * float((x * x + y * y) ** 0.5)) for x in far for y in far)
    expected = np.array(
        [4_000 * exp(-float(noise.weight_exponent(x, y))) / total for x, y in window]
    )
    seen = np.array([int(((drawn == place).all(axis=1)).sum()) for place in window])
    assert chi2.sf(float(((seen - expected) ** 2 / expected).sum()), len(window)) > 1e-9
    fine = local.PlanarLaplace(1, side="1/64", radius=1)
    radius = np.hypot(*fine.noise(2_000, source=SeededWords(7)).T) * float(fine.rate)
    assert radius.mean() == pytest.approx(
        2, abs=6.2 * (2 / 2_000) ** 0.5
    )  # Gamma(2): mean 2, variance 2
    assert radius.var() == pytest.approx(2, abs=0.9)


def test_places_travel() -> None:
    protocol = local.PlanarLaplace(2, side=10, radius=200)
    client = local.Client(protocol, lifetime_epsilon=4)
    collector = local.Aggregator(protocol)
    collector.add(client.report((1200.0, 340.0)))
    assert client.report((1201.0, 341.0)) == client.report((1200.0, 340.0))  # one cell, one answer
    assert client.spent == 2 and "within 200" in client.statement()
    (place,) = protocol.places(collector.payloads) * 10
    assert np.hypot(*(place - [1200, 340])) < 200 / 2 * 45  # P(length > 45 / rate) is below 1e-17
    far = protocol.places(protocol.permanent([[1e300, -np.inf]], SeededWords(1)))[0]
    assert far[0] > 2**31 - 10_000 and far[1] < -(2**31) + 10_000
    with pytest.raises(ParameterError, match="do not add"):
        local.Client(protocol, budget=local.DeviceBudget(9))


def test_remapping_moves_reports_to_likely_places() -> None:
    noise = local.PlanarLaplace(1, side=1, radius=1)
    places = np.array([[0.0, 0.0], [10.0, 0.0]])
    assert noise.remap(np.array([[6, 0]]), places, np.array([0.99, 0.01]))[0] == 0
    assert noise.remap(np.array([[6, 0]]), places, np.array([0.5, 0.5]))[0] == 1
    assert 1 < noise.loss(3).epsilon < 3 and "distance" in noise.loss(3).unit


def test_grid_counts() -> None:
    grid = local.Grid((0, 0, 4, 4), 4, 4)
    points = np.random.default_rng(3).uniform(0, 4, (20_000, 2))
    oracle = local.choose(2, grid.domain).oracle
    found = oracle.estimate(
        oracle.tally(oracle.randomise(grid.cell(points), SeededWords(7))), 20_000
    )
    truth = np.bincount(grid.cell(points), minlength=16)
    assert (np.abs(found.values - truth) < 6.5 * found.errors).all()
    assert grid.cell(np.array([[-5.0, 99.0]]))[0] == 12


def test_texts_report_one_ngram_each() -> None:
    letters = text.Alphabet("abc")
    assert letters.decode(letters.encode("abz", 3), 3) == "ab?"
    assert letters.decode(letters.encode("a", 3), 3) == "a"
    assert letters.encode("ab", 3) >> letters.bits == letters.encode("ab", 2)
    drawn = text.one_ngram([["the", "cat", "sat"], ["a"]], 2, source=SeededWords(8))
    assert drawn[0] in {("the", "cat"), ("cat", "sat")} and drawn[1] == ("a", "")
    assert text.vocabulary([("x",), ("y",)], [("y",)]).tolist() == [1, 0]
    with pytest.raises(ParameterError, match="60 bits"):
        letters.encode("a", 40)


@pytest.mark.all
def test_edges_and_triangles_are_unbiased() -> None:
    """300 runs on a graph of 24 users; normal bounds at 1e-9 on the means, chi-square on the edges'
    variance."""
    generator, users, runs = np.random.default_rng(4), 24, 300
    lower = np.tril(generator.random((users, users)) < 0.3, -1)
    full = (lower | lower.T).astype(int)
    answer, words = graph.EdgeResponse(2, users), SeededWords(9)
    edges, triangles = [], []
    for _ in range(runs):
        reports = answer.permanent([(u, lower[u, :u]) for u in range(users)], words)
        count = answer.edges(reports)
        edges.append((count.values[0] - lower.sum()) / count.errors[0])
        triangles.append(answer.triangles(reports).values[0])
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(edges).sum()) < chi2.isf(5e-10, runs)
    truth = np.trace(full @ full @ full) / 6
    assert abs(np.mean(triangles) - truth) < 6.5 * np.std(triangles) / runs**0.5
    ratio = answer.p / (1 - answer.p)
    assert at_most_exp(ratio, Fraction(2)) and answer.loss().unit == graph.EDGE_UNIT


@dataclass(frozen=True)
class EdgesAtTwice(graph.EdgeResponse):
    """The budget of both ends of a link spent by one of them."""

    @property
    def p(self) -> Fraction:
        return graph.EdgeResponse(2 * self.epsilon, self.users).p


def test_edge_reports_are_private_entry_by_entry() -> None:
    protocol = graph.EdgeResponse(1, users=4)
    assert local.check(protocol, moments=False).ok
    for value in ((3, (True, False, True)), (0, ())):
        assert local.same_law(protocol, value, 4_000, SeededWords(5))
    client = local.Client(protocol, lifetime_epsilon=1)
    assert (
        len(client.report((2, [True, False]))) == 10
        and client.spent == 1
        and "link list" in client.statement()
    )
    with pytest.raises(ParameterError, match=r"users 0\.\.u-1"):
        client.report((2, [True]))
    assert not local.check(EdgesAtTwice(1, users=4), moments=False).ok
    # the whole list of a user is *not* protected: two lists of two entries each differ by e**2
    both = local.check(protocol, inputs=[(2, (False, False)), (2, (True, True))], moments=False)
    assert not both.ok


def test_a_synthetic_graph_keeps_size_and_communities() -> None:
    """Three communities, 89% of the links inside; chance would leave a third. Size by a normal
    bound on the noise."""
    generator, users = np.random.default_rng(4), 240
    part = np.arange(users) % 3
    same = part[:, None] == part[None, :]
    lower = np.tril(generator.random((users, users)) < np.where(same, 0.3, 0.02), -1)
    links = lower | lower.T
    found, labels, loss = graphgen.generate(links, 8, groups=8, count=3, source=SeededWords(3))
    assert (found == found.T).all() and not found.diagonal().any() and len(labels) == users
    assert found.sum() == pytest.approx(links.sum(), rel=0.1)
    assert (found & same).sum() / found.sum() > 0.5
    assert loss.epsilon == 8 and loss.unit == graph.EDGE_UNIT
    with pytest.raises(ParameterError, match="square"):
        graphgen.generate(links[:5], 1)


def test_degrees_get_integer_noise() -> None:
    protocol = graph.Degrees(1)
    found = protocol.total(protocol.permanent(np.full(20_000, 7), SeededWords(10)))
    a = exp(-1)
    assert abs(found.values[0] - 140_000) < 6.5 * (2 * a / (1 - a) ** 2 * 20_000) ** 0.5
    assert protocol.loss().epsilon == 1 and protocol.loss().unit == graph.EDGE_UNIT


@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_models_are_learnt_from_private_gradients(model: str) -> None:
    generator = np.random.default_rng(5)
    truth = np.array([0.8, -0.5, 0.3])
    x = generator.uniform(-1, 1, (60_000, 3))
    score = x @ truth * (3 if model == "logistic" else 1)
    y = generator.random(60_000) < 1 / (1 + np.exp(-score)) if model == "logistic" else score
    learner = LocalSGD(model, 4, 3, rate=2.0).fit(x, y, source=SeededWords(11))  # type: ignore[arg-type]
    found = learner.coefficients
    cosine = found @ truth / np.linalg.norm(found) / np.linalg.norm(truth)
    assert cosine > 0.95 and learner.loss().epsilon == 4
    with pytest.raises(ParameterError, match="users answer once"):
        learner.fit(x, y)


def test_shuffling_bounds() -> None:
    """The closed form is 0.0235; the numerical bound lies below it and falls as 1 / sqrt(n)."""
    assert shuffle.closed_form(1, 10**6, 1e-6) == pytest.approx(0.0235, abs=5e-5)
    found = shuffle.numerical(1, 10_000, 1e-6)
    assert 0.01 < found < shuffle.closed_form(1, 10_000, 1e-6)
    assert shuffle.numerical(1, 40_000, 1e-6) == pytest.approx(found / 2, rel=0.1)
    loss = shuffle.amplified(local.Direct(1, 4), 10_000, "1e-6")
    assert float(loss.epsilon) >= found and loss.neighbours == "replace" and loss.unit == "user"
    with pytest.raises(ParameterError, match="numerical"):
        shuffle.closed_form(8, 1_000, 1e-6)


def test_shuffling_bound_holds_on_the_enumerated_pair() -> None:
    """n = 6: the dominating pair written out in full, its divergence summed exactly, must not
    exceed delta_at."""
    from math import comb

    n, e0 = 6, 1.0
    keep, truth = exp(-e0), exp(e0) / (1 + exp(e0))
    for epsilon in (0.1, 0.4, 0.8):
        total = 0.0
        for c in range(n):
            weight = comb(n - 1, c) * keep**c * (1 - keep) ** (n - 1 - c)
            law = {a: comb(c, a) / 2**c for a in range(c + 1)}
            for x in range(c + 2):
                p = truth * law.get(x - 1, 0) + (1 - truth) * law.get(x, 0)
                q = (1 - truth) * law.get(x - 1, 0) + truth * law.get(x, 0)
                total += weight * max(0.0, p - exp(epsilon) * q)
        assert total <= shuffle.delta_at(epsilon, e0, n, 1e-12) <= total * 1.001 + 1e-9


@pytest.mark.parametrize(
    ("oracle", "gain"),
    [
        (local.Direct(1, 2), 1.582),
        (local.OptimisedUnary(1, 16), 3.164),
        (local.LocalHash(1, 16, 4), 3.328),
        (local.Hadamard(1, 16, 1), 2.164),
        (local.Direct(1, 1024), 596.36),
    ],
)
def test_poisoning_gains(oracle: local.OptimisedUnary, gain: float) -> None:
    """Local hashing with the integer g = 4 instead of e + 1 (3.164)."""
    assert poisoning.gain(oracle) == pytest.approx(gain, rel=1e-3)
    values = population(oracle.domain, 2_000)
    held = np.repeat(np.arange(oracle.domain), values)
    damage = poisoning.simulate(oracle, held, 100, [1], source=SeededWords(12))
    assert damage.gain_per_fake[0] == pytest.approx(gain, rel=1e-3)


def test_unary_and_hash_attacks_hit_all_targets_and_are_seen() -> None:
    targets, words = [1, 2, 3, 4, 5], SeededWords(13)
    for oracle in (local.OptimisedUnary(1, 32), local.OptimalHash(1, 32), local.Subset(1, 32)):
        honest = oracle.randomise(np.arange(4_000) % 32, words)
        damage = poisoning.simulate(oracle, np.arange(4_000) % 32, 400, targets, source=words)
        assert damage.gain_per_fake.sum() > 2.5 * poisoning.gain(oracle)
        lies = poisoning.attack(oracle, 400, targets, source=words)
        assert oracle.valid(lies).all()
        assert poisoning.hints(oracle, honest) == ()
        if oracle.type != "subset":
            assert poisoning.hints(oracle, np.concatenate([honest, lies])) != ()


def test_presets_name_their_sources() -> None:
    for preset in local.PRESETS.values():
        assert all(source for _, source in preset.parameters.values())
        assert preset.name in preset.explain()
    rappor = local.PRESETS["rappor"].protocol()
    assert float(rappor.epsilon_one) == pytest.approx(1.0743, abs=1e-4)
    assert float(local.PRESETS["chromium"].protocol().epsilon_one) == pytest.approx(
        2.0433, abs=1e-4
    )
    with pytest.raises(ParameterError, match="not public"):
        local.PRESETS["microsoft"].protocol()
    assert (
        local.PRESETS["microsoft"].protocol(epsilon=1, high=24, step=6, flip="1/5").most_keys == 5
    )
    assert local.PRESETS["apple-hcms"].protocol().payload_bytes == 8
    assert local.PRESETS["apple-puzzle"].protocol(epsilon=4, bits=30, step=10).positions == 3


def test_simulation_matches_its_formula() -> None:
    point = measure(local.Direct(2, 8), 20_000, source=SeededWords(14))
    assert point.measured == pytest.approx(point.predicted, rel=1.2)
    assert population(5, 1_000).sum() == 1_000


def test_the_command_draws_a_chart(tmp_path: object) -> None:
    picture = f"{tmp_path}/error.png"
    args = [
        "simulate",
        "--domain",
        "8",
        "--epsilon",
        "1",
        "--users",
        "1000",
        "--users",
        "4000",
        "--plot",
        picture,
    ]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    assert (
        "epsilon 1, delta 0, for one user (" in done.output
        and "not protected" in done.output
        and "wrote" in done.output
    )


MEASURED: list[tuple[local.Protocol, object]] = [
    (local.Marginals(1, 4, 2), 5),
    (local.Hierarchy(1, 16, 4), 9),
    (local.Haar(1, 16), 9),
    (local.SparseMean(2, 1, 5, 4, 2), {1: 4.0}),
    (local.VectorMean(2, -1, 1, 3, 2), np.array([0.5, -1.0, 0.0])),
    (local.CountMeanSketch(1, 20, 4, 16), 7),
    (local.HadamardSketch(1, 20, 4, 16), 7),
    (local.bloom_rappor(bits=8, hashes=2, cohorts=2, f="1/2", p="1/2", q="3/4"), "dark"),
    (local.SquareWave(1, 0, 1, 6), 0.4),
]


@pytest.mark.parametrize(
    ("protocol", "value"), mark_between(MEASURED, step=3), ids=[p.type for p, _ in MEASURED]
)
def test_measured_variance_matches_the_formula(protocol: local.Protocol, value: object) -> None:
    """200 runs of 300 users who all hold one value; entry by entry in turn; both tails of
    chi-square at 1e-9."""
    runs, users = 200, 300
    batch = (
        [value] * (runs * users)
        if isinstance(value, (str, dict))
        else np.repeat([value], runs * users, axis=0)
    )
    payloads = protocol.randomise(batch, SeededWords(21)).reshape(runs, users, -1)
    mean, variance = protocol.target(value), protocol.user_variance(value)
    places = [i for i in range(len(mean)) if variance[i] > 0]
    scores = []
    for run, part in enumerate(payloads):
        place = places[run % len(places)]
        found = protocol.debias(protocol.tally(part), users)[place]
        scores.append(
            (float(found) - users * float(mean[place])) / (users * float(variance[place])) ** 0.5
        )
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs)


@pytest.mark.parametrize(
    "protocol",
    [local.PrefixSearch(2, 12, 4, 4), local.FragmentPuzzle(2, bits=12, step=6)],
    ids=lambda p: p.type,
)
def test_measured_variance_of_searches_matches_the_formula(protocol: local.PrefixSearch) -> None:
    """200 runs of 400 users, a third of whom hold one value; its count by the reports on whole
    values; 1e-9."""
    runs, users, value = 200, 400, 1234
    held = np.where(np.arange(users) % 3 == 0, value, np.arange(users))
    truth, scores = int((held == value).sum()), []
    whole = [i for i, oracle in enumerate(protocol.oracles) if oracle == protocol.oracles[-1]]
    groups, oracle = len(protocol.oracles) / len(whole), protocol.oracles[-1]
    payloads = protocol.randomise(np.tile(held, runs), SeededWords(22)).reshape(runs, users, -1)
    exact = (
        groups * float(oracle.variances(np.array([float(truth)]), users)[0]) + (groups - 1) * truth
    )
    for part in payloads:
        mine = np.concatenate([protocol.answers(part, group) for group in whole])
        count = oracle.debias(oracle.support(mine, np.array([value])), len(mine))[0]
        scores.append((groups * count - truth) / exact**0.5)
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs)


def test_measured_variance_of_degrees_matches_the_formula() -> None:
    """300 runs of 200 users: the sum of many numbers is normal, its square chi-square."""
    protocol, runs, users = graph.Degrees(1, groups=2), 300, 200
    rows = protocol.permanent(np.tile([[5, 9]], (runs * users, 1)), SeededWords(23)).reshape(
        runs, users, -1
    )
    scores = [
        (protocol.total(part).values[0] - 5 * users) / (users * protocol.variance) ** 0.5
        for part in rows
    ]
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs)
