"""Questions made by a grammar: sources, conditions, keys and aggregates drawn at random, valid in
DuckDB and here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Source:
    """A FROM clause and what it offers, by kind."""

    sql: str
    numbers: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)
    wards: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sexes: list[str] = field(default_factory=list)
    owner: str = ""


VISITS = Source(
    "visits v",
    ["v.cost", "v.score"],
    ["v.date"],
    ["v.urgent"],
    ["v.ward"],
    ["v.note", "v.diagnosis"],
    [],
    "v.patient_id",
)


class Maker:
    """Draws questions; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def one(self, *options: str) -> str:
        return self.draw.choice(options)

    # -- rows
    # ----------------------------------------------------------------------------------------------

    def source(self) -> Source:
        pick = self.draw.randrange(13)
        if pick <= 2:
            return VISITS
        if pick == 3:
            return Source(
                "patients p", ["p.age"], ["p.born"], [], [], [], ["p.sex"], "p.patient_id"
            )
        if pick == 4:
            join = self.one("JOIN", "LEFT JOIN")
            joined = Source(
                f"visits v {join} patients p ON v.patient_id = p.patient_id", **_kinds(VISITS)
            )
            return self._more(joined, ["p.age"], ["p.born"], ["p.sex"])
        if pick == 5:
            extra = self.one("", f" AND {self.condition(VISITS, 1)}")
            sql = f"patients p LEFT JOIN visits v ON p.patient_id = v.patient_id{extra}"
            joined = Source(sql, **{**_kinds(VISITS), "owner": "p.patient_id"})
            return self._more(joined, ["p.age"], ["p.born"], ["p.sex"])
        if pick == 6:
            sql = f"visits v {self.one('JOIN', 'LEFT JOIN')} counties c ON v.county = c.county"
            return self._more(Source(sql, **_kinds(VISITS)), ["c.beds"], [], [])
        if pick == 7:
            sql = (
                f"visits v {self.one('JOIN', 'LEFT JOIN')} prescriptions r ON v.visit_id "
                "= r.visit_id"
            )
            return self._more(Source(sql, **_kinds(VISITS)), ["r.dose"], [], [])
        if pick == 8:
            return self._per_person()
        if pick == 9:
            rows = [
                f"SELECT patient_id, cost, urgent, ward, date FROM visits v WHERE "
                f"{self.condition(VISITS, 1)}"
            ] * 1
            rows.append(
                f"SELECT patient_id, cost, urgent, ward, date FROM visits v WHERE "
                f"{self.condition(VISITS, 1)}"
            )
            union = self.one(" UNION ALL ", " UNION ALL ", " UNION ").join(rows)
            return Source(
                f"({union}) t",
                ["t.cost"],
                ["t.date"],
                ["t.urgent"],
                ["t.ward"],
                [],
                [],
                "t.patient_id",
            )
        if pick >= 11:
            return self._mixed()
        number = self.number(VISITS, 2)
        sql = (
            f"(SELECT patient_id, {number} AS x, ward AS w, urgent FROM visits v WHERE "
            f"{self.condition(VISITS, 1)}) t"
        )
        return Source(sql, ["t.x"], [], ["t.urgent"], ["t.w"], [], [], "t.patient_id")

    def _mixed(self) -> Source:
        """A union of columns that differ in bounds, resolution, labels and kind."""
        where = f"WHERE {self.condition(VISITS, 1)}"
        drugs = "visits v JOIN prescriptions r ON v.visit_id = r.visit_id"
        sides = [
            f"SELECT v.patient_id, v.cost AS x, v.ward AS k FROM visits v {where}",
            f"SELECT v.patient_id, v.score AS x, 'visit' AS k FROM visits v {where}",
            "SELECT v.patient_id, v.cost / 3 AS x, CASE WHEN v.urgent THEN 'north' ELSE 'soon' END "
            "AS k FROM visits v",
            "SELECT p.patient_id, p.age AS x, p.sex AS k FROM patients p",
            f"SELECT v.patient_id, r.dose AS x, r.drug AS k FROM {drugs} {where}",
        ]
        chosen = self.draw.sample(sides, self.draw.choice([2, 2, 3]))
        union = self.one(" UNION ALL ", " UNION ALL ", " UNION ").join(chosen)
        return Source(f"({union}) t", ["t.x"], [], [], ["t.k"], [], [], "t.patient_id")

    def _per_person(self) -> Source:
        more = self.one("", ", ward")
        number = self.number(VISITS, 1)
        total = self.one("SUM", "AVG", "MAX", "MIN")
        where = self.one("", f" WHERE {self.condition(VISITS, 1)}")
        having = self.one(
            "",
            "",
            f" HAVING COUNT(*) > {self.draw.randrange(3)}",
            f" HAVING SUM(score) > {self.draw.randrange(-3, 3)}",
        )
        inner = (
            f"SELECT patient_id{more}, COUNT(*) AS n, {total}({number}) AS x, COUNT_IF(urgent) AS "
            f"u, MAX(date) AS last "
            f"FROM visits v{where} GROUP BY patient_id{more}{having}"
        )
        wards = ["t.ward"] if more else []
        if self.draw.random() < 0.4:
            join = self.one("JOIN", "LEFT JOIN")
            sql = f"patients p {join} ({inner}) t ON p.patient_id = t.patient_id"
            return Source(
                sql,
                ["t.n", "t.x", "t.u", "p.age"],
                ["t.last"],
                [],
                wards,
                [],
                ["p.sex"],
                "p.patient_id",
            )
        return Source(
            f"({inner}) t", ["t.n", "t.x", "t.u"], ["t.last"], [], wards, [], [], "t.patient_id"
        )

    @staticmethod
    def _more(source: Source, numbers: list[str], dates: list[str], sexes: list[str]) -> Source:
        return Source(
            source.sql, source.numbers + numbers, source.dates + dates, source.truths, source.wards,
            source.texts,
            source.sexes + sexes, source.owner,
        )  # fmt: skip

    # -- expressions
    # --------------------------------------------------------------------------------------------

    def number(self, of: Source, depth: int) -> str:
        column = self.draw.choice(of.numbers)
        if depth <= 0:
            return column
        inner, n = self.number(of, depth - 1), self.draw.randrange(1, 7)
        options = [
            column,
            f"({inner} + {n})",
            f"({inner} * {self.draw.randrange(-2, 3)})",
            f"({inner} - {self.number(of, depth - 1)})",
            f"ABS({inner})",
            f"COALESCE({inner}, {n})",
            f"LEAST({inner}, {100 * n})",
            f"GREATEST({inner}, {n})",
            f"CASE WHEN {self.condition(of, depth - 1)} THEN {inner} END",
            f"CASE WHEN {self.condition(of, depth - 1)} THEN {inner} ELSE {n} END",
            f"NULLIF({inner}, {n})",
            f"FLOOR({inner})",
        ]
        if of.dates:
            day = self.draw.choice(of.dates)
            options += [
                f"year({day})",
                f"date_diff('day', DATE '2024-01-01', {day})",
                f"month({day})",
            ]
        return self.draw.choice(options)

    def condition(self, of: Source, depth: int) -> str:
        options = []
        if of.numbers:
            left = self.number(of, max(0, depth - 1))
            n = self.draw.choice([-1, 0, 1, 2, 100, 300, 500])
            options += [
                f"{left} {self.one('<', '<=', '>', '>=', '=', '<>')} {n}",
                f"{left} IS NULL",
                f"{left} IS NOT NULL",
            ]
            options += [
                f"{left} BETWEEN {n} AND {n + 100}",
                f"{left} {self.one('IN', 'NOT IN')} (0, 1, 2, {n})",
            ]
        if of.dates:
            day = self.draw.choice(of.dates)
            options += [
                f"{day} >= DATE '2025-06-01'",
                f"{day} + INTERVAL 3 MONTH < DATE '2026-01-01'",
                f"isodow({day}) <= 5",
            ]
        options += of.truths
        for ward in of.wards:
            options += [
                f"{ward} = 'north'",
                f"{ward} <> 'other'",
                f"{ward} IN ('north', 'south')",
                f"{ward} IS NULL",
                f"{ward} NOT LIKE 'n%'",
            ]
        for text in of.texts:
            options += [f"{text} LIKE '%x%'", f"LENGTH({text}) > 2", f"{text} = 'flu'"]
        options += [f"{sex} = 'f'" for sex in of.sexes]
        if depth > 0:
            parts = [self.condition(of, depth - 1) for _ in range(2)]
            options += [
                f"({parts[0]} AND {parts[1]})",
                f"({parts[0]} OR {parts[1]})",
                f"NOT ({parts[0]})",
            ]
            options += [f"({parts[0]}) IS {self.one('', 'NOT ')}{self.one('TRUE', 'FALSE')}"]
        return self.draw.choice(options)

    def among(self, of: Source) -> str:
        """IN and EXISTS within the owner, or over a public table."""
        inner = Source(
            "visits w",
            ["w.cost", "w.score"],
            ["w.date"],
            ["w.urgent"],
            ["w.ward"],
            ["w.note"],
            [],
            "w.patient_id",
        )
        sure, negated = self.condition(inner, 1), self.one("", "NOT ")
        options = [
            f"{of.owner} {negated}IN (SELECT w.patient_id FROM visits w WHERE {sure})",
            f"{negated}EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = {of.owner} AND {sure})",
            f"{of.owner} IN (SELECT patient_id FROM visits w GROUP BY patient_id HAVING COUNT(*) > "
            f"{self.draw.randrange(4)})",
        ]
        if of.wards and of.wards[0] == "v.ward":
            options += [
                f"{negated}EXISTS (SELECT 1 FROM counties k WHERE k.county = v.county AND k.beds > "
                f"5)",
                f"{negated}EXISTS (SELECT 1 FROM stations s WHERE s.county = v.county)",
                f"v.county IN (SELECT s.county FROM stations s WHERE s.level > "
                f"{self.draw.randrange(3)})",
                "v.score IN (SELECT level FROM stations)",
                f"v.doctor_id IS {negated}NULL",
                f"{negated}EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND "
                f"w.ward = v.ward AND w.urgent)",
            ]
        return self.draw.choice(options)

    def key(self, of: Source) -> str:
        options = [*of.truths, *of.wards, *of.sexes]
        options.append(
            f"CASE WHEN {self.condition(of, 1)} THEN 'yes' WHEN {self.condition(of, 0)} THEN 'no' "
            f"ELSE 'maybe' END"
        )
        options.append(f"({self.condition(of, 1)})")
        for day in of.dates:
            if "born" not in day:
                options += [
                    f"year({day})",
                    f"date_trunc('{self.one('month', 'quarter', 'year')}', {day})",
                    f"month({day})",
                ]
        return self.draw.choice(options)

    def aggregate(self, of: Source) -> str:
        number = self.number(of, 2)
        plain = self.draw.choice(
            [
                "COUNT(*)",
                f"COUNT({number})",
                f"SUM({number})",
                f"AVG({number})",
                f"VAR_POP({self.draw.choice(of.numbers)})",
                f"COUNT(DISTINCT {of.owner})",
                "COUNT(v.doctor_id)" if of.wards and of.wards[0] == "v.ward" else "COUNT(*)",
                f"COUNT_IF({self.condition(of, 1)})",
                f"COVAR_POP({self.draw.choice(of.numbers)}, {number})",
            ]
        )
        plain = (
            f"{plain} FILTER (WHERE {self.condition(of, 1)})"
            if self.draw.random() < 0.25
            else plain
        )
        return self.one(
            plain,
            plain,
            plain,
            f"ROUND({plain} + 0.0123, 1)",
            f"{plain} / NULLIF(COUNT(*), 0)",
            f"COALESCE({plain}, 0) + 1",
        )

    def question(self) -> str:
        of = self.source()
        keys = list(dict.fromkeys(self.key(of) for _ in range(self.draw.choice([0, 1, 1, 2]))))
        shown = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        shown += [
            f"{self.aggregate(of)} AS a{place}" for place in range(self.draw.choice([1, 2, 3]))
        ]
        where = [self.condition(of, 2) for _ in range(self.draw.choice([0, 1, 1, 2]))]
        if self.draw.random() < 0.3:
            where.append(self.among(of))
        sql = f"SELECT {', '.join(shown)} FROM {of.sql}"
        sql += f" WHERE {' AND '.join(where)}" if where else ""
        if keys:
            names = ", ".join(f"k{place}" for place in range(len(keys)))
            sql += " GROUP BY " + self.one(
                names,
                names,
                f"ROLLUP ({names})",
                f"CUBE ({names})",
                f"ROLLUP ({names}, k0)",
                f"k0, CUBE ({names})",
            )
            sql += self.one("", "", " HAVING COUNT(*) > 2")
        return sql


def _kinds(source: Source) -> dict:
    return {
        "numbers": list(source.numbers), "dates": list(source.dates), "truths": list(source.truths),
        "wards": list(source.wards), "texts": list(source.texts), "sexes": list(source.sexes),
        "owner": source.owner,
    }  # fmt: skip
