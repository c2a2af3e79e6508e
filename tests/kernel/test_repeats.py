"""Free repeats and who may see a stored answer (rule values-for-payers)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dither import steward
from dither.errors import BudgetError, RefusedError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price
from tests.datasets.regional_clinic import BY_REGION, COUNT, GAUSSIAN, Clinic

F = Fraction


def forbid_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(Kernel, "prepare", refuse)
    monkeypatch.setattr(Kernel, "measure", refuse)
    monkeypatch.setattr(Kernel, "connect", refuse)


def test_the_same_question_is_free_and_has_the_same_answer(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open()
    con = clinic.connect()
    first = con.sql(BY_REGION, epsilon=1)
    forbid_data(monkeypatch)
    assert con.preview(BY_REGION, epsilon=1).stored
    for again in (
        con.sql(BY_REGION, epsilon=1),
        clinic.connect().sql(BY_REGION + " ", epsilon="1.0", confidence=0.5),
    ):
        assert again.to_dict(intervals=False) == first.to_dict(intervals=False)
        assert again.info["repeated"] and again.info["charged"] == "0/1"
        assert again.info["release_id"] == first.info["release_id"]
        assert again.info["released_at"] == first.info["released_at"]
    assert clinic.spent() == {"total": 1} and len(clinic.ledger().history()) == 1


def test_a_new_answer_can_be_bought(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    first = con.sql(COUNT, epsilon="0.001")
    second = con.sql(COUNT, epsilon="0.001", fresh=True)
    assert not second.info["repeated"] and clinic.spent() == {"total": F(2, 1000)}
    assert first.raw != second.raw
    assert con.sql(COUNT, epsilon="0.001").raw == second.raw  # the newest stands


def test_whatever_changes_the_law_of_an_answer_changes_its_key(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    kernel, con = clinic.kernel(), clinic.connect()
    request = con.request(COUNT, rho="0.1")
    at = kernel.version
    key = kernel.price(request).key
    assert kernel.price(replace(request, pot="nobody")).key == key  # not the pot
    other = [
        replace(request, price=Price(rho=F(1, 5))),
        replace(request, steps=(request.steps[0], request.steps[0])),
        con.request(BY_REGION, rho="0.1"),
        con.request(COUNT + " WHERE age >= 18", rho="0.1"),
        con.request(COUNT, epsilon=1),
    ]
    keys = {kernel.price(each).key for each in other}
    for changed in (
        replace(at, number=2),
        replace(at, catalog_hash="00" * 32),
        replace(at, catalog=replace(at.catalog, lineage="other")),
        replace(at, catalog=replace(at.catalog, unit=replace(at.catalog.unit, kind="row"))),
    ):
        kernel.version = changed
        keys.add(kernel.price(request).key)
    assert key not in keys and len(keys) == len(other) + 4


def test_a_new_version_is_a_new_question(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    con.sql(COUNT, epsilon=1)
    steward.register(clinic.file)
    again = con.sql(COUNT, epsilon=1)
    assert (
        not again.info["repeated"] and again.info["version"] == 2 and clinic.spent() == {"total": 2}
    )


def test_under_separate_another_group_pays_and_sees_the_same(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open(policy="separate")
    clinic.open("board", inside="total", kind="group", epsilon=2, ceiling=2)
    clinic.open("press", inside="total", kind="group", epsilon="1.5", ceiling=2)
    first = clinic.connect("board").sql(COUNT, epsilon=1)
    forbid_data(monkeypatch)
    theirs = clinic.connect("press").sql(COUNT, epsilon=1)
    assert theirs.raw == first.raw and theirs.info["charged"] == "1/1" and theirs.info["repeated"]
    assert theirs.info["charges"] == {"press": ["1/1", "0/1"]}
    assert clinic.spent() == {
        "total": 1,
        "board": 1,
        "press": 1,
    }  # the dataset's total does not move
    assert clinic.connect("press").sql(COUNT, epsilon=1).info["charged"] == "0/1"
    assert clinic.spent()["press"] == 1 and clinic.verify().ok


def test_under_separate_who_cannot_pay_sees_nothing(clinic: Clinic) -> None:
    clinic.open(policy="separate")
    clinic.open("board", inside="total", kind="group", epsilon=2, ceiling=2)
    clinic.open("press", inside="total", kind="group", epsilon="0.5", ceiling=2)
    clinic.connect("board").sql(COUNT, epsilon=1)
    with pytest.raises(BudgetError, match="'press' cannot pay"):
        clinic.connect("press").sql(COUNT, epsilon=1)
    assert clinic.spent() == {"total": 1, "board": 1, "press": 0}


def test_under_global_a_stored_answer_is_free_to_all(clinic: Clinic) -> None:
    clinic.open()
    clinic.open("board", inside="total", kind="group", epsilon=2, ceiling=2)
    clinic.open("press", inside="total", kind="group", epsilon="0.5", ceiling=2)
    first = clinic.connect("board").sql(COUNT, epsilon=1)
    assert clinic.connect("press").sql(COUNT, epsilon=1).raw == first.raw
    assert clinic.spent() == {"total": 1, "board": 1, "press": 0}


def test_a_suspended_dataset_still_repeats_what_was_paid_for(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    first = con.sql(COUNT, epsilon=1)
    kernel = clinic.kernel()
    kernel.record_incident(kernel.reserve(kernel.price(con.request(COUNT, epsilon=1))))
    assert con.sql(COUNT, epsilon=1).raw == first.raw


def test_under_separate_nobody_asks_from_the_pot_that_sees_all(clinic: Clinic) -> None:
    clinic.open(policy="separate")
    clinic.open("board", inside="total", kind="group", epsilon=2, ceiling=2)
    clinic.connect("board").sql(COUNT, epsilon=1)
    for ask in (clinic.connect().sql, clinic.connect().preview):
        with pytest.raises(RefusedError, match="ask from a group's own budget"):
            ask(COUNT, epsilon=1)  # type: ignore[operator]


def test_nobody_asks_from_a_partition_which_has_paid_for_everything(clinic: Clinic) -> None:
    """Else what one group paid for would leave free of charge through the pot that all of them
    share."""
    clinic.open(policy="separate")
    clinic.open("regions", inside="total", kind="partition", column="patients.region")
    clinic.open("north", inside="regions", kind="part", value="north")
    question = COUNT + " WHERE region = 'north'"
    clinic.connect("north").sql(question, epsilon=1)
    con = clinic.connect("regions")
    with pytest.raises(RefusedError, match="pays for what others ask"):
        con.sql(question, epsilon=1)
    with pytest.raises(RefusedError, match="pays for what others ask"):
        con.history()


def test_the_name_of_a_release_does_not_count_the_questions_of_others(clinic: Clinic) -> None:
    clinic.open()
    names = [
        clinic.connect().sql(f"{COUNT} WHERE age > {age}", epsilon="0.01").info["release_id"]
        for age in range(4)
    ]
    assert len(set(names)) == 4 and not any(name.isdigit() and len(name) < 9 for name in names)
    history = clinic.connect().history()
    assert [each.release_id for each in history.releases] == names
    assert history.raw(names[2]) is not None
