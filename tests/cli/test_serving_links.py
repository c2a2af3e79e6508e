"""What `dither serve` prints and where it listens."""

from __future__ import annotations

import shlex

import pytest

from dither.cli.served import check_loopback, write_curl
from dither.errors import ParameterError

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
