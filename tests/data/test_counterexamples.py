"""The counterexamples of docs/rules/owners.md and docs/rules/keys.md, each bug planted and
caught."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.catalog import parse
from dither.data.lower import aggregates, filter, per_unit, plan
from dither.data.measure import MeasureError
from dither.data.register import owners, registration, repaired_rows
from dither.data.register.registration import RegistrationError
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan import analyse as analysis
from dither.plan.algebra import Cells, Count, Named, Scan, Sum
from dither.plan.facts import Facts
from dither.plan.of_catalog import sensitivity
from dither.plan.stability import Loose
from tests.datasets import hospital
from tests.neighbours import check_claim, check_rows, measured

PEOPLE = [hospital.patient(f"p{i}") for i in range(4)]
VICTIM = hospital.patient("victim")
VISITS = [
    hospital.visit(f"p{i}-{j}", f"p{i}", score=str(j), cost="0.01")
    for i in range(4)
    for j in range(3)
]
MINE = [
    hospital.visit(f"mine-{j}", "victim", county=["ash", "elm", "oak"][j], score=str(j))
    for j in range(3)
]
WITHOUT = hospital.raws(PEOPLE, VISITS)
WITHIN = hospital.raws([VICTIM, *PEOPLE], MINE + VISITS)


def neighbours_agree(query: Cells, without=WITHOUT, within=WITHIN) -> None:
    """What every test of plans asks: engine is oracle, others do not move, the claim holds."""
    with hospital.registered(without) as one, hospital.registered(within) as two:
        rows = [both.rows(query.plan) for both in (one, two)]
        check_rows(query.plan, *rows, one)
        check_claim(query, measured(one, query), measured(two, query), one.catalog, one.facts)
        assert [both.expected(query.plan) for both in (one, two)] == rows


def caught(query: Cells, **given) -> None:
    with pytest.raises(AssertionError):
        neighbours_agree(query, **given)


def honest_then(query: Cells, monkeypatch, *patches) -> None:
    neighbours_agree(query)
    for where, what, bug in patches:
        monkeypatch.setattr(where, what, bug)
    caught(query)


class TestRowsAreASet:
    """Inside a unit: no order of rows, no float."""

    def patched(self, old: str, new: str):
        honest = aggregates.aggregate_sql
        return (per_unit, "aggregate_sql", lambda *given: honest(*given).replace(old, new))

    def test_first_instead_of_minimum(self, monkeypatch):
        query = Cells(
            a.PerUnit(Scan("visits"), (), (Named("x", a.Minimum("score")),)), (), (Sum("x"),)
        )
        honest_then(query, monkeypatch, self.patched("min(", "first("))

    def test_inner_float_sum(self, monkeypatch):
        text = hospital.CATALOG.replace(
            "salary: {type: integer, bounds: [0, 300000]",
            f"salary: {{type: integer, bounds: [0, {2**62}]",
        )
        rows = hospital.raws([hospital.patient("p1", salary=str(2**60 + 1))])
        query = Cells(
            a.PerUnit(Scan("patients"), (), (Named("x", Sum("salary")),)), (), (Sum("x"),)
        )
        with hospital.registered(rows, parse(text)) as both:
            measured(both, query)
            monkeypatch.setattr(*self.patched("sum(CASE", "sum(0.0::DOUBLE + CASE"))
            with pytest.raises(AssertionError):
                measured(both, query)


class TestOwnersNeverMeet:
    def test_two_owners_of_a_parent_key(self, monkeypatch):
        """If the check is left out, u takes v's items by claiming v's visit."""
        items = [hospital.item("p1-0")] * 4
        stolen = [hospital.visit("p1-0", "victim")]
        query = Cells(Scan("items"), (), (Count(),))
        given = {
            "without": hospital.raws(PEOPLE, VISITS, items),
            "within": hospital.raws([*PEOPLE, hospital.patient("victim")], VISITS + stolen, items),
        }
        with pytest.raises(RegistrationError):
            neighbours_agree(query, **given)

        def build(connection, catalog, parent, key, rows):
            owner, join = owners.owner_sql(catalog, parent)
            connection.execute(
                f"CREATE TEMP TABLE {owners.map_name(parent, key)} AS "
                f"SELECT raw.{key[0]}, max({owner}) AS {owners.FIRST} "
                f"FROM {rows} AS raw{join} WHERE {owner} IS NOT NULL GROUP BY 1"
            )

        monkeypatch.setattr(registration, "make_owner_map", build)
        caught(query, **given)

    def test_a_private_join_without_the_owner(self, monkeypatch):
        query = Cells(a.Join(Scan("visits"), Scan("patients"), (), "inner"), (), (Count(),))
        honest = plan.join_sql
        bug = lambda *given: honest(*given).replace("l.dither_unit = r.dither_unit", "true")
        honest_then(query, monkeypatch, (plan, "join_sql", bug))

    def test_a_public_side_with_several_rows_a_key(self, monkeypatch):
        levels = a.Project(
            Scan("wards"), (Named("county2", a.Column("level")),)
        )  # its own multiplicity, not county's
        query = Cells(
            a.Join(Scan("visits"), levels, (("score", "county2"),), "inner"), (), (Count(),)
        )
        lively = [hospital.visit(f"mine-{j}", "victim", score="1") for j in range(3)]
        given = {"within": hospital.raws([VICTIM, *PEOPLE], lively + VISITS)}
        neighbours_agree(query, **given)
        monkeypatch.setattr(Facts, "multiplicity", lambda *_: 1)
        caught(query, **given)

    def test_uniqueness_that_nobody_enforces(self, monkeypatch):
        """PK-FK stability "the child's limit" fails where the parent key repeats."""
        items = [hospital.item(f"mine-{j % 2}") for j in range(4)]
        given = {"within": hospital.raws([VICTIM, *PEOPLE], MINE + VISITS, items)}
        query = Cells(
            a.Join(Scan("visits"), Scan("items"), (("visit", "visit"),), "inner"), (), (Count(),)
        )
        neighbours_agree(query, **given)
        monkeypatch.setattr(analysis, "_count_matches", lambda *_: 1)
        caught(query, **given)

    TWO_PARTS = hospital.CATALOG.replace("unique: [[visit]]", "unique: [[visit], [score, urgent]]")
    PAIRED = (("score", "s"), ("urgent", "u"))

    def joined(self, *shown: Named) -> Cells:
        """The left side's score is computed, so that only the right one can be unique."""
        score = a.Call(
            "clamp", (a.Column("score"), a.Value("number", F(-5)), a.Value("number", F(5)))
        )
        left = a.Project(
            Scan("visits"), (Named("score", score), Named("urgent", a.Column("urgent")))
        )
        right = a.Project(a.Filter(Scan("visits"), a.Not(a.IsNull("score"))), shown)
        return Cells(a.Join(left, right, self.PAIRED[: len(shown)], "inner"), (), (Count(),))

    def test_uniqueness_is_seen_through_a_projection_that_keeps_the_whole_key(self):
        facts = parse(self.TWO_PARTS)
        same, urgent = Named("s", a.Column("score")), Named("u", a.Column("urgent"))
        zero = Named(
            "s",
            a.Call("clamp", (a.Column("score"), a.Value("number", F(0)), a.Value("number", F(0)))),
        )
        swapped = Named("s", a.Column("cost")), Named("u", a.Column("urgent"))
        claims = {(same, urgent): 3, (same,): 9, (zero, urgent): 9}
        with hospital.registered(hospital.raws(), facts) as empty:
            for shown, rows in claims.items():
                assert (
                    analysis.analyse(self.joined(*shown).plan, facts, empty.facts).node.rows == rows
                )
            with pytest.raises(
                RefusedError
            ):  # another column under the key's name: of another resolution
                analysis.analyse(self.joined(*swapped).plan, facts, empty.facts)

    @pytest.mark.parametrize("part", ["dropped", "changed"])
    def test_a_projection_that_loses_part_of_a_key(self, part, monkeypatch):
        """Visits that differ in score alone meet once a projection drops or flattens what tells
        them apart."""
        facts = parse(self.TWO_PARTS)
        zero = a.Call(
            "clamp", (a.Column("score"), a.Value("number", F(0)), a.Value("number", F(0)))
        )
        flat = a.Project(
            Scan("visits"), (Named("score", zero), Named("urgent", a.Column("urgent")))
        )
        shown = (
            (Named("u", a.Column("urgent")),)
            if part == "dropped"
            else (Named("s", zero), Named("u", a.Column("urgent")))
        )
        on = (("urgent", "u"),) if part == "dropped" else self.PAIRED
        query = Cells(a.Join(flat, a.Project(Scan("visits"), shown), on, "inner"), (), (Count(),))

        def agree() -> None:
            with (
                hospital.registered(WITHOUT, facts) as one,
                hospital.registered(WITHIN, facts) as two,
            ):
                check_rows(query.plan, one.rows(query.plan), two.rows(query.plan), one)
                check_claim(query, measured(one, query), measured(two, query), facts, one.facts)

        agree()
        monkeypatch.setattr(
            analysis, "_count_matches", lambda *_: 1
        )  # the key's names are there, its values are not
        with pytest.raises(AssertionError):
            agree()

    @pytest.mark.parametrize("kind", ["right", "full"])
    def test_the_private_side_is_preserved(self, kind):
        with pytest.raises(RefusedError), hospital.registered(WITHOUT) as both:
            both.measurer.measure(
                Cells(
                    a.Join(Scan("visits"), Scan("counties"), (("county", "county"),), kind),
                    (),
                    (Count(),),
                )
            )


class TestLostOwners:
    def test_distinct_is_not_one(self, monkeypatch):
        names = (Named("county", a.Column("county")), Named("score", a.Column("score")))
        query = Cells(a.Distinct(a.Project(Scan("visits"), names), per_unit=False), (), (Count(),))
        honest_then(
            query,
            monkeypatch,
            (analysis, "distinct_rows", lambda source, per_unit: Loose(1, source.most)),
        )

    def test_a_group_loses_one_row_and_gains_another(self, monkeypatch):
        grouped = a.Group(Scan("visits"), ("score",), (Named("n", Count()),))
        honest_then(
            Cells(grouped, ("n",), (Count(),)),
            monkeypatch,
            (analysis, "group_rows", lambda source, keys: Loose(source.rows, source.most)),
        )

    def test_a_person_has_more_than_one_group(self, monkeypatch):
        query = Cells(
            a.PerUnit(Scan("visits"), ("county",), (Named("n", Count()),)), (), (Count(),)
        )
        honest = analysis.per_unit_rows
        honest_then(
            query,
            monkeypatch,
            (analysis, "per_unit_rows", lambda source, keys, columns: honest(source, (), {})),
        )


def test_windows_that_share_a_limit(monkeypatch):
    """If the owner were the person alone, rows of one month would push out those of another."""
    text = hospital.CATALOG[: hospital.CATALOG.index("  patients:")].replace(
        "kind: person}", "kind: person_window, column: day, every: month, zone: UTC}"
    )
    text += """\
  visits:
    kind: private
    from: visits.csv
    owner: {column: person}
    unique: []
    rows_per_unit: 2
    max_rows: 99
    columns:
      person: {type: id}
      day: {type: date, bounds: [2024-01-01, 2024-12-31], nulls: drop, provenance: x}
      n: {type: integer, bounds: [0, 99], nulls: keep, provenance: x}
"""
    facts = parse(text)
    january = [{"person": "p", "day": "2024-01-05", "n": str(i)} for i in range(40)]
    february = [{"person": "p", "day": "2024-02-05", "n": str(i)} for i in range(4)]

    def others_move() -> None:
        with (
            hospital.registered({"visits": february}, facts) as one,
            hospital.registered({"visits": january + february}, facts) as two,
        ):
            check_rows(
                Scan("visits"),
                one.rows(Scan("visits")),
                two.rows(Scan("visits")),
                one,
                one.name_owner(f"{2024 * 12}:p"),
            )

    others_move()
    monkeypatch.setattr(repaired_rows, "window_sql", lambda *_: "''")
    with pytest.raises(AssertionError):
        others_move()


def test_narrowed_bounds_are_not_trusted_to_the_engine(monkeypatch):
    """An engine whose comparison lets a row through (as nan > 5 does) cannot pass the clamp."""
    query = Cells(a.Filter(Scan("visits"), a.Compare("cost", "<=", F(20))), (), (Sum("cost"),))
    rich = hospital.raws([VICTIM, *PEOPLE], [hospital.visit("mine", "victim", cost="500"), *VISITS])

    def moved() -> None:
        with hospital.registered(WITHOUT) as one, hospital.registered(rich) as two:
            cells = [both.measurer.measure(query) for both in (one, two)]
            check_claim(query, *cells, one.catalog, one.facts)

    monkeypatch.setattr(filter, "condition_sql", lambda *_: "true")
    moved()
    honest = filter.filter_sql
    monkeypatch.setattr(
        plan, "filter_sql", lambda node, source, before, here: honest(node, source, before, before)
    )
    moved()  # the aggregate clamps too
    monkeypatch.setattr(
        "dither.data.lower.cells.aggregate_sql", lambda *_: "coalesce(sum(cost), 0)"
    )
    with pytest.raises(AssertionError):
        moved()


class TestWidths:
    TEXT = hospital.CATALOG.replace(
        "salary: {type: integer, bounds: [0, 300000]",
        f"salary: {{type: integer, bounds: [0, {2**63 - 1}]",
    )
    ROWS = hospital.raws([hospital.patient(f"p{i}", salary="9" * 25) for i in range(5)])
    QUERY = Cells(Scan("patients"), (), (Sum("salary"),))

    def test_sums_past_int64_are_exact(self, monkeypatch):
        with hospital.registered(self.ROWS, parse(self.TEXT)) as both:
            assert both.measurer.measure(self.QUERY).tolist() == [[5 * (2**63 - 1)]]
            for bug in (
                "CAST(sum(salary) AS BIGINT)",
                "CAST(sum(CAST(salary AS DOUBLE)) AS HUGEINT)",
            ):
                monkeypatch.setattr(
                    "dither.data.lower.cells.aggregate_sql", lambda *_, bug=bug: bug
                )
                with pytest.raises((AssertionError, MeasureError)):
                    measured(both, self.QUERY)

    def test_widths_come_from_the_catalog(self):
        facts = parse(self.TEXT)
        cube = a.Project(
            Scan("patients"),
            (Named("x", a.Call("power", (a.Column("salary"), a.Value("number", F(2))))),),
        )
        with pytest.raises(RefusedError, match="37 digits"):
            sensitivity(Cells(cube, (), (Sum("x"),)), facts)
