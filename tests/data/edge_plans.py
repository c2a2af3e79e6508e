"""Random plans over columns whose domains end where engine types end, for the engine, the oracle
and neighbours."""

from __future__ import annotations

from fractions import Fraction as F
from random import Random

from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Cells, Column, Named, Quantiles, Scan
from dither.plan.analyse import analyse, analyse_node
from dither.plan.analysed_query import Analyses
from dither.plan.domain import is_stored
from dither.plan.encodings import Binned, Intercept, OneHot, Scaled, resolve_feature
from dither.plan.of_catalog import key_domains, largest_value, points_of, sensitivity
from dither.plan.stability import Owned
from dither.plan.vector_functions import FeatureSums, SecondMoments, SquaredGradient
from tests.data.edge_expressions import Maker

KINDS = ["number", "number", "number", "boolean", "date", "timestamp", "category", "text"]


THETA = 40_000
CLIPS = (F(1), F(5, 2), F(40))
NUMBERS = ("number", "boolean", "date", "timestamp")


class Plans:
    """Random plans over a registered database."""

    def __init__(self, random: Random, catalog, facts, always: tuple[str, ...] = ()) -> None:
        """`always`: columns that projections keep."""
        self.random, self.catalog, self.facts, self.always = random, catalog, facts, always

    def known(self, plan):
        return analyse_node(plan, self.catalog, self.facts)

    def tried(self, plan, most: int = 400):
        """The analysed plan, or None if it is refused."""
        try:
            found = self.known(plan)
        except RefusedError:
            return None
        return found if getattr(found.node, "rows", 0) <= most else None

    def start(self, table: str | None = None):
        """A few columns of a table, perhaps filtered first."""
        plan = Scan(table or self.random.choice(["one", "one", "two"]))
        columns = self.known(plan).columns
        if self.random.random() < 0.3:
            new = a.Filter(plan, Maker(self.random, columns).condition())
            plan = new if self.tried(new) else plan
        return self.projected(plan)

    def projected(self, plan):
        columns = self.known(plan).columns
        maker = Maker(self.random, columns)
        some = [name for name in columns if columns[name].kind != "id"]
        kept = self.random.sample(some, min(len(some), self.random.randint(1, 4)))
        kept = list(dict.fromkeys([*(name for name in self.always if name in columns), *kept]))
        named = [Named(name, Column(name)) for name in kept]
        if not self.always and self.random.random() < 0.2:
            named = [
                Named(name, Column(other))
                for name, other in zip(kept, kept[1:] + kept[:1], strict=True)
            ]
        for place in range(self.random.randint(0, 2)):
            made = maker.make(self.random.choice(KINDS), self.random.randint(1, 3))
            new = Named(f"x{self.random.randint(0, 10**6)}{place}", made)
            if made is not None and self.tried(a.Project(plan, (new,))):
                named.append(new)
        return a.Project(plan, tuple(named))

    def like(self, columns, table: str):
        """Rows of another table under the same names."""
        source = Scan(table)
        if self.random.random() < 0.3:
            new = a.Filter(source, Maker(self.random, self.known(source).columns).condition())
            source = new if self.tried(new) else source
        theirs = self.known(source).columns
        named = []
        for name, domain in columns.items():
            alike = [
                other
                for other, d in theirs.items()
                if (d.kind, d.step, d.labels, d.offset)
                == (domain.kind, domain.step, domain.labels, domain.offset)
            ]
            if not alike:
                return None
            of = (
                Column(name)
                if name in alike and self.random.random() < 0.5
                else Column(self.random.choice(alike))
            )
            if domain.kind in ("number", "boolean", "date") and self.random.random() < 0.3:
                made = Maker(self.random, theirs).make(domain.kind, 2)
                found = self.tried(a.Project(source, (Named(name, made),))) if made else None
                if found and found.columns[name].step == domain.step:
                    of = made
            named.append(Named(name, of))
        return a.Project(source, tuple(named))

    def grown(self, plan):
        random, here = self.random, self.known(plan)
        columns = here.columns
        maker = Maker(random, columns)
        keys = [
            name for name, d in columns.items() if (is_stored(d) and d.step == 1) or d.undeclared
        ]
        key = tuple(random.sample(keys, min(len(keys), random.randint(0, 2))))
        usable = [
            name
            for name, d in columns.items()
            if d.kind in ("number", "boolean", "date", "timestamp")
        ]
        some = random.choice(usable or list(columns))
        fresh = f"q{random.randint(0, 10**6)}"
        each = [
            a.Count(),
            a.Minimum(some),
            a.Maximum(some),
            a.CountValues(random.choice(list(columns))),
        ]
        each += [a.CountDistinct(random.choice(list(columns)))]
        each += [a.Sum(some)] if columns[some].kind in ("number", "boolean") else []
        aggregates = tuple(
            Named(f"{fresh}{place}", one)
            for place, one in enumerate(random.sample(each, random.randint(1, 3)))
        )
        if random.random() < 0.4:  # a new column may have the name of an old one
            names = random.sample(
                [c for c in columns if c not in key], min(len(columns) - len(key), len(aggregates))
            )
            aggregates = (
                tuple(Named(name, each.of) for name, each in zip(names, aggregates, strict=False))
                or aggregates
            )
        match random.randint(0, 14):
            case 0 | 1 | 2:
                return a.Filter(plan, maker.condition())
            case 3 | 4:
                return self.projected(plan)
            case 5 | 6:
                table = random.choice(["one", "two", "pub"])
                other = Scan(table)
                if random.random() < 0.4:
                    new = a.Filter(other, Maker(random, self.known(other).columns).condition())
                    other = new if self.tried(new) else other
                theirs = self.known(other).columns
                taken = random.sample([c for c in theirs if theirs[c].kind != "id"], 3)
                pairs = [
                    (mine, c)
                    for mine, d in columns.items()
                    for c in theirs
                    if theirs[c].kind == d.kind
                    and theirs[c].step == d.step
                    and theirs[c].labels == d.labels
                    and d.kind != "id"
                ]
                on = random.sample(
                    pairs,
                    min(len(pairs), random.choice([1, 1, 2] if table == "pub" else [0, 1, 2])),
                )
                named = {f"r{fresh}{c}": c for c in [*taken, *(c for _, c in on)]}
                named = dict(list(named.items())[:6])
                right = a.Project(other, tuple(Named(new, Column(c)) for new, c in named.items()))
                joined = tuple((mine, f"r{fresh}{c}") for mine, c in on)
                return a.Join(plan, right, joined, random.choice(["inner", "left", "left"]))
            case 7 | 8:
                other = random.choice(
                    [
                        plan,
                        a.Filter(plan, maker.condition()),
                        *([self.like(columns, random.choice(["one", "two"]))] * 3),
                    ]
                )
                if other is None:
                    return None
                return a.UnionAll(*random.choice([(plan, other), (other, plan)]))
            case 9:
                return a.Distinct(plan, random.choice([True, True, False]))
            case 10 | 11:
                return a.PerUnit(plan, key, aggregates)
            case 12:
                return random.choice(
                    [
                        a.Group(plan, key, aggregates),
                        a.SampleUnits(plan, random.choice([F(1, 2), F(9, 10)])),
                    ]
                )
            case 13:
                per_unit = a.PerUnit(plan, key, aggregates)
                name = random.choice([named.name for named in aggregates])
                return a.LimitTotal(per_unit, key, name, F(random.choice([1, 2, 7])))
            case _:
                return a.LimitGroups(plan, key, random.randint(1, 2))

    def plan(self):
        plan = self.start()
        for _ in range(self.random.randint(0, 5)):
            new = self.grown(plan)
            if new is not None and self.tried(new):
                plan = new
        return plan

    def query(self, plan):
        found = analyse(plan, self.catalog, self.facts)
        columns, random = found.columns, self.random
        small = [
            name for name, d in columns.items() if is_stored(d) and d.listed[1] - d.listed[0] < 300
        ]
        small += [
            name for name, d in columns.items() if d.undeclared and isinstance(found.node, Owned)
        ]
        keys = tuple(random.sample(small, min(len(small), random.choice([0, 1, 1, 2]))))
        readable = [name for name, d in columns.items() if d.kind != "id"]
        choices = [a.Count()]
        if readable:
            choices += [
                a.CountValues(random.choice(readable)),
                a.CountDistinct(random.choice(readable)),
            ]
        choices += [a.Sum(name) for name, d in columns.items() if d.kind in ("number", "boolean")]
        if isinstance(found.node, Owned):
            choices.append(a.CountUnits())
        query = Cells(
            plan, keys, tuple(random.sample(choices, min(len(choices), random.randint(1, 3))))
        )
        try:
            sensitivity(query, self.catalog, self.facts)
            if (
                len(key_domains(query, self.catalog, self.facts))
                and _cells(query, self.catalog, self.facts) > 3000
            ):
                return None
            for one in query.columns:
                largest_value(one, query, self.catalog, self.facts)
        except RefusedError:
            return None
        return query

    def quantiles(self, plan):
        columns, random = analyse(plan, self.catalog, self.facts).columns, self.random
        some = [
            name
            for name, d in columns.items()
            if d.kind in ("number", "boolean", "date", "timestamp")
        ]
        if not some:
            return None
        small = [
            name
            for name, d in columns.items()
            if (is_stored(d) and d.listed[1] - d.listed[0] < 300) or d.undeclared
        ]
        keys = tuple(random.sample(small, min(len(small), random.choice([0, 1, 1, 2]))))
        query = Quantiles(plan, keys, random.choice(some), (F(1, 2),))
        try:
            points_of(query, self.catalog, self.facts)
            key_domains(query, self.catalog, self.facts)
        except RefusedError:
            return None
        return query


def _cells(query, catalog, facts) -> int:
    size = 1
    for domain in key_domains(query, catalog, facts):
        size *= domain.codes
    return size


def draw_vectors(maker: Plans, plan) -> a.UnitVectors | None:
    """A sum of vectors over random columns of a plan; None where none fits."""
    columns = maker.known(plan).columns
    numbers = [name for name, domain in columns.items() if domain.kind in NUMBERS]
    listed = [name for name, domain in columns.items() if is_stored(domain)]
    features = [Intercept()]
    features += [Scaled(name) for name in numbers if maker.random.random() < 0.6]
    features += [OneHot(name) for name in listed if maker.random.random() < 0.5]
    for name in maker.random.sample(numbers, min(1, len(numbers))):
        middle = (columns[name].low + columns[name].high) // 2 * columns[name].step
        features.append(Binned(name, (middle,)))
    try:
        width = sum(resolve_feature(feature, columns).width for feature in features)
    except RefusedError:
        return None
    theta = tuple(maker.random.randint(-THETA, THETA) for _ in range(width))
    function = FeatureSums()
    if numbers and maker.random.random() < 0.6:
        label = maker.random.choice(numbers)
        function = maker.random.choice([SquaredGradient(label, theta), SecondMoments(label)])
    clip = maker.random.choice(CLIPS)
    query = a.UnitVectors(plan, tuple(features), function, clip, F(1, 64))
    try:
        analysed = Analyses(maker.catalog, maker.facts).analyse_query(query)
        return query if analysed.released_rows <= 20_000 else None
    except RefusedError:
        return None
