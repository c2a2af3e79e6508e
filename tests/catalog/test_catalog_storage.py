"""The stored form means exactly what the YAML means, and nothing is lost on the way."""

import json
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from hypothesis import strategies as st

from dither import canonical
from dither.catalog import (
    Boolean,
    Catalog,
    Category,
    Date,
    Decimal,
    Id,
    Integer,
    Nulls,
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Table,
    Text,
    Timestamp,
    Undeclared,
    Unit,
    catalog_hash,
    from_json,
    load,
    parse,
    to_json,
)
from dither.errors import CatalogError
from tests.case_lists import mark_rest, run_examples
from tests.datasets.broken_clinic import CLINIC, change

CLINIC_OF_THE_SPEC = load(Path(__file__).parent / "clinic.yaml")
LARGE = 2**63 - 1

characters = st.characters(categories=("L", "N", "P", "S", "Zs"))
texts = st.text(characters, min_size=1, max_size=8).filter(
    lambda text: text.strip() not in ("", "???", "other")
)
sentences = texts.map(lambda text: " ".join(text.split()))
labels = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: minutes * 60)
counts = st.integers(1, LARGE)


@st.composite
def grids(draw, low=-LARGE, high=LARGE):
    """Bounds on the grid, and a null rule inside them."""
    lower, upper = sorted(draw(st.tuples(st.integers(low, high), st.integers(low, high))))
    nulls = draw(st.sampled_from([Nulls("keep"), Nulls("drop"), None]))
    return lower, upper, nulls or Nulls("value", draw(st.integers(lower, upper)))


@st.composite
def columns(draw, name):
    kind = draw(
        st.sampled_from(
            ["integer", "decimal", "boolean", "category", "undeclared", "date", "timestamp", "text"]
        )
    )
    if kind == "integer":
        lower, upper, nulls = draw(grids())
        return Integer(name, nulls, lower, upper, draw(sentences))
    if kind == "decimal":
        step = draw(
            st.one_of(st.integers(0, 18).map(lambda d: Fraction(1, 10**d)), counts.map(Fraction))
        )
        lower, upper, nulls = draw(grids())
        return Decimal(name, nulls, lower * step, upper * step, step, draw(sentences))
    if kind == "date":
        lower, upper, nulls = draw(grids(-719_162, 2_932_896))
        return Date(name, nulls, lower, upper, draw(sentences))
    if kind == "timestamp":
        offset = draw(offsets)
        lower, upper, nulls = draw(
            grids(-719_162 * 86_400 - offset, 2_932_897 * 86_400 - 1 - offset)
        )
        return Timestamp(name, nulls, lower, upper, draw(sentences), offset)
    plain = draw(st.sampled_from([Nulls("keep"), Nulls("drop")]))
    if kind == "boolean":
        return Boolean(name, draw(st.sampled_from([plain, Nulls("value", 0), Nulls("value", 1)])))
    if kind == "text":
        return Text(
            name,
            draw(st.sampled_from([plain, Nulls("value", draw(texts))])),
            draw(st.integers(8, LARGE)),
        )
    if kind == "undeclared":
        return Category(name, plain, Undeclared(draw(counts)), None)
    values = tuple(draw(st.lists(texts, min_size=1, max_size=4, unique=True)))
    nulls = draw(st.sampled_from([plain, Nulls("value", values[-1])]))
    return Category(name, nulls, values, draw(st.sampled_from(["keep", "drop"])))


@st.composite
def tables(draw, name, owner, kind, extra=()):
    own = tuple(draw(columns(f"c{i}")) for i in range(draw(st.integers(1, 3))))
    key = (Id("person"),) if owner else ()
    limits = (
        sorted(draw(st.tuples(counts, counts)))
        if owner
        else ([1, draw(counts)] if kind == "private" else [None] * 2)
    )
    unique = ((("person",),) if owner else ()) + draw(st.sampled_from([(), (("c0",),)]))
    return Table(
        name, kind, draw(texts), owner, unique, limits[0], limits[1], key + tuple(extra) + own
    )


@st.composite
def catalogs(draw):
    kind = draw(st.sampled_from(["person", "row", "person_window"]))
    unit, extra = Unit(kind), ()
    if kind == "person_window":
        unit = Unit(
            kind, "day", draw(st.sampled_from(["day", "week", "month", "year"])), draw(offsets)
        )
        extra = (Date("day", Nulls("drop"), 0, 9, "x"),)
    owners = (
        [None, None]
        if kind == "row"
        else [OwnerColumn("person"), OwnerReference("first", (("person", "person"),))]
    )
    found = [
        draw(tables("first", owners[0], "private", extra)),
        draw(tables("second", owners[1], "private", extra)),
    ]
    found.append(draw(tables("third", None, "public")))
    people = [] if kind == "row" else [Person("person", True)]
    people += [Person("c0", False, draw(sentences))]
    return Catalog(
        draw(labels),
        draw(labels),
        draw(labels),
        draw(st.sampled_from(["add_remove", "replace"])),
        unit,
        tuple(draw(st.permutations(people))),
        Source(draw(st.sampled_from(["csv", "parquet", "duckdb"])), draw(texts)),
        tuple(found),
    )


def as_yaml(tree):
    """The stored tree in the shape a person writes; JSON text is YAML."""
    if isinstance(tree, list):
        return [as_yaml(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    shaped = {}
    for key, value in tree.items():
        if key in ("people", "tables", "columns"):
            value = {item["name"]: {k: v for k, v in item.items() if k != "name"} for item in value}
        shaped[key] = as_yaml(value)
    return shaped


@pytest.mark.parametrize("examples", mark_rest([15, 40], quick=1))
def test_round_trips_are_exact(examples):
    run_examples(check_round_trip, examples, {"catalog": catalogs()})


def check_round_trip(catalog):
    stored = canonical.dumps(to_json(catalog))
    again = from_json(json.loads(stored))
    assert again == catalog
    assert canonical.dumps(to_json(again)) == stored
    written = {"dither": 1} | {
        key: value for key, value in to_json(catalog).items() if key not in ("type", "v")
    }
    assert parse(json.dumps(as_yaml(written), ensure_ascii=False)) == catalog


def test_the_example_of_the_spec():
    assert from_json(json.loads(canonical.dumps(to_json(CLINIC_OF_THE_SPEC)))) == CLINIC_OF_THE_SPEC


def test_numbers_are_integers_or_fractions_and_paths_are_as_written():
    tree = to_json(CLINIC_OF_THE_SPEC)
    assert tree["source"] == {"engine": "csv", "location": "data"}
    visits = {column["name"]: column for column in tree["tables"][1]["columns"]}
    assert visits["cost"] == {
        "name": "cost",
        "type": "decimal",
        "bounds": ["0/1", "5000/1"],
        "resolution": "1/100",
        "nulls": "keep",
        "provenance": "tariff 2026",
    }
    assert visits["date"]["bounds"] == ["2024-01-01", "2026-12-31"]
    assert visits["urgent"]["nulls"] == {"value": False}


class TestHash:
    """One hash for one meaning: `connect` refuses a YAML whose hash is not the registered one."""

    def test_is_pinned(self):
        """A change here changes every registered catalog: it needs a new VERSION, never a new
        expectation."""
        assert (
            catalog_hash(CLINIC_OF_THE_SPEC)
            == "2a7acc1f3047045df1528689ed3111344fbb9cef4ab2269ce15ee2cde561cc61"
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("resolution: 0.01", "resolution: 1e-2"),
            ("max_rows: 2000000", "max_rows: 2e6 # two million"),
            ("[f, m, x]", '["f", "m", "x"]'),
            ("dither: 1\n", "# a comment\n\ndither: 1\n"),
            ("other: drop, nulls: keep", "nulls: keep, other: drop"),
        ],
    )
    def test_ignores_how_it_is_written(self, old, new):
        assert catalog_hash(parse(change(old, new))) == catalog_hash(parse(CLINIC))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("rows_per_unit: 20", "rows_per_unit: 2"),
            ("[f, m, x]", "[m, f, x]"),
            ("provenance: tariff", "provenance: tariff 2027"),
            ("location: data", "location: ./data"),
        ],
    )
    def test_sees_what_it_means(self, old, new):
        assert catalog_hash(parse(change(old, new))) != catalog_hash(parse(CLINIC))

    def test_sees_the_order_of_columns(self):
        first = CLINIC_OF_THE_SPEC.tables[0]
        turned = replace(first, columns=first.columns[::-1])
        assert catalog_hash(
            replace(CLINIC_OF_THE_SPEC, tables=(turned, *CLINIC_OF_THE_SPEC.tables[1:]))
        ) != catalog_hash(CLINIC_OF_THE_SPEC)


class TestStoredCatalogsObeyTheRules:
    def test_another_version(self):
        with pytest.raises(CatalogError, match="not a stored catalog of version 1"):
            from_json(to_json(CLINIC_OF_THE_SPEC) | {"v": 2})

    def test_floats(self):
        with pytest.raises(CatalogError, match="a stored catalog holds no float"):
            from_json(to_json(CLINIC_OF_THE_SPEC) | {"dataset": 0.5})

    def test_rules(self):
        tree = to_json(CLINIC_OF_THE_SPEC)
        tree["people"][0]["protected"] = False
        with pytest.raises(CatalogError, match="people: patient_id: because is missing"):
            from_json(tree)

    def test_names_twice(self):
        tree = to_json(CLINIC_OF_THE_SPEC)
        tree["tables"].append(tree["tables"][0])
        with pytest.raises(CatalogError, match="the key 'patients' was given before"):
            from_json(tree)


def paths_of(tree, path=()):
    """Every node of a JSON tree but its root, as the keys that lead to it."""
    inner = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, node in inner:
        yield (*path, key)
        yield from paths_of(node, (*path, key))


def changed_copies(tree, path):
    """The tree with another value at the path, without it, and with something beside it."""
    for value in (
        None,
        True,
        1,
        0.5,
        -(2**70),
        "",
        "x",
        "keep",
        [],
        [[]],
        ["x", 1],
        {},
        {"value": []},
        {"x": "x"},
    ):
        copy = json.loads(json.dumps(tree))
        parent = reduce(getitem, path[:-1], copy)
        parent[path[-1]] = value
        yield copy
    copy = json.loads(json.dumps(tree))
    parent = reduce(getitem, path[:-1], copy)
    del parent[path[-1]]
    yield copy
    parent = reduce(getitem, path[:-1], copy := json.loads(json.dumps(tree)))
    parent.append("x") if isinstance(parent, list) else parent.update(x=1)
    yield copy


EVERY_TYPE = """dither: 1
dataset: types
lineage: types
population: people
neighbours: replace
unit: {kind: person_window, column: day, every: month, zone: "+01:00"}
people: {owner: {protected: true}, doctor: {protected: false, because: their names are public}}
source: {engine: csv, location: data}
tables:
  wards:
    kind: public
    from: wards.csv
    unique: [[ward]]
    columns: {ward: {type: text, width: 9, nulls: {value: none}}}
  visits:
    kind: private
    from: visits.csv
    owner: {column: owner}
    unique: [[visit]]
    rows_per_unit: 3
    max_rows: 100
    columns:
      owner: {type: id}
      visit: {type: id}
      doctor: {type: id}
      day: {type: date, bounds: [2024-01-01, 2024-12-31], nulls: drop, provenance: law}
      time: {type: timestamp, bounds: ["2024-01-01T00:00:00", "2024-12-31T00:00:00"], zone: UTC,
          nulls: keep,
             provenance: law}
      cost: {type: decimal, bounds: [-1.5, 20], resolution: 0.1, nulls: {value: 0.5},
          provenance: law}
      urgent: {type: boolean, nulls: {value: true}}
      sex: {type: category, values: [f, m], other: keep, nulls: {value: f}}
      ward: {type: category, values: {from: wards.ward}, other: drop, nulls: keep}
      drug: {type: category, values: undeclared, width: 4, nulls: keep}
  tests:
    kind: private
    from: tests.csv
    owner: {references: visits, by: {for: visit}}
    unique: []
    rows_per_unit: 3
    max_rows: 100
    columns:
      for: {type: id}
      day: {type: date, bounds: [2024-01-01, 2024-12-31], nulls: drop, provenance: law}
"""


@pytest.mark.parametrize(
    ("text", "step"),
    mark_rest([(EVERY_TYPE, 4), (EVERY_TYPE, 1), (CLINIC, 1)], quick=1),
    ids=["every_type_by_four", "every_type", "clinic"],
)
def test_a_changed_stored_catalog_is_refused_or_is_one_that_would_be_written_so(text, step):
    """Never another exception, and never a catalog that means something else than its bytes."""
    tree = json.loads(canonical.dumps(to_json(parse(text))))
    assert to_json(from_json(tree)) == tree
    refused = 0
    for path in list(paths_of(tree))[::step]:
        for changed in changed_copies(tree, path):
            try:
                catalog = from_json(changed)
            except CatalogError:
                refused += 1
            else:
                assert canonical.dumps(to_json(catalog)) == canonical.dumps(changed)
    assert refused > 1000 / step
