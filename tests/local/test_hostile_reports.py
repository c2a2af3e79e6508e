"""Reports, tallies and documents that strangers wrote: counted once, or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import ParameterError, local
from dither.local.protocol import one_row
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
