"""Signed anchors kept elsewhere show what the ledger's own user can hide from everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dither.errors import ParameterError
from dither.privacy.ledger.anchors import read_lines, write_line
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.verify import verify
from tests.ledger.ledger_place import TIME, Place, release

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def test_a_cut_tail_with_a_rewritten_head_passes_everything_but_an_anchor(place: Place) -> None:
    ledger = place.create()
    release(ledger)
    early = ledger.newest_entry()
    ledger.close()
    copy = place.backup()
    ledger = place.open()
    release(ledger, "0.2")
    late = ledger.newest_entry()
    ledger.close()
    place.restore(copy)
    place.head.write_text(early.text())
    assert place.verify().ok
    place.open().close()
    lines = [write_line("one", anchor, TIME, KEY) for anchor in (early, late)]
    assert verify(place.location, place.head, read_lines(lines[0])).ok
    report = verify(place.location, place.head, read_lines("\n".join(lines)))
    assert not report.ok and "was cut off before it" in report.problem


def test_another_chain_at_an_anchored_number_is_found(place: Place) -> None:
    ledger = place.create()
    release(ledger)
    anchor = Anchor(ledger.newest_entry().seq, "ab" * 32)
    report = verify(place.location, place.head, read_lines(write_line("one", anchor, TIME, KEY)))
    assert not report.ok and "was rewritten" in report.problem


@pytest.mark.parametrize("field", ["at", "hash", "installation", "public_key", "seq", "signature"])
def test_a_changed_line_is_refused(field: str) -> None:
    line = write_line("one", Anchor(3, "ab" * 32), TIME, KEY)
    facts = json.loads(line)
    facts[field] = (
        facts[field] + 1
        if field == "seq"
        else facts[field][:-1] + ("0" if facts[field][-1] != "0" else "1")
    )
    with pytest.raises(ParameterError, match="line 1 is no anchor"):
        read_lines(json.dumps(facts, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize("change", ['{"at":"x",', '{"":0,'])
def test_added_and_repeated_keys_are_refused(change: str) -> None:
    line = write_line("one", Anchor(3, "ab" * 32), TIME, KEY)
    with pytest.raises(ParameterError, match="line 1 is no anchor"):
        read_lines(line.replace("{", change, 1))


def test_the_commands(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from dither.cli.main import app

    run = CliRunner().invoke
    assert run(app, ["demo", "--keep", str(tmp_path), "--people", "50"]).exit_code == 0
    catalog = str(tmp_path / "clinic.yaml")
    if not (tmp_path / "clinic.dither").exists():
        assert run(app, ["register", catalog]).exit_code == 0
    file = tmp_path / "anchors"
    assert run(app, ["ledger", "anchor", catalog, "--to", str(file)]).exit_code == 0
    assert run(app, ["ledger", "anchor", catalog]).stdout.startswith('{"at":')
    assert run(app, ["ledger", "verify", catalog, "--anchors", str(file)]).exit_code == 0
