"""Tokens: 256 bits that are stored as a hash, for one dataset, role and time."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dither.curator.ask_log import AskLog
from dither.curator.suspensions import SuspensionLog
from dither.errors import ParameterError
from dither.identity import ROLES, Authority, TokenStore, tokens
from dither.identity.tokens import SERVE_NAME
from dither.protocol.errors import AccessError, TokenError


@pytest.fixture
def store(tmp_path):
    opened = TokenStore(tmp_path / "home")
    yield opened
    opened.close()


def make(store: TokenStore, role: str = "analyst", pots: tuple[str, ...] = ("total",)) -> str:
    return store.create_token("alice", "clinic", role, pots, 30)[0]


def test_a_token_has_256_bits_and_stands_for_its_principal(store):
    text = make(store)
    assert re.fullmatch(r"dither-[0-9a-f]{64}", text)
    principal = store.verify_token(text)
    assert (principal.name, principal.dataset, principal.role) == ("alice", "clinic", "analyst")
    assert principal.pots == ("total",)
    assert make(store) != text


def test_the_secret_is_stored_nowhere(store, tmp_path):
    text = make(store)
    store.close()
    content = b"".join(file.read_bytes() for file in (tmp_path / "home").iterdir())
    assert text.encode() not in content and text.removeprefix("dither-").encode() not in content
    assert bytes.fromhex(text.removeprefix("dither-")) not in content


def test_only_its_user_can_read_the_store(store):
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.file.parent.stat().st_mode) == 0o700


def test_a_store_that_was_left_readable_is_closed_again(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "curator.sqlite").touch(mode=0o644)
    store = TokenStore(home)
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def refusal(store: TokenStore, text: str) -> str:
    with pytest.raises(TokenError) as refused:
        store.verify_token(text)
    return str(refused.value)


def test_unknown_expired_and_revoked_tokens_are_refused_in_the_same_words(store, monkeypatch):
    revoked, token = store.create_token("bob", "clinic", "analyst", ("total",), 30)
    store.revoke_token(token.token_id)
    expired = make(store)
    messages = {refusal(store, text) for text in ("", "dither-00", "\ud800", "x" * 9999, revoked)}

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2200, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(tokens, "datetime", Later)
    assert len(messages | {refusal(store, expired)}) == 1


def test_revoking_takes_effect_in_a_store_that_is_open_already(store, tmp_path):
    text, token = store.create_token("bob", "clinic", "analyst", ("total",), 30)
    running = TokenStore(tmp_path / "home")
    assert running.verify_token(text).name == "bob"
    store.revoke_token(token.token_id)
    refusal(running, text)
    running.close()


MAKE_TOKEN = """
import sys
from pathlib import Path
from dither.identity import TokenStore
store = TokenStore(Path(sys.argv[1]))
print(*store.create_token("bob", "clinic", "analyst", ("total",), 1)[:1])
store.close()
"""
REVOKE_TOKENS = """
import sys
from pathlib import Path
from dither.identity import TokenStore
store = TokenStore(Path(sys.argv[1]))
for token in store.list_tokens():
    store.revoke_token(token.token_id)
store.close()
"""


def run_elsewhere(program: str, home: Path) -> str:
    """What a program in a process of its own prints."""
    command = [sys.executable, "-c", program, str(home)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_curator_sees_what_commands_in_other_processes_do(tmp_path):
    """A command that ends must not take away the log that an open curator reads and writes.

    It did: to open and close the file by hand gave up the locks of every connection of the curator,
    so that tokens that were revoked on the command line stayed valid until it was started anew.
    """
    authority = Authority(tmp_path)
    asks = AskLog(authority.tokens.file)
    suspensions = SuspensionLog(tmp_path)  # a curator opens its file several times
    kept, _ = authority.tokens.create_token("alice", "clinic", "analyst", ("total",), 1)
    made = run_elsewhere(MAKE_TOKEN, tmp_path)
    assert (tmp_path / "curator.sqlite-wal").exists()
    assert authority.verify(made).name == "bob" and authority.verify(kept).name == "alice"
    run_elsewhere(REVOKE_TOKENS, tmp_path)
    for token in (made, kept):
        with pytest.raises(TokenError):
            authority.verify(token)
    assert not suspensions.read_times("clinic")
    asks.close()
    authority.close()


def test_the_list_shows_no_secret(store):
    text = make(store)
    listed = repr(store.list_tokens())
    assert "alice" in listed and text not in listed and tokens._hash_token(text) not in listed


@pytest.mark.parametrize(
    ("name", "role", "days"),
    [("", "analyst", 1), ("a b", "analyst", 1), ("a", "root", 1), ("a", "analyst", 0)],
)
def test_a_token_that_says_too_little_is_not_made(store, name, role, days):
    with pytest.raises(ParameterError):
        store.create_token(name, "clinic", role, (), days)
    assert store.list_tokens() == ()


def test_a_token_is_revoked_once(store):
    _, token = store.create_token("bob", "clinic", "analyst", ("total",), 30)
    store.revoke_token(token.token_id)
    with pytest.raises(ParameterError, match="no token"):
        store.revoke_token(token.token_id)


ALLOWED = {
    # role: ask own pot, ask another, read another, texts of another, values of another
    "analyst": (True, False, False, False, False),
    "auditor": (False, False, True, False, False),
    "steward": (True, False, True, True, False),
    "admin": (True, False, True, False, False),
}


def is_allowed(act, *arguments: str) -> bool:
    try:
        return act(*arguments) is not False
    except AccessError:
        return False


def test_an_auditor_sees_neither_texts_nor_values_of_a_pot_that_a_token_names(store):
    principal = store.verify_token(make(store, "auditor"))
    assert not principal.may_read_texts("total")
    assert not is_allowed(principal.check_values, "total")


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_do_what_the_table_says(store, role):
    principal = store.verify_token(make(store, role))
    assert ALLOWED[role] == (
        is_allowed(principal.check_pot, "total"),
        is_allowed(principal.check_pot, "board"),
        is_allowed(principal.check_reading, "board"),
        is_allowed(principal.may_read_texts, "board"),
        is_allowed(principal.check_values, "board"),
    )
    assert not is_allowed(principal.check_dataset, "shop")
    assert is_allowed(principal.check_dataset, "clinic")


def test_a_folder_with_files_of_others_is_not_taken_over(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(ParameterError, match="folder of its own"):
        TokenStore(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_token_of_a_serve_that_was_killed_ends_with_the_next_curator(tmp_path):
    authority = Authority(tmp_path / "home")
    left_behind, _ = authority.tokens.create_serve_token("clinic", "admin", ("total",))
    kept = make(authority.tokens)
    assert authority.verify(left_behind).name == SERVE_NAME
    authority.start()
    with pytest.raises(TokenError):
        authority.verify(left_behind)
    authority.verify(kept)
    with pytest.raises(ParameterError, match="a token is for a name"):
        authority.tokens.create_token(SERVE_NAME, "clinic", "admin", (), 1)
    authority.close()


def test_tokens_are_forgotten_long_after_their_end(store, monkeypatch):
    make(store)
    _, revoked = store.create_token("bob", "clinic", "analyst", ("total",), 300)
    store.revoke_token(revoked.token_id)
    store.create_token("carol", "clinic", "analyst", ("total",), 300)
    for days, names in ((29, "alice bob carol"), (31, "alice carol"), (61, "carol")):
        moment = datetime.now(UTC) + timedelta(days=days)

        class Clock(datetime):
            @classmethod
            def now(cls, zone=None, moment=moment):
                return moment

        monkeypatch.setattr("dither.identity.tokens.datetime", Clock)
        store.forget_old_tokens()
        assert [token.name for token in store.list_tokens()] == names.split()
