"""Pots that are asked for ahead are given once, and never to a later request."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import pytest

from dither.protocol.errors import AccessError
from dither.remote.curator import RemoteCurator


class AtOnce(Executor):
    """Does its work when it is handed in."""

    def submit(self, work, /, *arguments, **terms) -> Future:
        done: Future = Future()
        try:
            done.set_result(work(*arguments, **terms))
        except Exception as error:
            done.set_exception(error)
        return done


class CountedPots(RemoteCurator):
    """A curator whose reply says how often it was asked, and which refuses from the fifth on."""

    def __init__(self) -> None:
        self.asked = 0
        self._pots_ahead = None

    def _read_pots(self) -> tuple:
        self.asked += 1
        if self.asked > 4:
            raise AccessError("nothing is granted")
        return (self.asked,)


def test_pots_are_read_ahead_for_one_block():
    curator = CountedPots()
    with curator.reading_pots_ahead(AtOnce()):
        assert curator.list_pots() == (1,)
        assert curator.list_pots() == (2,)  # the second time they are asked for anew
    with curator.reading_pots_ahead(AtOnce()):
        pass
    assert curator.list_pots() == (4,)  # what was read ahead of an earlier request is not given
    with curator.reading_pots_ahead(AtOnce()), pytest.raises(AccessError):
        curator.list_pots()
