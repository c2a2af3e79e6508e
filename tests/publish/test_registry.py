"""The register entry and the statement: filled from public facts, checked field by field, hazards
named."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from fractions import Fraction as F

import pytest
import yaml
from typer.testing import CliRunner

from dither import DitherError
from dither.catalog import parse
from dither.cli.main import app
from dither.privacy.charges.rules import charge_from_amounts
from dither.privacy.ledger import Incident, Rule
from dither.privacy.ledger.pots import opened
from dither.privacy.ledger.reports import Record
from dither.privacy.losses import DiscreteLaplace
from dither.publish.deployment import Deployment
from dither.publish.hazards import find_hazards
from dither.publish.registry import fill_entry
from dither.publish.registry_schema import PROMPT, find_problems, list_prompts, read_entry
from dither.publish.statement import write_statement
from tests.datasets import clinic

PERSON = {"unit": "person", "neighbours": "add_remove"}
CATALOG = parse(clinic.CATALOG)
POT = opened("total", 1, 2, **PERSON, **clinic.PURPOSE)
LOSS = DiscreteLaplace(10, 7, **PERSON)


def record(*columns: str) -> Record:
    request = {"steps": [{"query": {"keys": list(columns)}}]}
    return Record(3, "ab" * 32, ("total",), {"total": charge_from_amounts(F(7, 10), F(0))},
        LOSS.to_json(), "0" * 64,
                  {"version": 1, "request": request}, "2026-03-01T12:00:00+00:00")  # fmt: skip


def deployed(**changes) -> Deployment:
    facts = {"catalog": CATALOG, "context": "prod", "pots": (POT,),
        "releases": (record("ward", "cost"),),
             "incidents": ()}  # fmt: skip
    return Deployment(**(facts | changes))


def names(of: Deployment) -> set[str]:
    return {hazard.name for hazard in find_hazards(of)}


def test_what_the_ledger_knows_is_filled_and_the_rest_is_a_prompt():
    filled = fill_entry(deployed())
    loss = filled["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": "2", "delta": "0"}
    assert loss["privacy_unit"] == "person" and "3 rows of visits" in loss["privacy_unit_details"]
    assert filled["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert filled["deployment"]["basic"]["publication_date"] == "2026-03-01"
    assert "discrete_laplace" in filled["deployment"]["implementation"]["mechanisms"]
    assert (
        "tariff"
        in filled["deployment"]["implementation"]["preprocessing_and_hyperparameter_tuning"]
    )
    left = dict(list_prompts(filled))
    assert "deployment.implementation.justification" in left and len(left) < 10
    assert [line for line in find_problems(filled) if "PLEASE WRITE" not in line] == []


def complete(found):
    if isinstance(found, str):
        return "something true" if found.startswith(PROMPT) else found.replace(PROMPT, "")
    if isinstance(found, dict):
        return {key: complete(value) for key, value in found.items()}
    return [complete(value) for value in found] if isinstance(found, list) else found


def test_a_completed_entry_is_complete_also_after_yaml():
    done = complete(fill_entry(deployed()))
    assert find_problems(done) == []
    assert find_problems(yaml.safe_load(yaml.safe_dump(done))) == []


AMBIGUOUS = {
    "a field twice": "status: Draft\nstatus: Approved\n",
    "a field twice, spelled twice": "tier: 3\n'tier': 1\n",
    "a field twice inside": "deployment:\n  basic: {name: a, name: b}\n",
    "an alias": "status: &x Draft\nurl_slug: *x\n",
    "lists in lists": "status: " + "[" * 20_000,
    "mappings in mappings": "".join(" " * depth + "a:\n" for depth in range(300)),
    "a long number": "tier: " + "9" * 5000,
    "a long text": "status: " + "x" * 10**6,
    "no text": "\x00",
    "a list as a key": "? [a]\n: 1\n",
}


@pytest.mark.parametrize("text", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_an_entry_that_two_readers_could_read_differently_is_refused(text):
    with pytest.raises(DitherError, match="no register entry"):
        read_entry(text)


def test_an_entry_is_read_as_yaml_writes_it():
    done = complete(fill_entry(deployed()))
    assert read_entry(yaml.safe_dump(done)) == done


def test_what_is_wrong_with_an_entry_cannot_draw_on_the_terminal(tmp_path):
    (tmp_path / "registry.yaml").write_text('"\\e[2J\\u202e[red]": 1\n')
    shown = CliRunner().invoke(app, ["registry", "check", str(tmp_path / "registry.yaml")])
    assert shown.exit_code == 1 and r"\x1b[2J\u202e[red]: no such field" in shown.output
    assert not {"\x1b", "\u202e"} & set(shown.output)


def fields(tree, path=()):
    for key, value in tree.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from fields(value, (*path, key))


def test_every_missing_field_is_named_and_none_can_be_added():
    done = complete(fill_entry(deployed()))
    optional = {"epsilon", "delta", "rho", "notes", "sources", "data_product_sector"}
    for path in fields(done):
        broken = copy.deepcopy(done)
        at = broken
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]
        told = [line for line in find_problems(broken) if ".".join(path) in line]
        assert bool(told) != (path[-1] in optional), path
    done["deployment"]["basic"]["badge"] = "verified"
    assert find_problems(done) == ["deployment.basic.badge: no such field"]


@pytest.mark.parametrize(
    ("path", "value"),
    [("status", "Done"), ("tier", 4), ("deployment.basic.publication_date", "March"),
     ("deployment.basic.data_curators", []), ("deployment.dp_variant.variant_name", "k-anonymity"),
     ("deployment.privacy_loss.privacy_parameters.epsilon", "small"),
     ("deployment.accounting.composition", ""),
     ("tier", True), ("tier", "3"), ("deployment.privacy_loss.privacy_parameters.epsilon", "inf"),
     ("deployment.privacy_loss.privacy_parameters.epsilon", 10**400),
     ("deployment.privacy_loss.privacy_parameters.delta", float("nan"))],
)  # fmt: skip
def test_a_wrong_value_is_named(path, value):
    done = complete(fill_entry(deployed()))
    at = done
    *way, last = path.split(".")
    for key in way:
        at = at[key]
    at[last] = value
    assert len(find_problems(done)) == 1 and find_problems(done)[0].startswith(path)


@pytest.mark.parametrize(
    ("changes", "hazard"),
    [
        ({"pots": ()}, "no-budget"),
        ({"pots": (opened("total", 1, 4, **PERSON, **clinic.PURPOSE),)}, "large-epsilon"),
        ({"pots": (opened("total", 1, 1, **PERSON, **clinic.PURPOSE,
                          rule=Rule("approx", delta=F(1, 10**6), delta_per_question=F(1, 10**8))),
                          )},
         "catastrophic-delta"),
        ({"pots": (opened("total", 1, 1, **PERSON, **clinic.PURPOSE,
                          rule=Rule("zcdp", delta_conversion=F(1, 10**4))),)}, "large-delta"),
        ({"pots": (opened("total", 1, 1, **PERSON, **clinic.PURPOSE,
                          rule=Rule("zcdp", delta_conversion=F(1, 10**3))),)}, "delta-and-size"),
        ({"incidents": (Incident(9, 8, "failed_after_reserve"),)}, "incidents"),
        ({"context": "dev"}, "dev"),
        ({"population_notes": ("dataset other (same people): epsilon 1",)}, "same-people"),
        ({"catalog": parse(clinic.CATALOG.replace("provenance: tariff",
        "provenance: maximum " "of the data"))},
         "bounds-from-data"),
        ({"catalog": parse(clinic.CATALOG.replace("rows_per_unit: 3", "rows_per_unit: 30"))},
        "contribution-bound"),
        ({"catalog": parse(clinic.CATALOG.replace("unit: {kind: person}",
        "unit: {kind: row}").replace(
            "    owner: {column: " "patient}\n", "").replace("rows_per_unit: 3",
            "rows_per_unit: 1").replace(
            "protected: true", "protected: false, because: rows are the unit"))}, "event-level"),
        ({"catalog": parse(clinic.CATALOG.replace(
            "day:     {type: date, bounds: [2024-01-01, 2024-12-31], nulls: keep, provenance: the "
            "extract}",
            "day: {type: text, width: 9, nulls: keep}"))}, "unstructured"),
    ],
)  # fmt: skip
def test_each_hazard_is_found_where_it_is_and_not_where_it_is_not(changes, hazard):
    assert hazard in names(deployed(**changes))
    assert hazard not in names(deployed())


def test_unused_columns_are_named():
    (told,) = [h for h in find_hazards(deployed()) if h.name == "over-collection"]
    assert "visits.score" in told.message and "visits.cost" not in told.message


def test_the_statement_has_every_point_and_claims_nothing():
    text = write_statement(deployed())
    for point in "abcdefghijk":
        assert f"## {point}. " in text
    assert "## Hazards to look at" in text
    assert not re.search(r"anonym|complian|no risk|safe\b", text, re.IGNORECASE)
    for line in text.splitlines():
        if re.search(r"\bepsilon [0-9]", line):
            assert "delta" in line


def test_nothing_opened_and_nothing_released_still_makes_an_entry():
    bare = deployed(pots=(), releases=())
    assert [line for line in find_problems(fill_entry(bare)) if "PLEASE WRITE" not in line] == []
    assert "no budget" in write_statement(bare)


def test_separate_groups_say_what_is_assumed():
    apart = replace(POT, policy="separate")
    assert "assumed not to share" in str(fill_entry(deployed(pots=(apart,))))
