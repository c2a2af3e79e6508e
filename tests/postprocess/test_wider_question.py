"""Wider questions: without the condition on a public table, by the key that joins it."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from dither.catalog import load
from dither.postprocess.wider_question import widen_question
from tests.postprocess.test_public_rows import CATALOG

ASKED = (
    "SELECT SUM(price) AS s FROM lines, parts WHERE part_id = part AND brand = 'a' AND quantity < 5"
)
WIDE = "SELECT SUM(price) AS s, part FROM lines, parts WHERE part_id = part AND quantity < 5"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    file = tmp_path_factory.mktemp("shop") / "shop.yaml"
    file.write_text(CATALOG)
    return load(file)


def read_public(table: str) -> pa.Table:
    assert table == "parts"
    brands = ["a", "a", *["b"] * 98]
    return pa.table({"part_id": list(range(100)), "brand": brands, "weight": [1.0] * 100})


def test_the_condition_is_taken_out_and_its_share_is_counted(catalog):
    assert widen_question(ASKED, catalog, read_public) == (
        f"{WIDE} GROUP BY part",
        Fraction(1, 50),
    )


def test_a_question_over_rows_of_a_subquery_is_widened_there(catalog):
    inner = ASKED.replace("SUM(price) AS s", "price AS p, quantity AS q")
    sql = f"SELECT q, SUM(p) AS s FROM ({inner}) AS rows GROUP BY q ORDER BY q"
    widened, share = widen_question(sql, catalog, read_public)
    assert widened == (
        "SELECT q, SUM(p) AS s, part FROM (SELECT price AS p, quantity AS q, part FROM lines, "
        "parts WHERE part_id = part AND quantity < 5) AS rows GROUP BY q, part"
    )
    assert share == Fraction(1, 50)


@pytest.mark.parametrize(
    "sql",
    [
        ASKED.replace("brand = 'a'", "brand = 'b'"),  # 98 of 100 rows
        ASKED.replace("brand = 'a'", "brand = 'c'"),  # none
        ASKED.replace("brand = 'a' AND ", ""),
        ASKED.replace("part_id = part", "part_id < part"),
        ASKED.replace("brand = 'a'", "(brand = 'a' OR price > 3)"),
        "SELECT SUM(price) AS s FROM lines",
        "SELECT COUNT(*) FROM lines JOIN parts ON weight = part WHERE brand = 'a'",
        "WITH l AS (SELECT * FROM lines) SELECT COUNT(*) FROM l",
        "SELECT COUNT(*) FROM lines UNION SELECT COUNT(*) FROM lines",
        "not a question",
    ],
)
def test_other_questions_are_not_widened(catalog, sql):
    assert widen_question(sql, catalog, read_public) is None


def test_a_join_with_on_is_widened(catalog):
    sql = "SELECT SUM(price) AS s FROM lines JOIN parts ON part = part_id WHERE brand = 'a'"
    assert widen_question(sql, catalog, read_public) == (
        "SELECT SUM(price) AS s, part FROM lines JOIN parts ON part = part_id GROUP BY part",
        Fraction(1, 50),
    )
