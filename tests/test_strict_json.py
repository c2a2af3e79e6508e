"""JSON from outside is read in one way or refused, wherever dither reads some."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dither import local
from dither.cli.account import app as account
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import lineages
from dither.strict_json import MAX_DEPTH, MAX_DIGITS, read_json


@pytest.mark.parametrize(
    "value",
    [{"a": [1, "é\n", None, True, {}]}, [], "x", 0, -5, 10 ** (MAX_DIGITS - 1), {"a": {"a": 1}}],
    ids=str,
)
def test_it_reads_what_json_writes(value):
    assert read_json(json.dumps(value)) == value


def test_brackets_in_texts_are_not_counted():
    nested = "[" * MAX_DEPTH + r'"[[[{\"[["' + "]" * MAX_DEPTH
    assert read_json(nested)
    with pytest.raises(ValueError, match="deeper"):
        read_json(f"[{nested}]")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "'c' appears twice"),
        ('{"a": 1, "\\u0061": 2}', "'a' appears twice"),
        ('{"": 1}', "a key is empty"),
        ("-0", "zero is written 0"),
        ("1.0", "no integer"),
        ("1e999999999", "no integer"),
        ("NaN", "no integer"),
        ("9" * (MAX_DIGITS + 1), "digits"),
        ("[" * (MAX_DEPTH + 1), "deeper"),
        (r'"\ud800"', "surrogates not allowed"),
        (r'{"\ud800": 1}', "surrogates not allowed"),
        ("[1,]", "Expecting value"),
        ("{} {}", "Extra data"),
        ("\ufeff{}", "BOM"),
    ],
)
def test_it_refuses_what_two_readers_could_read_differently(text, problem):
    with pytest.raises(ValueError, match=problem):
        read_json(text)


def test_floats_and_empty_keys_where_they_are_allowed():
    text = '{"": [1.5, 1e3, -0.0, Infinity]}'
    assert read_json(text, allow_floats=True, allow_empty_keys=True) == {
        "": [1.5, 1e3, -0.0, float("inf")]
    }
    for large in ("1e400", "-1e999999999", "1." + "1" * MAX_DIGITS):
        with pytest.raises(ValueError, match="number"):
            read_json(large, allow_floats=True)


# -- where it is used ------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", ['"rejected":0,', '"x":' + "[" * 5000 + "]" * 5000 + ","])
def test_a_stored_aggregator_has_one_reading(spoil):
    """A count written twice, or nesting without end, is refused like any other unreadable head."""
    stored = local.Aggregator(local.Direct(1, 3)).to_bytes()
    length = int.from_bytes(stored[5:9], "little")
    head = ("{" + spoil + stored[10 : 9 + length].decode()).encode()
    with pytest.raises(ParameterError, match="no readable head"):
        local.Aggregator.from_bytes(
            stored[:5] + len(head).to_bytes(4, "little") + head + stored[9 + length :]
        )
    assert local.Aggregator.from_bytes(stored).tally.tolist() == np.zeros(3).tolist()


def test_a_budget_in_a_file_has_one_reading(tmp_path):
    """What was spent cannot be hidden by a second, emptier list of charges."""
    path = tmp_path / "budget.json"
    local.budget_file(path, 3).charge("themes", Fraction(2))
    path.write_text(path.read_text()[:-1] + ', "charges": []}')
    with pytest.raises(ParameterError, match="no readable budget"):
        local.budget_file(path, 3)


def test_a_loss_and_a_history_have_one_reading(tmp_path):
    twice = (
        '{"type": "pure", "v": 1, "epsilon": "9/1", "epsilon": "1/9", "neighbours": '
        '"replace", "unit": "person"}'
    )
    history = tmp_path / "history.json"
    history.write_text('{"history": [[1.1, 0.01, 10000]], "history": [[9.0, 0.01, 1]]}')
    for arguments in ([twice], ["--opacus", str(history)], ["{" * 5000]):
        shown = CliRunner().invoke(account, [*arguments, "--delta", "1e-5"])
        assert shown.exit_code == 2 and "error: " in shown.output, arguments


def test_a_lineage_file_has_one_reading(tmp_path, monkeypatch):
    """A second `opened` must not hide that a budget was opened."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = lineages.Known(
        **dict.fromkeys(lineages.Known.__dataclass_fields__, "x") | {"opened": True}
    )
    lineages.remember(first)
    (file,) = Path(tmp_path).rglob("x.json")
    assert lineages.list_other_datasets("y") == (first,)
    file.write_text(file.read_text()[:-1] + ',"opened":false}')
    with pytest.raises(RefusedError, match="cannot be read"):
        lineages.list_other_datasets("y")
