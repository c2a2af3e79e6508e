"""Errors in a notebook: IPython asks an exception for `_render_traceback_`."""

from __future__ import annotations

import pytest

from dither import QueryError, connect
from tests.datasets import clinic


def test_our_frames_are_hidden_and_the_message_stays(tmp_path):
    file, state = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    clinic.open_total(state)
    with pytest.raises(QueryError) as caught:
        connect(file).sql("SELECT nope FROM visits", epsilon=1)
    lines = caught.value._render_traceback_()
    assert len(lines) == 2 and "src/dither" not in "\n".join(lines)
    assert lines[0].startswith(__file__) and lines[1] == f"QueryError: {caught.value}"


def test_faults_keep_their_traceback():
    assert not hasattr(ZeroDivisionError, "_render_traceback_")
