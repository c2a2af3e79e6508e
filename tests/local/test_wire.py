"""The wire format: stored vectors, hostile bytes, and the clients in JavaScript and C of the
reference page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dither import ParameterError, local
from dither.local import wire
from dither.local.hashing import HashFamily
from dither.local.wire import Payloads
from dither.privacy.noise import Words
from tests.case_lists import mark_between, mark_rest
from tests.local.client_programs import PAGE, compile_c_client, read_program

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "entry", VECTORS["protocols"], ids=lambda e: json.loads(e["document"])["protocol"]
)
def test_stored_vectors_are_read_as_ever(entry: dict[str, object]) -> None:
    protocol = local.from_json(json.loads(str(entry["document"])))
    assert protocol.document() == entry["document"]
    assert protocol.digest.hex() == entry["digest"]
    reports = [bytes.fromhex(report) for report in entry["reports"]]  # type: ignore[attr-defined]
    assert {len(report) for report in reports} == {wire.HEADER_BYTES + protocol.payload_bytes}
    if "tally" in entry:
        collector = local.Aggregator(protocol)
        collector.add_many(reports)
        assert (collector.reports, collector.rejected) == (len(reports), 0)
        assert collector.tally.tolist() == entry["tally"]


def test_every_protocol_has_a_vector() -> None:
    named = {json.loads(entry["document"])["protocol"] for entry in VECTORS["protocols"]}
    ours = {
        name
        for name, kind in local.protocol._TYPES.items()
        if kind.__module__.startswith("dither.")
    }
    assert named == ours
    page = PAGE.read_text("utf-8")
    assert all(f"`{name}`" in page for name in ours)


def test_hash_vectors() -> None:
    stored = VECTORS["hash"]
    family = HashFamily(stored["domain"], stored["size"])
    seeds = family.public(len(stored["seeds"]), stored["name"])
    assert seeds.tolist() == stored["seeds"]
    assert family.hash(seeds, np.array(stored["values"])).tolist() == stored["hashes"]
    bloom = local.bloom_rappor(bits=16, hashes=2, cohorts=64, f="1/2", p="1/2", q="3/4")
    assert [
        sorted(bloom.hash_bits(t, VECTORS["bloom"]["cohort"])) for t in VECTORS["bloom"]["texts"]
    ] == VECTORS["bloom"]["bits"]


def test_batches_round_trip(words: Words) -> None:
    protocol = local.OptimisedUnary(1, 9)
    payloads = protocol.randomise(np.arange(9), words)
    batch = wire.write_batch(protocol, payloads)
    assert len(batch) == 52 + 9 * 2
    assert (wire.read_batch(protocol, batch) == payloads).all()
    for broken in (b"", batch[:-1], b"x" + batch[1:], batch[:4] + b"\x02" + batch[5:]):
        with pytest.raises(ParameterError):
            wire.read_batch(protocol, broken)
    with pytest.raises(ParameterError, match="another protocol"):
        wire.read_batch(local.OptimisedUnary(1, 10), batch)


def test_hostile_reports_change_nothing() -> None:
    protocol = local.Direct(1, 5)
    collector = local.Aggregator(protocol)
    good = local.Client(protocol, lifetime_epsilon=1).report(2)
    for broken in (b"", good[:-1], good + b"\0", b"\x02" + good[1:], good[:1] + b"xxxx" + good[5:]):
        with pytest.raises(ParameterError):
            collector.add(broken)
    collector.add(good[:-1] + b"\xff")
    assert (collector.reports, collector.rejected, collector.tally.sum()) == (0, 1, 0)
    collector.add_many([good, b"junk", good[:-1] + b"\x05"])
    assert (collector.reports, collector.rejected) == (1, 3)


@pytest.mark.parametrize(
    "protocol",
    [
        local.Direct(1, 5),
        local.OptimisedUnary(1, 4),
        local.Hadamard(1, 6),
        local.Hadamard(3, 9),
        local.Direct(1, 300),
    ],
    ids=lambda p: f"{p.type}-{p.domain}",
)
def test_every_byte_string_is_accepted_or_rejected(protocol: local.Protocol) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (5_000, protocol.payload_bytes), np.uint8)
    collector = local.Aggregator(protocol)
    collector.add_payloads(rows)
    assert collector.reports + collector.rejected == 5_000


def _agrees(protocol: local.Protocol, value: Any, lines: list[str]) -> None:
    """Accepted by the aggregator, and distributed as the law says (chi-square, 1e-9)."""
    collector = local.Aggregator(protocol)
    collector.add_many(bytes.fromhex(line) for line in lines)
    assert (collector.reports, collector.rejected) == (len(lines), 0)
    law = {y: w for y, w in getattr(protocol, "report_law", protocol.law)(value).items() if w}
    seen = Counter(bytes.fromhex(line)[wire.HEADER_BYTES :] for line in lines)
    assert set(seen) <= set(law)
    expected = {y: float(w) * len(lines) for y, w in law.items()}
    rare = [
        y for y, n in expected.items() if n < 20
    ]  # pooled, where chi-square would be far from its law
    cells = [(seen[y], n) for y, n in expected.items() if n >= 20]
    if sum(expected[y] for y in rare) >= 20:
        cells.append((sum(seen[y] for y in rare), sum(expected[y] for y in rare)))
    statistic = sum((found - n) ** 2 / n for found, n in cells)
    assert (
        len(cells) > 1 and chi2.sf(statistic, len(cells) - 1) > 1e-13
    )  # unseeded: far in the tail


SPOKEN: list[tuple[local.Protocol, Any]] = [
    (local.Direct(1, 5), 3),
    (local.SymmetricUnary(1, 3), 1),
    (local.OptimisedUnary(1, 3), 2),
    (local.Subset(1, 5), 2),
    (local.Hadamard(2, 5, 2), 4),
    (local.CountMeanSketch(1, 5, 2, 4, "x"), 3),
    (local.HadamardSketch(1, 5, 3, 4, "x"), 2),
    (local.BitFlip(1, 4, 2), 1),
    (local.basic_rappor(3, f="1/2", p="1/4", q="3/4"), 1),
    (local.bloom_rappor(bits=4, hashes=2, cohorts=2, f="1/2", p="1/4", q="3/4"), "größe"),
    (local.OneBit(1, 0, 10), 7.3),
    (local.RepeatedOneBit(1, 0, 10, 5, "1/5"), 7),
    (local.Piecewise(1, 0, 10, 8), 7.3),
    (local.Hybrid(1, 0, 10, 8), 7.3),
    (local.SquareWave(1, 0, 1, 6), 0.4),
    (local.VectorMean(1, -1, 1, 3, 2), [0.5, -1.0, 0.0]),
    (local.SparseMean(1, 1, 5, 3, 2), {1: 4.0}),
    (local.Marginals(1, 3, 2), 5),
    (local.Haar(1, 8), 5),
    (local.Hierarchy(1, 16, 4), 9),
    (local.EdgeResponse(1, 4), (3, (True, False, True))),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Runs the page's JavaScript client."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    place = tmp_path_factory.mktemp("node")
    (place / "client.js").write_text(read_program("js"))

    def run(protocol: local.Protocol, value: Any, count: int) -> list[str]:
        document = place / "document.json"
        document.write_text(protocol.document())
        told = str(value) if isinstance(value, int) else json.dumps(value)
        command = ["node", str(place / "client.js"), str(document), told, str(count)]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=120
        ).stdout.split()

    return run


@pytest.mark.parametrize(
    ("protocol", "value"), mark_between(SPOKEN, step=3), ids=[p.type for p, _ in SPOKEN]
)
def test_the_javascript_client_speaks_it(
    node: Callable[..., list[str]], protocol: local.Protocol, value: Any
) -> None:
    _agrees(protocol, value, node(protocol, value, 1_000))


@pytest.mark.parametrize(
    "protocol",
    mark_rest(
        [
            local.LocalHash(1, 4, 2, 2),
            local.CountMeanSketch(1, 5, 2, 4, "x", 3),
            local.HadamardSketch(1, 5, 3, 4, "x", 3),
        ],
        quick=1,
    ),
    ids=lambda protocol: protocol.type,
)
def test_the_javascript_client_reads_prime_bits(
    node: Callable[..., list[str]], protocol: local.Protocol
) -> None:
    """With the wrong prime 3,000 of 3,000 reports were rejected."""
    _agrees(protocol, 3, node(protocol, 3, 2_500))


@pytest.mark.all
def test_the_javascript_client_speaks_what_cannot_be_listed(node: Callable[..., list[str]]) -> None:
    def collected(protocol: local.Protocol, value: Any, count: int) -> Payloads:
        collector = local.Aggregator(protocol)
        rows = [bytes.fromhex(line) for line in node(protocol, value, count)]
        collector.add_many(rows)
        assert (collector.reports, collector.rejected) == (count, 0)
        return np.array([list(row[wire.HEADER_BYTES :]) for row in rows], np.uint8)

    hashed = local.OptimalHash(1, 1 << 40)
    held, free = hashed.support(collected(hashed, 2**35 + 17, 2_000), np.array([2**35 + 17, 5]))
    assert (
        abs(held - 2_000 * hashed.p) < 6.2 * 2_000**0.5 / 2
        and abs(free - 2_000 * hashed.q) < 6.2 * 2_000**0.5 / 2
    )
    prefixes, pieces = local.PrefixSearch(4, 40, 10, 10), local.FragmentPuzzle(4, bits=30, step=12)
    for protocol, value in ((prefixes, 2**39 + 5), (pieces, 123456789)):
        found, _ = protocol.find(collected(protocol, value, 1_000), keep=3, level=1 - 1e-10)
        assert found.tolist() == [value]
    degrees = local.Degrees(1)
    told = degrees.degrees(collected(degrees, 17, 2_000))
    assert abs(told.mean() - 17) < 6.5 * (degrees.variance / 2_000) ** 0.5
    assert told.var() == pytest.approx(
        degrees.variance, rel=0.6
    )  # fourth moment: a tail below 1e-9
    rows = local.Degrees(1, groups=3)
    assert (
        np.abs(rows.degrees(collected(rows, [400, 0, 90], 50)).mean(axis=0) - [400, 0, 90]).max()
        < 6.5 * 0.2
    )
    noise = local.PlanarLaplace(2, side=10, radius=200)
    away = noise.places(collected(noise, [1200.0, 340.0], 1_000)) - [120, 34]
    assert (np.hypot(*away.T) * float(noise.rate)).mean() == pytest.approx(
        2, abs=6.5 * (2 / 1_000) ** 0.5
    )
    assert np.abs(away.mean(axis=0)).max() < 6.5 * (3 / 1_000) ** 0.5 / float(
        noise.rate
    )  # Gamma(2): 3 per axis


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_c_client_speaks_it(tmp_path: Path) -> None:
    binary = compile_c_client(tmp_path)
    for protocol, kind, value in [
        (local.Direct(1, 5), "direct", 4),
        (local.Direct(2, 300), "direct", 299),
        (local.OptimisedUnary(1, 3), "unary", 0),
    ]:
        p, q = protocol.p, protocol.q
        numbers = [p.numerator, p.denominator, q.numerator, q.denominator, value, 4000]
        head = [str(binary), protocol.digest[:4].hex(), kind, str(protocol.domain)]
        done = subprocess.run(
            [*head, *map(str, numbers)], capture_output=True, text=True, check=True, timeout=60
        )
        _agrees(protocol, value, done.stdout.split())
