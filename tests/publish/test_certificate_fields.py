"""The body of a certificate has known fields of known kinds; others are refused though signed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from dither import connect, steward
from dither.errors import DitherError
from dither.privacy import losses as ls
from dither.publish import seal
from dither.publish.certificate_fields import ABSENT_IN_VERSION_ONE, BODY, find_field_problems
from tests.datasets import clinic
from tests.publish.certificate_samples import KEY, PUBLIC, sample_body, sign_version_one


def change(path: str, value: Any) -> dict[str, Any]:
    """A body with one field set, or removed where the value is `...`."""
    body = sample_body()
    target: Any = body
    *parents, last = path.split("/")
    for key in parents:
        target = target[int(key) if isinstance(target, list) else key]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return body


WRONG = [
    ("badge", "verified", "badge: no field of a certificate"),
    ("unit/badge", 1, "unit.badge: no field of a certificate"),
    ("mechanisms/0/note", "x", "mechanisms[0].note: no field of a certificate"),
    ("bounds/visits.age/mean", "31", r"bounds.visits\.age.mean: no field of a certificate"),
    ("pots/total/rule/epsilon", "0", "pots.total.rule.epsilon: no field of a certificate"),
    ("guarantee/native/sigma", "0", "guarantee.native.sigma: no field of a certificate"),
    ("context", ..., "context: is missing"),
    ("guarantee/stated", ..., "guarantee.stated: is missing"),
    ("pots/total/cap", ..., "pots.total.cap: is missing"),
    ("guarantee/stated", 1, "guarantee.stated: not of the kind that it has in a certificate"),
    ("guarantee/epsilon", 1, "guarantee.epsilon: not of the kind that it has in a certificate"),
    ("release/repeated", 1, "release.repeated: not of the kind that it has in a certificate"),
    ("dataset/version", True, "dataset.version: not of the kind that it has in a certificate"),
    ("limits", "none", "limits: not of the kind that it has in a certificate"),
    ("limits", [["none"]], "limits[0]: not of the kind that it has in a certificate"),
    ("pots", [], "pots: not of the kind that it has in a certificate"),
    (
        "mechanisms/0/sensitivity",
        {"rows": 3},
        "mechanisms[0].sensitivity: not of the kind that it has in a certificate",
    ),
    ("price/loss/note", "x", "price.loss: no loss that this version of dither knows"),
    ("price/loss/type", "nothing", "price.loss: no loss that this version of dither knows"),
    (
        "price/loss/epsilon",
        None,
        "price.loss.epsilon: not of the kind that it has in a certificate",
    ),
    ("price/loss", "pure", "price.loss: no loss that this version of dither knows"),
]


@pytest.mark.parametrize(("path", "value", "problem"), WRONG)
def test_a_body_with_other_fields_is_refused_though_it_is_signed(path, value, problem):
    body = change(path, value)
    assert find_field_problems(body, 2) == find_field_problems(body, 1) == [problem]
    assert seal.check(seal.write_certificate(sign_version_one(body)), [PUBLIC]).problems == (
        problem,
    )
    with pytest.raises(DitherError, match="would not verify"):
        seal.sign(body, KEY)


@pytest.mark.parametrize("path", ABSENT_IN_VERSION_ONE)
def test_version_one_may_lack_what_it_did_not_have_from_the_start(path):
    body = change(path.replace(".", "/"), ...)
    assert seal.check(seal.write_certificate(sign_version_one(body)), [PUBLIC]).intact
    assert find_field_problems(body, 2) == [f"{path}: is missing"]


def test_a_name_is_no_field_and_may_be_anything():
    body = sample_body()
    body["pots"]["a.b"] = copy.deepcopy(body["pots"]["total"])
    body["bounds"]["visits.ünit"] = {"provenance": "the type", "lower": "0", "upper": "1"}
    assert find_field_problems(body, 2) == []


@pytest.mark.parametrize(
    "loss",
    [
        ls.compose(ls.Pure("1/3"), ls.DiscreteGaussianVector(3, 10**60), ls.BoundedRange(1)),
        ls.Repeated(ls.PoissonSampled("0.01", ls.Gaussian(1)), 10),
        ls.Parallel((ls.ZCDP("0.1", "1e-9"), ls.RDP(8, 1))),
        ls.Shuffled(1, 1000, theorem="FMT21"),
        ls.SampledWithoutReplacement(3, 10, ls.DiscreteLaplace(3, 2)),
    ],
    ids=lambda loss: loss.type,
)
def test_every_loss_has_its_shape(loss):
    assert find_field_problems(change("price/loss", loss.to_json()), 2) == []


def test_an_absurd_number_in_a_text_is_shown_not_computed():
    body = change("guarantee/epsilon", "1e-99999999")
    body["price"]["loss"]["epsilon"] = "1e-99999999"
    verdict = seal.check(seal.write_certificate(seal.sign(body, KEY)), [PUBLIC])
    assert verdict.body is not None and verdict.body["guarantee"]["epsilon"] == "1e-99999999"


def test_the_reference_page_names_every_part_of_a_body():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "certificate.md").read_text()
    assert [part for part in BODY if f"`{part}`" not in page] == []


QUESTIONS = [
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY ward",
    "SELECT MEDIAN(age) AS m FROM visits",
    "SELECT urgent, AVG(weight) AS a, VARIANCE(age) AS v FROM visits GROUP BY urgent",
    "SELECT MAX(day) AS d FROM visits",
    "SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward, kind)",
]
RULES: dict[str, dict[str, str]] = {
    "pure": {"epsilon": "9", "ceiling": "10"},
    "approx": {"epsilon": "9", "ceiling": "10", "delta": "1e-5", "delta_per_question": "1e-7"},
    "zcdp": {"rho": "9", "ceiling": "10", "delta_conversion": "1e-6", "delta_selection": "1e-7"},
    "rdp": {
        "renyi": "9",
        "ceiling": "10",
        "alpha": "8",
        "delta_conversion": "1e-6",
        "delta_selection": "1e-7",
    },
}


@pytest.mark.all
@pytest.mark.parametrize("rule", RULES)
def test_every_certificate_that_is_made_has_the_known_fields(rule, tmp_path, monkeypatch):
    """`sign` checks what it signs: a mechanism or a rule with a field of its own would stop
    here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    listed = "values: [north, south], other: keep, nulls: keep"
    wards = listed if rule == "pure" else "values: undeclared, width: 9, nulls: keep"
    catalog = clinic.CATALOG.replace(listed, wards)
    rows = [clinic.row(f"v{number}", f"p{number}") for number in range(60)]
    file, place = clinic.register(tmp_path / "clinic", rows, catalog)
    terms = {"rule": rule, "purpose": clinic.PURPOSE, **RULES[rule]}
    steward.open_pot(place, steward.registered_catalog(place), "total", **terms)
    price = {"rho": "0.01"} if rule == "zcdp" else {"epsilon": "0.3"}
    con = connect(file)
    for question in QUESTIONS[: None if rule == "pure" else -1]:  # ROLLUP wants listed keys
        certificate = con.sql(question, **price).certificate()
        assert find_field_problems(certificate["body"], 2) == []
