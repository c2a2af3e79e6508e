"""Every aggregate of the reference is answered by `con.sql`, alone and by a declared key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dither import Connection, connect, steward
from dither.catalog import load
from dither.cli.clinic import write_clinic
from dither.state import State
from tests.answer.asked import PURPOSE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
AGGREGATES = (
    "COUNT(*)",
    "COUNT(cost)",
    "COUNT_IF(urgent)",
    "COUNT(DISTINCT ward)",
    "COUNT(DISTINCT day)",
    "COUNT(DISTINCT patient_id)",
    "SUM(wait)",
    "SUM(cost)",
    "AVG(cost)",
    "VARIANCE(wait)",
    "VAR_POP(wait)",
    "STDDEV(wait)",
    "STDDEV_POP(wait)",
    "SKEWNESS(wait)",
    "COVAR_POP(age, wait)",
    "COVAR_SAMP(age, wait)",
    "CORR(age, wait)",
    "REGR_SLOPE(wait, age)",
    "REGR_INTERCEPT(wait, age)",
    "REGR_R2(wait, age)",
    "REGR_COUNT(wait, age)",
    "REGR_AVGX(wait, age)",
    "REGR_AVGY(wait, age)",
    "MEDIAN(cost)",
    "QUANTILE(cost, 0.9)",
    "QUANTILE_CONT(cost, 0.9)",
    "QUANTILE_DISC(cost, 0.9)",
    "APPROX_QUANTILE(cost, 0.9)",
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY cost)",
    "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY cost)",
    "MIN(cost)",
    "MAX(cost)",
    "HISTOGRAM(cost, 5)",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Connection:
    folder = tmp_path_factory.mktemp("clinic")
    write_clinic(folder, 300)
    file = folder / "clinic.yaml"
    steward.register(file, dev=True)
    state = State.beside(file)
    steward.open_pot(
        state, load(file), "total", epsilon="9999", ceiling="9999", rule="pure", purpose=PURPOSE
    )
    return connect(file)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_aggregate_is_answered_alone_and_by_a_key(con: Connection, aggregate: str) -> None:
    """COUNT(DISTINCT ward) was refused once: it was taken for a marginal, which it is not."""
    has_bins = aggregate.startswith("HISTOGRAM")
    rows = con.sql(f"SELECT {aggregate} AS n FROM visits", epsilon=1).to_dict()
    assert len(rows["n"]) >= 5 if has_bins else len(rows["n"]) == 1
    if not has_bins:
        by_ward = f"SELECT ward, {aggregate} AS n FROM visits GROUP BY ward"
        assert len(con.sql(by_ward, epsilon=1).to_dict()["n"]) >= 4


def test_the_list_has_every_aggregate_of_the_reference() -> None:
    table = PAGE.read_text().split("**Aggregates.**")[1].split("**Joins**")[0]
    first_cells = "".join(re.findall(r"^\| .*? \|", table, re.M))
    named = re.findall(r"`([A-Z_0-9]+(?:\(DISTINCT)?)", first_cells)
    asked = re.findall(r"^[A-Z_0-9]+(?:\(DISTINCT)?", "\n".join(AGGREGATES), re.M)
    assert set(named) == set(asked)
