"""The wire format: stored vectors, hostile bytes, and the clients in JavaScript and C of the reference page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from dither import ParameterError, local
from dither.local import wire
from dither.local.hashing import HashFamily
from dither.privacy.noise import Words

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "local-wire-format.md"
VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text("utf-8"))


@pytest.mark.parametrize("entry", VECTORS["protocols"], ids=lambda e: json.loads(e["document"])["protocol"])
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


def test_hash_vectors() -> None:
    stored = VECTORS["hash"]
    family = HashFamily(stored["domain"], stored["size"])
    seeds = family.public(len(stored["seeds"]), stored["name"])
    assert seeds.tolist() == stored["seeds"]
    assert family.hash(seeds, np.array(stored["values"])).tolist() == stored["hashes"]
    bloom = local.bloom_rappor(bits=16, hashes=2, cohorts=64, f="1/2", p="1/2", q="3/4")
    assert [sorted(bloom.places(t, VECTORS["bloom"]["cohort"])) for t in VECTORS["bloom"]["texts"]] == VECTORS["bloom"][
        "bits"
    ]


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
    [local.Direct(1, 5), local.OptimisedUnary(1, 4), local.Hadamard(1, 6), local.Hadamard(3, 9), local.Direct(1, 300)],
    ids=lambda p: f"{p.type}-{p.domain}",
)
def test_every_byte_string_is_accepted_or_rejected(protocol: local.Protocol) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (5_000, protocol.payload_bytes), np.uint8)
    collector = local.Aggregator(protocol)
    collector.add_payloads(rows)
    assert collector.reports + collector.rejected == 5_000


def _program(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    return str(found)


def _agrees(protocol: local.Protocol, value: int, lines: list[str]) -> None:
    """Accepted by the aggregator, and distributed as the law says (chi-square, 1e-9)."""
    collector = local.Aggregator(protocol)
    collector.add_many(bytes.fromhex(line) for line in lines)
    assert (collector.reports, collector.rejected) == (len(lines), 0)
    law = protocol.law(value)
    seen = Counter(bytes.fromhex(line)[wire.HEADER_BYTES :] for line in lines)
    assert set(seen) <= set(law)
    terms = [(seen[o] - float(w) * len(lines)) ** 2 / (float(w) * len(lines)) for o, w in law.items()]
    assert chi2.sf(sum(terms), len(law) - 1) > 1e-13  # unseeded: far in the tail, where chi-square is only near


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_javascript_client_speaks_it(tmp_path: Path) -> None:
    (tmp_path / "client.js").write_text(_program("js"))
    for protocol, value in [
        (local.Direct(1, 5), 3),
        (local.SymmetricUnary(1, 3), 1),
        (local.OptimisedUnary(1, 3), 2),
        (local.Hadamard(2, 5, 2), 4),
        (local.OptimalHash(1, 1 << 40), 2**35 + 17),
    ]:
        (tmp_path / "document.json").write_text(protocol.document())
        command = ["node", str(tmp_path / "client.js"), str(tmp_path / "document.json"), str(value), "3000"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
        if protocol.type != "local_hash":
            _agrees(protocol, value, lines)
        else:
            rows = np.array([list(bytes.fromhex(line)[wire.HEADER_BYTES :]) for line in lines], np.uint8)
            assert protocol.valid(rows).all()
            held, free = protocol.support(rows, np.array([value, 5]))
            assert abs(held - 3000 * protocol.p) < 6.2 * 3000**0.5 / 2
            assert abs(free - 3000 * protocol.q) < 6.2 * 3000**0.5 / 2


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_c_client_speaks_it(tmp_path: Path) -> None:
    (tmp_path / "client.c").write_text(_program("c"))
    subprocess.run(["gcc", "-O1", "-o", str(tmp_path / "client"), str(tmp_path / "client.c")], check=True)
    for protocol, kind, value in [
        (local.Direct(1, 5), "direct", 4),
        (local.Direct(2, 300), "direct", 299),
        (local.OptimisedUnary(1, 3), "unary", 0),
    ]:
        p, q = protocol.p, protocol.q
        numbers = [p.numerator, p.denominator, q.numerator, q.denominator, value, 4000]
        head = [str(tmp_path / "client"), protocol.digest[:4].hex(), kind, str(protocol.domain)]
        done = subprocess.run([*head, *map(str, numbers)], capture_output=True, text=True, check=True, timeout=60)
        _agrees(protocol, value, done.stdout.split())
