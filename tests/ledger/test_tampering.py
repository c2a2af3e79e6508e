"""Every column of every table is covered, on both stores: change any, and `verify` names the first
bad entry.

PostgreSQL's columns are typed: what only SQLite could hold (bytes as text, a float) is tried there
alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dither.errors import RefusedError
from dither.privacy.ledger import chain, tables
from dither.privacy.ledger.head import Anchor
from tests.case_lists import mark_between, mark_rest
from tests.ledger.ledger_place import HASH, Place, release, reserve, rewrite

# seq: 1 open, 2 register, 3 reserve, 4 commit, 5 raise, 6 reserve, 7 incident, 8 clear, 9 reserve,
# 10 commit


@pytest.fixture
def full(both: Place) -> Place:
    """A closed ledger that holds every kind of entry."""
    ledger = both.create()
    ledger.record_register(1, HASH)
    release(ledger)
    ledger.raise_cap("total", "1.5", "the board asked for more")
    ledger.record_incident(reserve(ledger, "0.2"), "engine_failed")
    ledger.clear_incidents("the engine has more memory now")
    release(ledger, "0.3")
    ledger.close()
    report = both.verify()
    assert (
        report.ok and (report.entries, report.releases) == (10, 2) and "10 entries" in str(report)
    )
    return both


SQLITE_ALONE = ("AS BLOB", "AS TEXT", "arrow_bytes='42'", "spent=x'ff'")


def pair_with_stores(statements: list[str]) -> list[tuple[str, str]]:
    """Each store with the changes that its columns can hold."""
    portable = [text for text in statements if not any(mark in text for mark in SQLITE_ALONE)]
    return [("sqlite", text) for text in statements] + [("postgres", text) for text in portable]


def change(place: Place, statement: str) -> None:
    assert place.change(statement), "nothing was changed"


ENTRY_CHANGES = [
    "UPDATE entry SET seq=99 WHERE seq={seq}",
    "UPDATE entry SET kind='reserve' WHERE seq={seq} AND kind<>'reserve'",
    "UPDATE entry SET kind='commit' WHERE seq={seq} AND kind<>'commit'",
    "UPDATE entry SET body_json='{{}}' WHERE seq={seq}",
    "UPDATE entry SET body_json=body_json || ' ' WHERE seq={seq}",
    "UPDATE entry SET body_json=CAST(body_json AS BLOB) WHERE seq={seq}",
    "UPDATE entry SET prev_hash='" + HASH + "' WHERE seq={seq}",
    "UPDATE entry SET hash='" + HASH + "' WHERE seq={seq}",
    "UPDATE entry SET hash=upper(hash) WHERE seq={seq}",
    "UPDATE entry SET body_json=CAST(x'ff' AS TEXT) WHERE seq={seq}",
    "DELETE FROM entry WHERE seq={seq}",
]


@pytest.mark.parametrize(
    ("both", "statement"), mark_between(pair_with_stores(ENTRY_CHANGES), step=3), indirect=["both"]
)
def test_a_changed_entry_is_named(full: Place, statement: str) -> None:
    good = full.backup()
    for seq in range(1, 11):
        full.restore(good)
        if f"kind<>'{full.rows(f'SELECT kind FROM entry WHERE seq={seq}')[0][0]}'" in statement:
            continue
        change(full, statement.format(seq=seq))
        report = full.verify()
        assert not report.ok and f"entry {seq}" in str(report), (statement, seq, report)
        assert report.first_bad == seq or (
            seq == 10 and statement.startswith("DELETE")
        )  # then only the head tells


RELEASE_CHANGES = [
    "UPDATE release SET seq=77 WHERE seq=9",
    "UPDATE release SET nonce=zeroblob(32) WHERE seq=9",
    "UPDATE release SET nonce=nonce || x'00' WHERE seq=9",
    "UPDATE release SET nonce='text' WHERE seq=9",
    "UPDATE release SET arrow_bytes=x'3433' WHERE seq=9",
    "UPDATE release SET arrow_bytes='42' WHERE seq=9",
    "UPDATE release SET meta_json='{\"n\":43}' WHERE seq=9",
    "UPDATE release SET meta_json=meta_json || ' ' WHERE seq=9",
    "DELETE FROM release WHERE seq=9",
]


@pytest.mark.parametrize(
    ("both", "statement"),
    mark_between(pair_with_stores(RELEASE_CHANGES), step=3),
    indirect=["both"],
)
def test_a_changed_release_names_its_commit(full: Place, statement: str) -> None:
    change(full, statement)
    report = full.verify()
    assert not report.ok and report.first_bad == 10 and "reserve 9" in report.problem


@pytest.mark.parametrize(
    "statement",
    mark_between(
        [
            "UPDATE pot_state SET pot='other'",
            "UPDATE pot_state SET spent='1/10'",
            "UPDATE pot_state SET spent='6/10'",
            "UPDATE pot_state SET spent=0.6",
            "UPDATE pot_state SET cap='2/1'",
            "UPDATE pot_state SET delta_spent='1/9'",
            "UPDATE pot_state SET reissued='1/9'",
            "DELETE FROM pot_state",
            "INSERT INTO pot_state VALUES ('second', '0/1', '0/1', '0/1', '1/1')",
        ],
        step=3,
    ),
)
def test_changed_totals_are_found(full: Place, statement: str) -> None:
    change(full, statement)
    report = full.verify()
    assert not report.ok and report.first_bad is None and "pot_state" in report.problem


@pytest.mark.parametrize(
    "statement",
    mark_between(
        [
            "UPDATE pot_state SET spent='1/10'",  # lowered: some of the budget would be spent twice
            "UPDATE pot_state SET cap='2/1'",
            "INSERT INTO pot_state VALUES ('second', '0/1', '0/1', '0/1', '1/1')",
        ],
        step=3,
    ),
)
def test_changed_totals_are_answered_from_by_nobody(full: Place, statement: str) -> None:
    """Without `verify`: neither by who opens the ledger nor by who has it open."""
    ledger = full.open()
    change(full, statement)
    with pytest.raises(RefusedError, match="totals .* are damaged"):
        reserve(ledger, "0.01")
    with pytest.raises(RefusedError, match="totals .* are damaged"):
        full.open()


IMPOSSIBLE_TOTALS = [
    f"UPDATE pot_state SET spent={spent}" for spent in ("'-5/1'", "'9/1'", "'x'", "'1/0'", "x'ff'")
]


@pytest.mark.parametrize(
    ("both", "statement"), pair_with_stores(IMPOSSIBLE_TOTALS), indirect=["both"]
)
def test_impossible_totals_stop_the_pot_at_once(full: Place, statement: str) -> None:
    change(full, statement)
    with pytest.raises(RefusedError, match="are damaged"):
        reserve(full.open())


def test_lost_totals_stop_the_pot_at_once(full: Place) -> None:
    change(full, "DELETE FROM pot_state")
    with pytest.raises(RefusedError, match="are damaged"):
        reserve(full.open())


def test_a_release_without_a_commit_is_found(full: Place) -> None:
    change(full, "INSERT INTO release VALUES (6, '', 7, zeroblob(32), x'00', '{}')")
    assert "release 6 belongs to no commit" in full.verify().problem


def test_a_trigger_is_found_before_it_fires(full: Place) -> None:
    if full.url:
        body = "BEGIN UPDATE pot_state SET spent='0/1'; RETURN NULL; END"
        full.change(f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        full.change("CREATE TRIGGER t AFTER INSERT ON entry FOR EACH ROW EXECUTE FUNCTION f()")
    else:
        full.change(
            "CREATE TRIGGER t AFTER INSERT ON entry BEGIN UPDATE pot_state SET spent='0/1'; END"
        )
    assert "trigger" in full.verify().problem
    with pytest.raises(RefusedError, match="trigger"):
        full.open()


def test_an_entry_from_another_chain_is_named(full: Place) -> None:
    ((kind, text),) = full.rows("SELECT kind, body_json FROM entry WHERE seq=10")
    own_hash = chain.entry_hash(10, kind, text, HASH)
    ((before,),) = full.rows("SELECT hash FROM entry WHERE seq=9")
    change(full, f"UPDATE entry SET prev_hash='{HASH}', hash='{own_hash}' WHERE seq=10")
    full.head.write_text(Anchor(9, before).text())  # as after a crash: entry 10 was never anchored
    with pytest.raises(RefusedError, match="entry 10: it does not follow"):
        full.open()
    report = full.verify()
    assert report.first_bad == 10 and "entry before it" in report.problem


def test_a_chain_rewritten_to_its_end_disagrees_with_the_head(full: Place) -> None:
    rewrite(full, 2, catalog_hash="cd" * 32)
    report = full.verify()
    assert report.first_bad == 10 and "head" in report.problem
    with pytest.raises(RefusedError, match="not the ledger that was anchored"):
        full.open()


@pytest.mark.parametrize(
    ("seq", "changes", "problem"),
    [
        (3, {"charges": {"total": ["1/100", "0/1"]}}, "charge is not that of its loss"),
        (3, {"pots": ["other"]}, "which no entry opened"),
        (3, {"seconds": 3}, "body is not that of a reserve"),
        (4, {"rows": 50000}, "body is not that of a commit"),
        (4, {"reserve": 1}, "not an open reserve"),
        (4, {"reserve": 6}, "not an open reserve"),
        (10, {"reserve": 3}, "not an open reserve"),
        (10, {"reserve": 6}, "not an open reserve"),
        (3, {"pots": []}, "one budget"),
        (3, {"reissue": {"supersedes": 3, "note": "a wrong bound was found"}}, "still stands"),
        (5, {"cap": "3/1"}, "ceiling"),
        (5, {"reason": ""}, "sentence"),
        (1, {"cap": "1/20"}, "cannot pay"),
        (1, {"recipient": "us"}, "sentence"),
        (1, {"inside": "other"}, "inside no budget"),
        (1, {"neighbours": "replace"}, "no sum"),
        (2, {"version": 2}, "version"),
        (7, {"reserve": 2}, "not a reserve"),
        (8, {"reason": "ok"}, "sentence"),
        (3, {"totals": "ab" * 32}, "names other totals"),
        (4, {"totals": "ab" * 32}, "names other totals"),
        (5, {"totals": ""}, "names no totals"),
    ],
)
@pytest.mark.parametrize("both", mark_rest(["sqlite", "postgres"], quick=1), indirect=True)
def test_even_with_good_hashes_the_rules_are_checked(
    full: Place, seq: int, changes: dict[str, object], problem: str
) -> None:
    rewrite(full, seq, **changes)
    full.head.unlink()
    report = full.verify()
    expected = 3 if seq == 1 and problem in ("cannot pay", "no sum") else seq
    assert report.first_bad == expected and problem in report.problem


AMBIGUOUS = {
    "a key twice": lambda text: '{"reason":"nothing was wrong at all",' + text[1:],
    "a space": lambda text: text + " ",
    "an escape": lambda text: text.replace("engine", "\\u0065ngine"),
}


@pytest.mark.parametrize("respell", mark_between(AMBIGUOUS.values(), step=3), ids=AMBIGUOUS)
def test_a_body_that_two_readers_could_read_differently_is_named(
    full: Place, respell: Callable[[str], str]
) -> None:
    """With good hashes: of a key written twice this reader keeps the last and another the first."""
    rewrite(full, 8, respell)
    full.head.unlink()
    report = full.verify()
    assert report.first_bad == 8 and "not written as dither writes it" in report.problem


@pytest.mark.parametrize("meta", ['{"rows":3,"rows":4}', "[" * 5000], ids=["a key twice", "no end"])
def test_a_release_whose_facts_two_readers_could_read_differently_is_named(
    full: Place, meta: str
) -> None:
    """With a commitment and a chain that fit: the facts beside a release are canonical JSON, as
    they were written."""
    ((nonce, arrow_bytes),) = full.rows("SELECT nonce, arrow_bytes FROM release WHERE seq=9")
    full.change(f"UPDATE release SET meta_json='{meta}' WHERE seq=9")
    rewrite(full, 10, commitment=chain.commitment(bytes(nonce), bytes(arrow_bytes), meta))
    ((hashed,),) = full.rows("SELECT hash FROM entry WHERE seq=10")
    full.head.write_text(Anchor(10, hashed).text())
    report = full.verify()
    assert report.first_bad == 10 and "not written as dither writes it" in report.problem


def test_what_is_no_ledger_is_said_to_be_none(place: Place, tmp_path: Path) -> None:
    assert "cannot be opened" in place.verify().problem
    place.path.parent.mkdir()
    place.path.write_bytes(b"not a database at all" * 100)
    assert "not a ledger" in place.verify().problem
    with pytest.raises(RefusedError, match="not a ledger"):
        place.open()
    place.path.unlink()
    sqlite3.connect(place.path).execute("CREATE TABLE t(x)").connection.close()
    assert "not a ledger" in place.verify().problem


def test_a_newer_format_is_refused(full: Place) -> None:
    newer = tables.SCHEMA_VERSION + 1
    full.change(
        f"COMMENT ON TABLE entry IS 'dither ledger format {newer}'"
        if full.url
        else f"PRAGMA user_version={newer}"
    )
    with pytest.raises(RefusedError, match="format 3"):
        full.open()
    assert "format 3" in full.verify().problem


def test_totals_lowered_with_a_fitting_body_of_the_newest_entry_are_refused(both: Place) -> None:
    """The stored hash of the anchored entry is the head's; its body is hashed again."""
    ledger = both.create(cap=1, ceiling=1)
    release(ledger, "0.9")
    ledger.close()
    ((seq, text),) = both.rows("SELECT seq, body_json FROM entry ORDER BY seq DESC LIMIT 1")
    body = json.loads(text) | {
        "totals": chain.digest_totals({"total": ("0/1", "0/1", "0/1", "1/1")})
    }
    text = chain.canonical_text(body, "body")
    both.change(
        "UPDATE pot_state SET spent='0/1'", f"UPDATE entry SET body_json='{text}' WHERE seq={seq}"
    )
    with pytest.raises(RefusedError, match="does not have its hash"):
        both.open()


def test_totals_lowered_by_an_entry_past_the_head_are_refused(both: Place) -> None:
    """An entry that was never anchored may have been appended by hand, with a good hash and totals
    of its own."""
    ledger = both.create(cap=1, ceiling=1)
    release(ledger, "0.9")
    other = both.open()
    ((seq, previous),) = both.rows("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")
    totals = chain.digest_totals({"total": ("0/1", "0/1", "0/1", "1/1")})
    body = {"version": 1, "catalog_hash": HASH, "public": {}, "totals": totals}
    text = chain.canonical_text(body, "body")
    hashed = chain.entry_hash(seq + 1, "register", text, previous)
    both.change(
        "UPDATE pot_state SET spent='0/1'",
        f"INSERT INTO entry VALUES ({seq + 1}, 'register', '{text}', '{previous}', '{hashed}')",
    )
    with pytest.raises(RefusedError, match="are damaged"):
        reserve(other, "0.5")
    with pytest.raises(RefusedError, match="are damaged"):
        both.open()


def test_a_reserve_past_the_head_with_lowered_totals_is_refused(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=1)
    release(ledger, "0.5")
    pending = reserve(ledger, "0.4")  # past the head until something is committed
    reserve(ledger, "0.01")
    reserve(
        ledger, "0.01"
    )  # sound so far: the charges lead from the anchored totals to those of the table
    ((text, hashed),) = both.rows(
        f"SELECT body_json, prev_hash FROM entry WHERE seq={pending.seq + 2}"
    )
    body = json.loads(text) | {
        "totals": chain.digest_totals({"total": ("1/100", "0/1", "0/1", "1/1")})
    }
    text = chain.canonical_text(body, "body")
    new_hash = chain.entry_hash(pending.seq + 2, "reserve", text, hashed)
    both.change(
        "UPDATE pot_state SET spent='1/100'",
        f"UPDATE entry SET body_json='{text}', hash='{new_hash}' WHERE seq={pending.seq + 2}",
    )
    with pytest.raises(RefusedError, match="are damaged"):
        both.open()
