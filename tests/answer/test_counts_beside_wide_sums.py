"""A count that shares its noise with a sum beyond 64 bits is a 64-bit integer all the same, at any
price."""

from __future__ import annotations

from fractions import Fraction as F

import pyarrow as pa
import pytest

from tests.answer import asked
from tests.case_lists import mark_rest

WIDE = "SELECT COUNT(*) AS n, SUM(score * score * score * score * 100000000000000) AS s FROM visits"


@pytest.mark.parametrize("epsilon", mark_rest([F(20), F(90)], quick=1))
def test_each_number_of_a_box_has_a_width_of_its_own(tmp_path, epsilon):
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3), rule="pure")
    result = con.sql(WIDE, epsilon=epsilon)
    assert [step.family for step in result._release.priced.request.steps] == ["box"]
    for intervals in (True, False):
        types = dict(
            zip(
                *(lambda of: (of.names, of.types))(result.to_arrow(intervals=intervals).schema),
                strict=True,
            )
        )
        assert types["n"] == pa.int64() and types["s"] == pa.decimal128(38, 0)
    again = con.sql(WIDE, epsilon=epsilon)
    assert again.info["repeated"] and again.to_dict() == result.to_dict()
