"""Reports, tallies and documents that strangers wrote: counted once, or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import ParameterError, local
from dither.canonical import dumps
from dither.local.values import one_row
from tests.local.seeded_words import SeededWords
from tests.local.small_protocols import EVERY, IDS

REPORTERS = [*EVERY, local.Subset(1, 5), local.Degrees(1), local.PlanarLaplace(1, radius=9)]


@pytest.mark.parametrize(
    "protocol", REPORTERS, ids=[f"{p.type}-{i}" for i, p in enumerate(REPORTERS)]
)
def test_hostile_payloads_are_counted_or_rejected(protocol: local.Protocol) -> None:
    generator, size = np.random.default_rng(0), protocol.payload_bytes
    honest = np.concatenate(
        [protocol.permanent(one_row(v), SeededWords(i)) for i, v in enumerate(protocol.inputs())]
    )
    flipped = np.repeat(honest, 40, axis=0)[:400].copy()
    flipped[np.arange(len(flipped)), generator.integers(0, size, len(flipped))] ^= np.uint8(
        1
    ) << generator.integers(0, 8, len(flipped), np.uint8)
    rows = np.concatenate(
        [
            honest,
            flipped,
            generator.integers(0, 256, (500, size), np.uint8),
            generator.integers(0, 3, (500, size), np.uint8),
            np.zeros((1, size), np.uint8),
            np.full((1, size), 255, np.uint8),
        ]
    )
    collector = local.Aggregator(protocol)
    collector.add_payloads(rows)
    assert collector.reports + collector.rejected == len(rows) and collector.reports >= len(honest)
    again = local.Aggregator.from_bytes(collector.to_bytes())
    assert again.reports == collector.reports and (again.tally == collector.tally).all()
    if not protocol.keeps_reports:
        assert np.isfinite(collector.estimate().values).all()


@pytest.mark.parametrize("protocol", EVERY, ids=IDS)
def test_only_possible_payloads_are_counted(protocol: local.Protocol) -> None:
    """Every payload that is accepted is one that some client could have sent: random bytes against
    all laws."""
    possible = {y for value in protocol.inputs() for y in protocol.law(value)}
    if hasattr(protocol, "report_law"):
        possible = {y for value in protocol.inputs() for y in protocol.report_law(value)}
    if protocol.type == "edge_response":
        possible = {y for value in protocol.inputs() for y in protocol.law(value)}
    generator, size = np.random.default_rng(1), protocol.payload_bytes
    rows = np.concatenate(
        [generator.integers(0, high, (2_000, size), np.uint8) for high in (2, 5, 9, 256)]
    )
    for row, good in zip(rows, protocol.valid(rows), strict=True):
        if good:
            assert row.tobytes() in possible
    sent = np.array([list(y) for y in possible], np.uint8)
    assert protocol.valid(sent).all()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200))
def test_stored_aggregators_are_read_or_refused(junk: bytes, cut: int) -> None:
    stored = local.Aggregator(local.Direct(1, 3)).to_bytes()
    for hostile in (
        junk,
        stored[:5] + junk,
        stored[: cut % len(stored)] + junk,
        stored[:9] + junk + stored[9:],
    ):
        with suppress(ParameterError):
            local.Aggregator.from_bytes(hostile)


def test_stored_counts_must_be_possible() -> None:
    def stored(head: dict[str, Any], tally: list[int]) -> bytes:
        text = json.dumps(head).encode()
        return (
            b"dLAG\x01" + len(text).to_bytes(4, "little") + text + np.array(tally, "<i8").tobytes()
        )

    document = local.Direct(1, 3).to_json()
    assert local.Aggregator.from_bytes(
        stored({"protocol": document, "reports": 3, "rejected": 0}, [1, 1, 1])
    )
    for head, tally in [
        ({"protocol": document, "reports": -1, "rejected": 0}, [0, 0, 0]),
        ({"protocol": document, "reports": True, "rejected": 0}, [0, 0, 0]),
        ({"protocol": document, "reports": 2**60, "rejected": 0}, [0, 0, 0]),
        ({"protocol": document, "reports": 1, "rejected": 0}, [2**63 - 1, 0, 0]),
        ({"protocol": document, "reports": 1, "rejected": 0}, [-(2**63), 0, 0]),
        ({"protocol": 7, "reports": 1, "rejected": 0}, [0, 0, 0]),
        ({"reports": 1, "rejected": 0}, [0, 0, 0]),
    ]:
        with pytest.raises(ParameterError):
            local.Aggregator.from_bytes(stored(head, tally))


TALLIES = [
    local.Direct(1, 3),
    local.Piecewise(1, cells=16),
    local.PrefixSearch(1, 2, 1, 1, 3),
]


@pytest.mark.parametrize("protocol", TALLIES, ids=lambda protocol: protocol.type)
def test_a_flipped_bit_of_a_stored_tally_is_refused(protocol: local.Protocol) -> None:
    """Every bit in turn, head and body; of the long document of a search every seventh."""
    collector = local.Aggregator(protocol)
    values = np.array(protocol.inputs()[:2])
    collector.add_payloads(protocol.randomise(values, SeededWords(0)))
    stored = collector.to_bytes()
    assert local.Aggregator.from_bytes(stored).to_bytes() == stored
    for bit in range(0, 8 * len(stored), 7 if protocol.keeps_reports else 1):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ParameterError):
            local.Aggregator.from_bytes(bytes(damaged))


def test_a_tally_without_a_checksum_is_read_and_gets_one_when_it_grows() -> None:
    protocol = local.Piecewise(1, cells=16)
    head = {"protocol": protocol.to_json(), "reports": 2, "rejected": 0}
    text = dumps(head).encode()
    old = b"dLAG\x01" + len(text).to_bytes(4, "little") + text + (9).to_bytes(8, "little")
    collector = local.Aggregator.from_bytes(old)
    assert collector.to_bytes() == old and collector.squares is None
    worst = float(protocol.worst_variance) / 2
    assert collector.estimate().variances[0] == pytest.approx(worst)
    collector.add_payloads(np.array([[5]], np.uint8))
    again = local.Aggregator.from_bytes(collector.to_bytes())
    assert b"checksum" in again.to_bytes() and again.reports == 3 and again.squares is None


def test_squares_must_be_possible() -> None:
    for protocol, squares in (
        (local.Piecewise(1, cells=16), -1),
        (local.Piecewise(1, cells=16), True),
        (local.Piecewise(1, cells=16), 1 << 90),
        (local.Direct(1, 3), 0),
    ):
        head = {"protocol": protocol.to_json(), "reports": 0, "rejected": 0, "squares": squares}
        text = dumps(head).encode()
        stored = b"dLAG\x01" + len(text).to_bytes(4, "little") + text + bytes(8 * 3)
        with pytest.raises(ParameterError, match="squares"):
            local.Aggregator.from_bytes(stored)


WRONG_FIELDS = [
    *(
        (protocol, "prime_bits", bits)
        for bits in (0, -1, 10**30, True, 31.0, "31", None)
        for protocol in (
            local.LocalHash(1, 4, 2, 2),
            local.CountMeanSketch(1, 5, 2, 4, "x", 3),
            local.HadamardSketch(1, 5, 3, 4, "x", 3),
            local.PrefixSearch(1, 2, 1, 1, 3),
            local.FragmentPuzzle(1, bits=2, step=1, tag_bits=1, prime_bits=3),
        )
    ),
    *(
        (local.CountMeanSketch(1, 5, 1, 4, "x", 3), "name", name)
        for name in ([], {}, None, 7, "x" * 1001, "\ud800")
    ),
    (local.CountMeanSketch(1, 5, 1, 4, "x", 3), "prime_bits", 2),  # four columns need three bits
    (local.CountMeanSketch(1, 5, 1, 4, "x", 3), "rows", True),
    (local.Direct(1, 2), "domain", True),
    (local.Subset(1, 5, 1), "size", True),
    (local.Hadamard(1, 5, 1), "blocks", True),
    (local.BitFlip(1, 4, 1), "sampled", True),
    (local.Marginals(1, 3, 1), "order", True),
    (local.Marginals(1, 3, 1), "attributes", 3.0),
    (local.SparseMean(1, 1, 5, 3, 1), "most", True),
    (local.SparseMean(1, 1, 5, 3, 1), "most", 10**30),
    (local.VectorMean(1, -1, 1, 3, 1), "sampled", True),
    (local.VectorMean(1, -1, 1, 3, 1), "hybrid", 0),
    (local.RepeatedOneBit(1, 0, 10, 1), "step", True),
    (local.PrefixSearch(1, 2, 1, 1, 3), "first", True),
    (local.FragmentPuzzle(1, bits=2, step=1, tag_bits=1, prime_bits=3), "tag_bits", True),
    (local.EdgeResponse(1, users=3), "users", 3.0),
    (local.Degrees(1), "groups", True),
    (local.Hierarchy(1, 4, 2), "branching", 2.0),
]


@pytest.mark.parametrize(("protocol", "field", "value"), WRONG_FIELDS)
def test_fields_of_another_kind_or_range_are_refused(
    protocol: local.Protocol, field: str, value: object
) -> None:
    """In documents and in Python; 1 == True, but their documents differ."""
    with pytest.raises(ParameterError):
        local.from_json(protocol.to_json() | {field: value})
    with pytest.raises(ParameterError):
        replace(protocol, **{field: value})


def test_a_document_of_too_many_marginals_is_refused_at_once() -> None:
    """2**40 coefficients took for ever to list."""
    tree = local.Marginals(1, 3, 1).to_json() | {"attributes": 40, "order": 40}
    with pytest.raises(ParameterError, match="smaller order"):
        local.from_json(tree)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(REPORTERS), st.data())
def test_documents_are_read_or_refused(protocol: local.Protocol, data: st.DataObject) -> None:
    """A document with one field changed is refused, or is the document of the protocol that it
    makes."""
    tree = protocol.to_json()
    field = data.draw(st.sampled_from(sorted(tree)))
    odd = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 2**70),
        st.text(max_size=5),
        st.just([]),
        st.just({}),
        st.floats(),
    )
    tree[field] = data.draw(
        st.one_of(odd, st.sampled_from(["1/0", "0/1", "-1/2", "1/3", "2/1", "nan", "1e400"]))
    )
    try:
        made = local.from_json(tree)
    except ParameterError:
        return
    assert made.document() == local.from_json(made.to_json()).document()


def test_merging_with_oneself_is_refused() -> None:
    collector = local.Aggregator(local.Direct(1, 3))
    with pytest.raises(ParameterError, match="twice"):
        collector.merge(collector)


def test_a_user_who_reports_links_twice_counts_once() -> None:
    protocol = local.EdgeResponse(2, users=3)
    rows = protocol.permanent([(2, [True, False]), (1, [True])], SeededWords(3))
    once, twice = protocol.edges(rows), protocol.edges(np.concatenate([rows, rows]))
    assert once.values == twice.values and once.variances == twice.variances


def test_a_document_whose_loss_has_no_end_is_refused_at_once():
    """f = 1e-75 is a loss of 690, which the search for it never reached: reading the document took
    for ever."""
    tree = local.bloom_rappor(bits=3, hashes=2, cohorts=2, f="1/2", p="1/2", q="3/4").to_json()
    tree["f"] = "1e-75"
    with pytest.raises(ParameterError, match="beyond"):
        local.from_json(tree)
