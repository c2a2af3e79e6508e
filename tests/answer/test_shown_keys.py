"""Keys as people see them: counting them agrees with listing them."""

from __future__ import annotations

import pytest

from dither import connect
from dither.answer.shown_keys import count_shown_keys, list_shown_keys
from tests.datasets import clinic

KEYS = ("ward", "urgent", "day", "date_trunc('month', day)", "floor(cost / 10)")


@pytest.fixture
def con(tmp_path):
    file, place = clinic.register(tmp_path, [clinic.row("v1", "p1", ward="north")])
    clinic.open_total(place)
    return connect(file)


@pytest.mark.parametrize("key", KEYS)
def test_as_many_keys_are_counted_as_are_listed(con, key):
    recipe = con.bind(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k")
    domains = [column.domain for column in recipe.keys]
    assert [count_shown_keys(domain) for domain in domains] == [
        len(list_shown_keys(domain)) for domain in domains
    ]
    assert len(list_shown_keys(domains[0])) > 1
