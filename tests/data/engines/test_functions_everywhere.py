"""Every function of the table, on edge values, on every engine: what the oracle says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dither.plan.algebra import Column, Named, Project, Scan
from dither.plan.functions import TABLE
from tests.data.engines.twins import on_engine
from tests.datasets import hospital
from tests.function_examples import DAYS, EXAMPLES, NOTES, NUMBERS, SEENS

TEXTS = [note for note in NOTES if note is None or "\0" not in note]
"""Texts that PostgreSQL can hold: U+0000 is in none."""


@pytest.fixture(scope="module")
def edge() -> Iterator[hospital.Registered]:
    visits = [
        hospital.visit(
            f"v{i}",
            f"p{i % 30}",
            note=TEXTS[i % len(TEXTS)],
            day=DAYS[i % len(DAYS)],
            score=NUMBERS[i * 7 % len(NUMBERS)],
            cost=NUMBERS[(i * 5 + i // 16) % len(NUMBERS)],
            seen=SEENS[i % len(SEENS)],
            urgent=[None, "true", "false"][i % 3],
            county=["ash", "elm", "oak", "zzz", None][i % 5],
            diag=[None, "7", "abcd", "é", "long label"][i // 2 % 5],
        )
        for i in range(60)
    ]
    people = [hospital.patient(f"p{i}") for i in range(30)]
    with hospital.registered(hospital.raws(people, visits)) as both:
        yield both


@pytest.fixture(scope="module")
def in_postgres(edge, postgres) -> Iterator[hospital.Registered]:
    with on_engine(edge, "postgres", postgres) as both:
        yield both


@pytest.fixture(scope="module")
def in_spark(edge) -> Iterator[hospital.Registered]:
    with on_engine(edge, "spark", "") as both:
        yield both


def check_function(name: str, both: hospital.Registered) -> None:
    calls = [Named(f"x{number}", call) for number, call in enumerate(EXAMPLES[name])]
    plan = Project(Scan("visits"), (*calls, Named("visit", Column("visit"))))
    assert both.rows(plan) == both.expected(plan)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_postgres(name, in_postgres):
    check_function(name, in_postgres)


@pytest.mark.all
@pytest.mark.parametrize("name", sorted(TABLE))
def test_spark(name, in_spark):
    check_function(name, in_spark)
