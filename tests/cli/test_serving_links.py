"""What `dither serve` prints and where it listens."""

from __future__ import annotations

import shlex
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from dither.cli import curator_process
from dither.cli.curator_process import await_answer
from dither.cli.served import check_loopback, write_curl
from dither.errors import DitherError, ParameterError
from tests.datasets.served_clinic import serving

TOKEN = "dither-" + "ab" * 32


def test_no_command_has_the_token_as_an_argument():
    """`printf` is a part of the shell: it is no process whose arguments others could list."""
    words = shlex.split(write_curl("http://127.0.0.1:8765", "clinic", TOKEN, '{"sql": ""}'))
    pipe = words.index("|")
    assert words[:pipe] == ["printf", "Authorization: Bearer %s", TOKEN]
    assert words[pipe + 1] == "curl" and not any(TOKEN in word for word in words[pipe:])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "", "clinic.example", "127.1"])
def test_serving_one_machine_is_refused_where_others_would_reach_it(host):
    with pytest.raises(ParameterError, match="this machine alone"):
        check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_addresses_of_this_machine_are_served(host):
    check_loopback(host)


RUNNING = SimpleNamespace(poll=lambda: None)


def test_a_curator_that_listens_and_does_not_answer_yet_is_waited_for(monkeypatch):
    """A token that was made between listening and starting was ended by the start."""
    monkeypatch.setattr(curator_process, "SECONDS_TO_START", 0.3)
    with (
        tempfile.TemporaryDirectory(prefix="dither") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        path = Path(folder) / "s"
        with pytest.raises(DitherError, match="did not start in time"):
            await_answer(path, RUNNING)
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(DitherError, match="did not start in time"):
            await_answer(path, RUNNING)
        with pytest.raises(DitherError, match="did not start: its message"):
            await_answer(path, SimpleNamespace(poll=lambda: 1))


def test_a_curator_that_answers_is_ready(tmp_path):
    with serving(tmp_path) as clinic:
        await_answer(clinic.socket, RUNNING)
