"""Backup and restore: nothing that was spent can be spent again (rules P11 and P42)."""

from __future__ import annotations

import os
import shutil
import tarfile
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dither
from dither import steward
from dither.cli.main import app
from dither.errors import BudgetError, DitherError, ParameterError, RefusedError
from dither.privacy.ledger import default_head_path
from dither.state import State
from dither.steward.sealed_files import CHUNK_BYTES, MAGIC, open_stream, seal_stream
from tests.datasets.served_clinic import COUNT, register_rich_clinic

PASSPHRASE = "correct horse battery staple"


class Site:
    """A clinic with a backup of an early state of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file, self.state = register_rich_clinic(folder / "clinic", "10")
        self.backup = folder / "early.backup"
        self.early = dither.connect(self.file).sql(COUNT, epsilon=1)
        steward.make_backup(self.state, self.backup, PASSPHRASE)

    @property
    def head(self) -> Path:
        return default_head_path(self.state.installation_id())

    def ask(self, epsilon: object = 2, *, fresh: bool = False):
        return dither.connect(self.file).sql(COUNT, epsilon=epsilon, fresh=fresh)

    def lose_state(self) -> None:
        shutil.rmtree(self.state.root)

    def restore(self, file: Path | None = None, **how):
        return steward.restore_backup(file or self.backup, self.state, PASSPHRASE, **how)

    def read_pot(self):
        ledger = steward.open_ledger(self.state)
        try:
            return ledger.pot("total")
        finally:
            ledger.close()


@pytest.fixture
def site(tmp_path, monkeypatch) -> Site:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return Site(tmp_path)


def test_the_newest_state_comes_back_as_it_was(site):
    site.lose_state()
    restored = site.restore()
    assert not restored.is_closed and restored.lost is None
    again = site.ask(1)
    assert again.info["repeated"] and again.raw == site.early.raw
    assert not site.ask(2).info["repeated"] and site.read_pot().spent == 3
    assert steward.verify_ledger(site.state).ok
    modes = {path.stat().st_mode & 0o077 for path in site.state.root.rglob("*")}
    assert modes == {0}


def test_a_ledger_behind_its_head_is_refused_and_leaves_nothing(site):
    site.ask()
    site.lose_state()
    with pytest.raises(DitherError, match="--close-budgets"):
        site.restore()
    assert not site.state.root.exists() and not list(site.folder.glob("clinic/*.restoring"))


@pytest.mark.parametrize("has_head", [True, False])
def test_a_restore_with_entries_lost_closes_every_budget_for_ever(site, has_head):
    site.ask()
    site.lose_state()
    if not has_head:
        shutil.rmtree(default_head_path("any").parent)
    restored = site.restore(close_budgets=True)
    assert restored.is_closed and restored.lost == (5, 6 if has_head else None)
    pot = site.read_pot()
    assert pot.spent == pot.cap == pot.ceiling and pot.delta_left == 0
    with pytest.raises(BudgetError):
        site.ask(Fraction(1, 1000), fresh=True)
    with pytest.raises((ParameterError, RefusedError, DitherError)):
        steward.raise_cap(site.state, "total", pot.ceiling + 1, "we would like to go on")
    assert site.ask(1).raw == site.early.raw  # stored answers stay free
    assert steward.verify_ledger(site.state).ok
    certificate = site.ask(1).certificate()
    (sentence,) = [
        text for text in certificate["body"]["mode"]["not_promised"] if "were lost" in text
    ]
    assert sentence.startswith("entries 5 to ")


def test_the_lost_ledger_does_not_come_back_beside_the_restored_one(site):
    """The old folder was only moved away: after the loss was recorded it is another ledger."""
    site.ask()
    away = site.folder / "away"
    site.state.root.rename(away)
    site.restore(close_budgets=True)
    shutil.rmtree(site.state.root)
    away.rename(site.state.root)
    with pytest.raises(RefusedError):
        site.ask(3)


def test_an_older_backup_after_a_newer_one_gives_nothing_back(site):
    site.ask()
    newer = site.folder / "newer.backup"
    steward.make_backup(site.state, newer, PASSPHRASE)
    site.lose_state()
    assert site.restore(newer).entries == 6
    site.lose_state()
    with pytest.raises(DitherError, match="--close-budgets"):
        site.restore()
    assert site.restore(newer).entries == 6


def test_nothing_is_closed_where_nothing_is_lost(site):
    with pytest.raises(ParameterError, match="every entry that its head names"):
        steward.close_budgets(site.state)
    assert site.ask().info["charged"]


def test_a_restore_replaces_no_state(site):
    with pytest.raises(DitherError, match="replaces nothing"):
        site.restore()


def test_a_backup_holds_no_head_and_nothing_in_clear(site):
    written = site.backup.read_bytes()
    assert site.backup.stat().st_mode & 0o077 == 0
    assert (site.state.root / "key").read_bytes() not in written and b"visits" not in written
    target = BytesIO()
    open_stream(BytesIO(written), target, PASSPHRASE)
    target.seek(0)
    with tarfile.open(fileobj=target) as archive:
        names = archive.getnames()
    assert {"ledger.sqlite", "key", "id"} <= set(names)
    assert not any("head" in name or site.head.name in name for name in names)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_a_sealed_stream_is_read_back(size):
    content = os.urandom(size)
    sealed = BytesIO()
    seal_stream(BytesIO(content), sealed, PASSPHRASE)
    opened = BytesIO()
    open_stream(BytesIO(sealed.getvalue()), opened, PASSPHRASE)
    assert opened.getvalue() == content


def test_a_stream_that_was_changed_cut_or_moved_is_refused():
    sealed = BytesIO()
    seal_stream(BytesIO(bytes(2 * CHUNK_BYTES + 5)), sealed, PASSPHRASE)
    good = sealed.getvalue()
    start = len(MAGIC) + 16
    size = CHUNK_BYTES + 16
    first, second = good[start : start + size], good[start + size : start + 2 * size]
    flipped = bytearray(good)
    flipped[start + 7] ^= 1
    for bad in (
        bytes(flipped),
        good[: start + size],
        good[: start + 2 * size],
        good[:start] + second + first + good[start + 2 * size :],
        good[:start] + second + good[start + 2 * size :],
        good + good[-21:],
        good[:10],
        b"",
    ):
        with pytest.raises(ParameterError):
            open_stream(BytesIO(bad), BytesIO(), PASSPHRASE)
    with pytest.raises(ParameterError, match="passphrase"):
        open_stream(BytesIO(good), BytesIO(), PASSPHRASE + "!")
    with pytest.raises(ParameterError, match="12"):
        seal_stream(BytesIO(), BytesIO(), "short")


def test_the_commands_back_up_and_restore(site):
    secret = site.folder / "passphrase"
    secret.write_text(PASSPHRASE + "\n")
    secret.chmod(0o600)
    how = ["--passphrase-file", str(secret)]
    file = site.folder / "by command"

    def run(*words: object) -> str:
        ran = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "300"})
        assert ran.exit_code == 0, ran.output
        return ran.output

    assert "4 entries" in run("backup", site.file, file, *how)
    site.lose_state()
    assert "the newest one" in run("restore", file, site.file, *how)
    site.ask()
    site.lose_state()
    assert "every budget is closed" in run("restore", file, site.file, "--close-budgets", *how)
    assert State.beside(site.file).root.exists()
