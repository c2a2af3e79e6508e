"""Synthetic tables of a registered dataset: one command, and a certificate that can be checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.csv
import pytest
from typer.testing import CliRunner

import dither
from dither import steward
from dither.cli.main import app
from dither.errors import ParameterError
from dither.privacy.charges.rules import Rule, charge_from_amounts
from dither.publish import seal
from dither.publish.budget import AS_IF
from dither.publish.lease_certificate import _state_guarantee
from dither.publish.signing import ensure_signing_key
from dither.state import State
from dither.synth import load_linked, load_synthetic
from dither.synth.asking import SynthAsker, write_remarks
from dither.synth.constraints import Constraint
from dither.synth.edges import BoughtEdges
from dither.synth.synthetic import Synthetic
from dither.synth.warm_start import PublicTable, is_as_signed
from tests.datasets.clinic import open_total
from tests.datasets.served_clinic import own_state_home
from tests.synth.survey import CATALOG, invent_people, invent_trips

ZCDP = Rule("zcdp", delta_conversion=Fraction(1, 10**6))


@pytest.fixture
def survey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The catalog of a registered survey with a rule, and a budget."""
    folder = tmp_path_factory.mktemp("signed")
    people = invent_people(300)
    pyarrow.csv.write_csv(people, folder / "people.csv")
    pyarrow.csv.write_csv(invent_trips(people), folder / "trips.csv")
    file = folder / "survey.yaml"
    rule = "    rules: [{rule: ended >= begun, provenance: the form}]\n"
    text = CATALOG.format(neighbours="add_remove")
    file.write_text(text.replace("    max_rows: 100000\n", f"    max_rows: 100000\n{rule}", 1))
    with own_state_home(folder):
        steward.register(file)
        open_total(State.beside(file), "1000", "1000")
        yield file


def read_signed(certificate: dict[str, Any]) -> dict[str, Any]:
    verdict = seal.check(seal.write_certificate(certificate))
    assert verdict.intact and verdict.body is not None, verdict.problems
    return verdict.body


def test_the_certificate_of_the_demo_clinic_verifies_and_commits_to_the_model(
    survey: Path, tmp_path: Path
) -> None:
    con = dither.connect(survey)
    made = con.synthesize("people", epsilon=2, columns=["age", "work", "begun", "ended"])
    body = read_signed(made.certificate(tmp_path / "certificate.json"))
    assert body["values"]["commitment"] == made.commitment
    assert made.commitment.startswith(f"version 2, model {made.key.hex()}, contents ")
    assert body["price"]["charges"]["total"][0] == body["guarantee"]["native"]["epsilon"]
    assert float(body["guarantee"]["epsilon"]) <= 2
    assert len(body["post_processing"]) == len(made.released)
    assert any("ended >= begun" in fact for fact in body["unprotected"])
    assert body["release"]["id"] in [release.release_id for release in con.history().releases]
    changed = json.loads((tmp_path / "certificate.json").read_text())
    changed["body"]["values"]["commitment"] = "model 0"
    assert not seal.check(json.dumps(changed)).intact
    made.save(tmp_path / "model.json")
    assert load_synthetic(tmp_path / "model.json").certificate() == made.certificate()


def test_a_table_from_an_earlier_one_is_certified_for_the_loss_of_both(survey: Path) -> None:
    """Planted: the charge of the last lease alone, as if the earlier numbers were nobody's."""
    con = dither.connect(survey)
    ask: dict[str, Any] = {"columns": ["age", "work", "town"], "method": "aim"}
    first = con.synthesize("people", epsilon=2, **ask)
    second = con.synthesize("people", epsilon=1, start_from=first, **ask)
    third = con.synthesize("people", epsilon=1, start_from=second, **ask)
    body = read_signed(third.certificate())
    charges = [
        float(read_signed(made.certificate())["price"]["charges"]["total"][0])
        for made in (first, second, third)
    ]
    assert float(body["guarantee"]["epsilon"]) == pytest.approx(sum(charges)) and sum(charges) > 3.9
    names = [made.facts["release"] for made in (second, first)]
    assert all(name in body["guarantee"]["stated"] for name in names)
    assert [step["loss"] for step in body["mechanisms"]] == body["price"]["loss"]["losses"]
    invented = replace(first, facts=first.facts | {"release": "0" * 16})
    made = con.synthesize("people", epsilon=1, start_from=invented, **ask)
    assert made.signed is None


def test_nothing_is_signed_that_starts_from_a_doctored_table(survey: Path, tmp_path: Path) -> None:
    """Planted: numbers of a dear release under the name of a cheap one, which would halve the
    stated loss; as an object, and as a file with the certificate of the cheap one."""
    con = dither.connect(survey)
    ask: dict[str, Any] = {"columns": ["age", "town"], "method": "aim"}
    dear = con.synthesize("people", epsilon=5, **ask)
    cheap = con.synthesize("people", epsilon=1, **ask)
    dear.save(tmp_path / "model.json")
    loaded = load_synthetic(tmp_path / "model.json")
    assert con.synthesize("people", epsilon=1, start_from=loaded, **ask).signed is not None
    renamed = replace(dear, facts=cheap.facts)
    with_seal = replace(dear, facts=cheap.facts, signed=cheap.signed)
    with_numbers = replace(
        cheap,
        fitted=replace(
            cheap.fitted,
            measurements=tuple(replace(m, counts=m.counts + 1) for m in cheap.fitted.measurements),
        ),
    )
    for doctored in (renamed, with_seal, with_numbers):
        made = con.synthesize("people", epsilon=1, start_from=doctored, **ask)
        assert made.signed is None and "steps" in made.certificate()


def list_doctored(made: Synthetic) -> dict[str, Synthetic]:
    """The table with one thing changed that its certificate must commit to."""
    fitted = made.fitted
    model = fitted.model
    measurement = fitted.measurements[0]
    turned = {clique: table[..., None] for clique, table in model.potentials.items()}
    changes: dict[str, dict[str, Any]] = {
        "the number of rows": {"model": replace(model, total=123456.0)},
        "shapes of potentials": {"model": replace(model, potentials=turned)},
        "bounds": {"gaps": {(0, 1): 0.0}},
        "single counts": {"single_counts": fitted.single_counts[1:]},
        "which counts are single": {
            "measurements": fitted.measurements[:-1],
            "single_counts": (fitted.measurements[-1], *fitted.single_counts),
        },
        "noise": {
            "measurements": (
                replace(measurement, variance=measurement.variance / 4),
                *fitted.measurements[1:],
            )
        },
    }
    doctored = {
        name: replace(made, fitted=replace(fitted, **change)) for name, change in changes.items()
    }
    rule = Constraint("age >= 1", "nobody")
    return doctored | {
        "steps": replace(made, released=()),
        "rules": replace(made, constraints=(rule,)),
        "drawing": replace(made, is_drawn_evenly=False),
    }


def test_a_certificate_commits_to_all_that_a_later_fit_may_use(
    survey: Path, tmp_path: Path
) -> None:
    """Planted: another number of rows under the certificate of the real table, and more."""
    con = dither.connect(survey)
    ask: dict[str, Any] = {"columns": ["age", "work", "town"], "method": "aim"}
    made = con.synthesize("people", epsilon=2, **ask)
    for name, doctored in list_doctored(made).items():
        assert doctored.commitment != made.commitment, name
    doctored = list_doctored(made)["the number of rows"]
    assert con.synthesize("people", epsilon=1, start_from=doctored, **ask).signed is None
    made.save(tmp_path / "model.json")
    old = json.loads((tmp_path / "model.json").read_text())
    del old["single_counts"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    earlier = load_synthetic(tmp_path / "old.json")
    assert earlier.sample(50).equals(made.sample(50))
    assert con.synthesize("people", epsilon=1, start_from=earlier, **ask).signed is None
    before = con.budget().pots[0].spent
    for name in ("shapes of potentials", "which counts are single"):
        with pytest.raises(ParameterError, match="shapes do not fit"):
            con.synthesize("people", epsilon=1, start_from=list_doctored(made)[name], **ask)
    assert con.budget().pots[0].spent == before
    checked = con.check_synthetic(made, epsilon=1)
    assert con.synthesize("people", epsilon=1, start_from=checked, **ask).signed is not None


def test_a_certificate_of_another_release_or_of_no_lease_is_not_that_of_a_table(
    survey: Path,
) -> None:
    """Planted: the steward's key under the commitment of a dear table, for a cheap release; and
    under that of an answer which is no lease."""
    con = dither.connect(survey)
    dear = con.synthesize("people", epsilon=5, columns=["age", "town"], method="aim")
    cheap = con.synthesize("people", epsilon=1, columns=["age", "town"], method="aim")
    remarks = write_remarks([dear], "epsilon 1", dear.commitment)
    other = con._curator.sign_lease(cheap.facts["release"], remarks)
    assert other is not None and read_signed(other)["values"]["commitment"] == dear.commitment
    assert is_as_signed(dear, dear.signed)
    assert not is_as_signed(replace(dear, signed=other), dear.signed)
    body = json.loads(json.dumps(dear.certificate()["body"]))
    body["mechanisms"][0]["family"] = "discrete-laplace"
    answer = seal.sign(body, ensure_signing_key(State.beside(survey)))
    assert not is_as_signed(replace(dear, signed=answer), dear.signed)


def test_edges_from_outside_are_not_taken_for_bought_ones(survey: Path) -> None:
    """Planted elsewhere: the asker's edges, which a certificate called bought."""
    con = dither.connect(survey)
    rows = con.synthesize("people", epsilon=2, columns=["pay", "town", "work"]).sample(200)
    before = con.budget().pots[0].spent
    bins: Any = {"pay": BoughtEdges((123, 4567, 4568, 30000))}
    for start in (None, PublicTable(rows, provenance="census")):
        with pytest.raises(ParameterError, match="say that they were bought"):
            con.synthesize(
                "people", epsilon=5, columns=["pay", "town", "work"], bins=bins, start_from=start
            )
    columns = {"people": ["pay", "town"], "trips": ["length"]}
    with pytest.raises(ParameterError, match="say that they were bought"):
        con.synthesize_linked("people", "trips", epsilon=5, columns=columns, bins=bins)
    asker = SynthAsker(con._curator, con._pot, con._curator.view(con._pot))
    terms = {"table": "people", "columns": ["pay"], "bins": bins, "parent": "people"}
    terms |= {"child": "trips", "method": "aim", "constraints": [], "labels": {}}
    price = {"measure": "epsilon", "price": "1", "asked": "epsilon 1"}
    for run, wished in ((asker.run, ["pay"]), (asker.run_linked, columns)):
        with pytest.raises(ParameterError, match="say that they were bought"):
            run(terms | price | {"columns": wished})
    assert con.budget().pots[0].spent == before


@pytest.mark.parametrize("rule", [Rule("pure"), ZCDP, replace(ZCDP, name="rdp", alpha=10)])
def test_a_converted_sum_of_a_lease_and_earlier_releases_says_so(rule: Rule) -> None:
    """The price of the lease may have followed from them; alone it was charged before its steps."""
    total = cast(Any, SimpleNamespace(name="total", rule=rule))
    charges = {"total": charge_from_amounts(Fraction(1, 2), Fraction(0))}
    record = cast(Any, SimpleNamespace(charges=charges, release_id="a release"))
    catalog = SimpleNamespace(unit=SimpleNamespace(label="person"), neighbours="replace")
    version = cast(Any, SimpleNamespace(catalog=catalog))
    alone = _state_guarantee(record, version, (total,), ())["stated"]
    together = _state_guarantee(record, version, (total,), (record,))["stated"]
    assert AS_IF not in alone and (AS_IF in together) == (rule.name != "pure")


def test_a_table_with_bought_labels_is_certified_for_their_loss_as_well(tmp_path: Path) -> None:
    people = invent_people(300)
    pyarrow.csv.write_csv(people, tmp_path / "people.csv")
    pyarrow.csv.write_csv(invent_trips(people), tmp_path / "trips.csv")
    file = tmp_path / "survey.yaml"
    file.write_text(CATALOG.format(neighbours="add_remove"))
    terms = {"rule": "approx", "delta": "0.1", "delta_per_question": "0.001"}
    with own_state_home(tmp_path):
        steward.register(file)
        open_total(State.beside(file), "1000", "1000", **terms)
        con = dither.connect(file)
        made = con.synthesize("people", epsilon=2, columns=["age", "hobby"], labels_epsilon=20)
        body = read_signed(made.certificate())
        (pot,) = con.budget().pots
    assert Fraction(body["guarantee"]["epsilon"]) == pot.spent and pot.spent > 20
    assert Fraction(body["guarantee"]["delta"]) == pot.delta_spent
    assert made.facts["sources"][0] in body["guarantee"]["stated"]


def test_a_table_with_bought_bins_is_certified_for_the_whole_price(survey: Path) -> None:
    """Planted elsewhere: edges bought apart, which the certificate calls the asker's choice."""
    con = dither.connect(survey)
    before = con.budget().pots[0].spent
    made = con.synthesize("people", epsilon=8, columns=["pay", "town"], bins={"pay": "buy:5"})
    body = read_signed(made.certificate())
    spent = con.budget().pots[0].spent - before
    assert Fraction(body["guarantee"]["epsilon"]) == spent and 7.9 < spent <= 8
    assert any("4 quantiles of pay" in words for words in body["post_processing"])
    assert not any("begin at" in fact for fact in body["unprotected"])


def test_every_certificate_lists_the_rules_of_the_catalog(survey: Path) -> None:
    result = dither.connect(survey).sql("SELECT COUNT(*) AS n FROM trips", epsilon=1)
    body = read_signed(result.certificate())
    assert "people: ended >= begun, from: the form" in body["unprotected"]


def test_one_command_makes_two_linked_tables_a_report_and_a_certificate(
    survey: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    asked = ["synth", str(survey), "people", "trips", "--epsilon", "4", "--to", str(folder)]
    wish = ["--columns", "age,work,town", "--bins", "age=2/5,length=4/,day=buy:3"]
    done = CliRunner().invoke(app, [*asked, *wish])
    assert done.exit_code == 0, done.output
    assert {file.name for file in folder.iterdir()} == {
        "people.csv",
        "trips.csv",
        "report.html",
        "model.json",
        "certificate.json",
    }
    assert seal.check((folder / "certificate.json").read_text()).intact
    pair = load_linked(folder / "model.json")
    assert pair.child.released[-1].write_words().startswith("2 quantiles of day")
    assert [column.edges for column in pair.parent.columns] == [(2, 5), (), ()]
    body = read_signed(json.loads((folder / "certificate.json").read_text()))
    edges = ["people: bins of age begin at 2, 5", "trips: bins of length begin at 4"]
    assert {f"{words}: chosen by the asker" for words in edges} <= {*body["unprotected"]}
    assert pair.sample()[1].num_rows == pyarrow.csv.read_csv(folder / "trips.csv").num_rows
    report = (folder / "report.html").read_text()
    assert "What it may be used for" in report and "<script" not in report
    for bins in ("age", "age=", "age=many", "age=2,5"):
        refused = CliRunner().invoke(app, [*asked[:-1], str(tmp_path / "x"), "--bins", bins])
        assert refused.exit_code != 0 and not (tmp_path / "x").exists()
    for bins in ("age=buy:1", "age=buying"):
        assert CliRunner().invoke(app, [*asked[:-1], str(tmp_path / "x"), "--bins", bins]).exit_code
        assert not any((tmp_path / "x").iterdir())
