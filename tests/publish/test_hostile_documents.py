"""A verifier reads what strangers wrote: bounded work, one verdict, a terminal left in peace."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from dither.cli.demo_report import say_verdict
from dither.cli.main import app
from dither.errors import DitherError
from dither.publish import seal
from dither.publish.commitment import commitment, opens
from dither.strict_json import MAX_CHARACTERS, MAX_DEPTH, MAX_DIGITS
from tests.case_lists import mark_between
from tests.publish.certificate_samples import KEY, PUBLIC, sample_body, sign_sample

NOT_A_CERTIFICATE = ("this is not a certificate of dither",)
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(32))
NONCE = "5a" * 32


def write_with(path: tuple[str, ...], raw: str) -> str:
    """A signed certificate in which one value was replaced by a raw text."""
    certificate = sign_sample()
    target: Any = certificate
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = "MARK"
    return seal.write_certificate(certificate).replace('"MARK"', raw, 1)


PLACES = [("body", "dataset", "version"), ("header", "v"), ("header", "public_key"), ("signature",)]
RAW = {
    "many digits": "9" * 100_000,
    "more digits than int takes": "9" * (MAX_DIGITS + 1),
    "a large exponent": "1e99999999",
    "a float": "1.5",
    "not a number": "NaN",
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "somewhat deep": "[" * MAX_DEPTH + "]" * MAX_DEPTH,
    "half of a character": r'"\ud800"',
    "an empty key": '{"": 1}',
    "a key twice": '{"a": 1, "a": 2}',
}


@pytest.mark.parametrize("place", PLACES, ids=".".join)
@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_what_is_too_large_too_deep_or_ambiguous_is_no_certificate(place, raw):
    assert seal.check(write_with(place, raw), [PUBLIC]).problems == NOT_A_CERTIFICATE


@pytest.mark.parametrize(
    "raw",
    mark_between(
        ["null", "true", "[]", "{}", '""', "-1", '"\\u0000"', '["x"]', '{"a": {}}'], step=3
    ),
)
@pytest.mark.parametrize(
    "place", [*PLACES, ("header", "digests"), ("header",), ("body",), ("body", "guarantee")]
)
def test_a_value_of_any_other_kind_gives_a_verdict(place, raw):
    verdict = seal.check(write_with(place, raw), [PUBLIC])
    assert not verdict.intact and verdict.body is None


SLOW = {
    "an unfinished text of quotes": '"' + r"\"" * 500_000,
    "an unfinished text of backslashes": '"' + "\\" * 999_999,
    "brackets": "[]," * 300_000,
    "opening brackets": "[" * 1_000_000,
    "quotes": '"' * 999_999,
    "too long": " " * (MAX_CHARACTERS + 1),
}


@pytest.mark.parametrize("text", mark_between(SLOW.values(), step=3), ids=SLOW)
def test_no_text_takes_more_than_one_pass(text):
    """A million characters in a second of work; a quadratic scan of the first would take hours."""
    started = time.process_time()
    assert seal.check(text).problems == NOT_A_CERTIFICATE
    assert time.process_time() - started < 5


def test_the_bounds_leave_room_for_every_certificate():
    """A catalog has at most a million characters, and a question 100,000: lists of both fit."""
    body = sample_body()
    body["release"]["sql"] = "SELECT " + "x" * 100_000
    body["bounds"]["visits.ward"]["values"] = [f"{number:03x}" for number in range(250_000)]
    assert len(seal.write_certificate(sign_sample() | {"body": body})) < MAX_CHARACTERS


# -- the command -----------------------------------------------------------------------------------

HOSTILE = "2\x1b[2J\x9b31m\u202e0\u2066\u200b\r\n:heart: [red]\x07"
UNPRINTABLE = set("\x1b\x9b\u202e\u2066\u200b\r\x07")


def verify(*arguments: object) -> tuple[int, str]:
    """Exit code and output; an error is a message, as the entry point would print it."""
    done = CliRunner().invoke(app, ["verify", *map(str, arguments)])
    error = str(done.exception) if isinstance(done.exception, DitherError) else ""
    return done.exit_code, done.output + error


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_stranger_cannot_draw_on_the_terminal(tmp_path, options):
    body = sample_body()
    body["guarantee"]["stated"] = HOSTILE
    signed = seal.sign(body, STRANGER)
    (tmp_path / "theirs.json").write_text(seal.write_certificate(signed))
    code, shown = verify(tmp_path / "theirs.json", *options)
    assert code == 3 and not UNPRINTABLE & set(shown)
    if not options:
        assert r"2\x1b[2J\x9b31m\u202e0\u2066\u200b\r\n:heart: [red]\x07" in shown
    signed["body"]["bounds"][HOSTILE] = {"provenance": HOSTILE}
    (tmp_path / "changed.json").write_text(json.dumps(signed))
    code, shown = verify(tmp_path / "changed.json", *options)
    assert code == 1 and not UNPRINTABLE & set(shown) and "31m" in shown
    if options:
        assert f"bounds.{HOSTILE}.provenance: was added" in json.loads(shown)["problems"]


def test_the_file_itself_holds_nothing_that_does_not_print(tmp_path):
    body = sample_body()
    body["release"]["sql"] = HOSTILE
    text = seal.write_certificate(seal.sign(body, KEY))
    assert not UNPRINTABLE & set(text) and "Zürich" in text
    assert seal.check(text, [PUBLIC]).body == body


def test_what_is_shown_is_the_document_that_was_checked(tmp_path, monkeypatch):
    """The file is read once: what replaces it while the check runs is not shown."""
    file = tmp_path / "certificate.json"
    file.write_text(seal.write_certificate(sign_sample()))
    forged = sample_body()
    forged["guarantee"]["stated"] = "epsilon 0.001 at delta 0, for one person (add_remove)"
    forged_text = seal.write_certificate(seal.sign(forged, STRANGER))
    check = seal.check

    def check_and_replace(text: str, trusted: Any = ()) -> seal.SealVerdict:
        verdict = check(text, trusted)
        file.write_text(forged_text)
        return verdict

    monkeypatch.setattr(seal, "check", check_and_replace)
    code, shown = verify(file, "--key", PUBLIC)
    assert code == 0 and sample_body()["guarantee"]["stated"] in shown and "0.001" not in shown


def test_a_forged_certificate_is_refused_by_the_command(tmp_path):
    certificate = sign_sample()
    forged = sample_body()
    forged["guarantee"]["stated"] = "epsilon 0.001 at delta 0, for one person (add_remove)"
    certificate["body"] = {**forged, "": certificate["body"]}
    (tmp_path / "forged.json").write_text(json.dumps(certificate))
    code, shown = verify(tmp_path / "forged.json", "--key", PUBLIC)
    assert code == 1 and NOT_A_CERTIFICATE[0] in shown and "0.001" not in shown


def test_a_long_list_of_problems_is_cut_on_the_terminal_and_whole_in_json(tmp_path):
    certificate = sign_sample()
    certificate["body"]["bounds"] |= {
        f"{number}" * 300: {"provenance": "x"} for number in range(1000, 1300)
    }
    (tmp_path / "long.json").write_text(json.dumps(certificate))
    code, shown = verify(tmp_path / "long.json")
    assert code == 1 and len(shown.splitlines()) < 110 and max(map(len, shown.splitlines())) < 500
    assert re.search(r"more: dither verify \S+ --json lists", shown)
    assert len(json.loads(verify(tmp_path / "long.json", "--json")[1])["problems"]) == 301


@pytest.mark.parametrize("key", ["x" * 5000, "a\x00b", ".", "no-such-file", "a" * 63])
def test_what_is_no_key_is_said_to_be_none(tmp_path, key):
    (tmp_path / "certificate.json").write_text(seal.write_certificate(sign_sample()))
    code, shown = verify(tmp_path / "certificate.json", "--key", key)
    assert code == 1 and "64 hex digits" in shown


def test_the_page_of_the_demo_says_the_verdict_on_what_it_shows():
    certificate = sign_sample()
    assert say_verdict(certificate).startswith("Checked with the public key alone")
    certificate["body"]["guarantee"]["epsilon"] = "0.001"
    assert "guarantee.epsilon: was changed" in say_verdict(certificate)


# -- values ----------------------------------------------------------------------------------------


def write_values(**changes: object) -> str:
    return json.dumps({"columns": {"n": [1, 2.5], "": ["é"]}, "nonce": NONCE} | changes)


PROMISED = commitment({"n": [1, 2.5], "": ["é"]}, NONCE)


def test_values_open_the_commitment_whatever_their_style():
    assert opens(write_values(), PROMISED) and opens(
        write_values(info={"charged": "1/2"}), PROMISED
    )
    assert opens(
        json.dumps(json.loads(write_values()), indent=3, sort_keys=True, ensure_ascii=False),
        PROMISED,
    )
    assert not opens(write_values(columns={"n": [1, 2.5], "": ["e\u0301"]}), PROMISED)
    assert not opens(write_values(columns={"n": [True, 2.5], "": ["é"]}), PROMISED)
    assert not opens(write_values(), "é")  # a commitment is any text to the reader of a certificate


@pytest.mark.parametrize(
    "text",
    [
        write_values(values=[1]),
        write_values(nonce=NONCE.upper()),
        write_values(nonce=f" {NONCE}"),
        write_values()[:-1] + ', "columns": {"n": [1, 3.5]}}',
        write_values().replace("2.5", "1e999"),
        write_values().replace("2.5", "9" * 5000),
        write_values().replace("2.5", "[" * 5000 + "]" * 5000),
        write_values().replace("2.5", r'"\ud800"'),
        "[]",
        "",
    ],
)
def test_values_in_another_shape_are_refused(text):
    with pytest.raises(DitherError, match="holds columns and nonce"):
        opens(text, PROMISED)


def test_the_command_says_that_only_the_columns_are_signed(tmp_path):
    body = sample_body()
    body["values"]["commitment"] = PROMISED
    (tmp_path / "certificate.json").write_text(seal.write_certificate(seal.sign(body, KEY)))
    values = tmp_path / "values.json"
    values.write_text(write_values(info={"charged": "0/1"}))
    code, shown = verify(tmp_path / "certificate.json", "--key", PUBLIC, "--values", values)
    assert (
        code == 0
        and "its columns are the numbers that it is of; nothing else in it is signed" in shown
    )
    values.write_text(write_values(columns={"n": [1, 2.5]}))
    assert verify(tmp_path / "certificate.json", "--key", PUBLIC, "--values", Path(values))[0] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"columns": {"n": [999]}, "nonce": "%s", "columns": {"n": [12]}}',
        '{"columns": {"n": [999], "n": [12]}, "nonce": "%s"}',
    ],
)
def test_a_file_of_values_says_each_thing_once(text: str) -> None:
    """The check read the last of two columns and a reader the first: a changed table passed as the
    certified one."""
    promised = commitment({"n": [12]}, NONCE)
    assert opens(json.dumps({"columns": {"n": [12]}, "nonce": NONCE}), promised)
    with pytest.raises(DitherError, match="columns and nonce"):
        opens(text.replace("%s", NONCE), promised)
