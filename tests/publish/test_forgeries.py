"""Nobody without the key makes a certificate that verifies: by hand, and by search among
mutants."""

from __future__ import annotations

import copy
import json
import unicodedata
from typing import Any

import pytest

from dither.publish import seal
from tests.publish.certificate_mutations import MUTATIONS
from tests.publish.certificate_samples import (
    KEY,
    PUBLIC,
    VERSION_ONE,
    check_as_version_one_did,
    is_signed,
    list_fields,
    sample_body,
    sign_sample,
    sign_version_one,
    write_canonical,
)
from tests.publish.certificate_search import Search, search_forgeries

NOT_A_CERTIFICATE = ("this is not a certificate of dither",)


def verifies(text: str) -> bool:
    verdict = seal.check(text, [PUBLIC])
    return verdict.intact and verdict.has_known_key


def read(certificate: dict[str, Any]) -> tuple[str, ...]:
    return seal.check(seal.write_certificate(certificate), [PUBLIC]).problems


@pytest.fixture(params=["version 1", "version 2"])
def signed(request) -> dict[str, Any]:
    return sign_version_one(sample_body()) if request.param == "version 1" else sign_sample()


# -- the forgery that was found, and its relatives -------------------------------------------------


def test_a_signed_body_under_the_empty_key_does_not_vouch_for_another(signed):
    forged = sample_body()
    forged["guarantee"]["epsilon"] = "0.001"
    forged["values"]["commitment"] = "00" * 32
    signed["body"] = {**forged, "": signed["body"]}
    assert read(signed) == NOT_A_CERTIFICATE


@pytest.mark.parametrize(
    "path", [(), ("body", "unit"), ("header",), ("header", "digests"), ("body", "mechanisms", 0)]
)
def test_an_empty_key_is_refused_wherever_it_stands(signed, path):
    target: Any = signed
    for key in path:
        target = target[key]
    target[""] = {}
    assert read(signed) == NOT_A_CERTIFICATE


def test_every_leaf_has_a_path_of_its_own():
    """In version 1 an empty key at the top had no name: what lay below it took others' names."""
    fields = list(
        seal.list_leaves(
            {"": {"a": 1, "": 2}, "a": 1, "b": {"": {"c": 3}}, "b.": 4, "\\": {".": 5}}
        )
    )
    assert len({path for path, _ in fields}) == len(fields)


def test_a_certificate_says_its_version_and_the_signature_covers_the_whole_document():
    certificate = sign_sample()
    assert certificate["header"]["v"] == 2
    document = {"body": certificate["body"], "header": certificate["header"]}
    assert is_signed(write_canonical(document), certificate["signature"])


def test_a_certificate_of_one_version_is_none_of_the_other():
    newer = sign_sample()
    newer["header"]["v"] = 1
    assert read(newer)[0].startswith("signature")
    older = sign_version_one(sample_body())
    older["header"]["v"] = 2
    assert read(older)[0].startswith("signature")


@pytest.mark.parametrize("version", [0, 3, True, "2", None, 10**40])
def test_an_unknown_version_is_refused(signed, version):
    signed["header"]["v"] = version
    assert any(problem.startswith("header.v") for problem in read(signed))


def test_the_digests_are_not_the_seal():
    """In version 2 a body with digests that fit it is still not the body that was signed."""
    certificate = sign_sample()
    forged = seal.sign(sample_body() | {"context": "dev"}, KEY)
    forged["signature"] = certificate["signature"]
    assert [problem.split(":")[0] for problem in read(forged)] == ["signature"]


@pytest.mark.parametrize(
    "spell",
    [str.upper, lambda text: f" {text}", lambda text: f"{text[:8]} {text[8:]}", "00".__add__],
)
@pytest.mark.parametrize("field", ["signature", "public_key"])
def test_signature_and_key_have_one_spelling(signed, field, spell):
    target = signed if field == "signature" else signed["header"]
    target[field] = spell(target[field])
    assert not verifies(seal.write_certificate(signed))


@pytest.mark.parametrize("form", ["NFD", "NFKC"])
def test_another_unicode_form_is_another_text(signed, form):
    recipient = signed["body"]["pots"]["total"]["purpose"]
    recipient["recipient"] = unicodedata.normalize(form, recipient["recipient"])
    assert "pots.total.purpose.recipient: was changed" in read(signed)


@pytest.mark.parametrize("value", [True, "1", [1], 1.0, None])
def test_a_number_of_another_type_is_another_number(signed, value):
    signed["body"]["dataset"]["version"] = value
    assert not verifies(json.dumps(signed))


def test_minus_zero_is_no_way_to_write_zero():
    body = sample_body()
    body["software"]["losses"] = 0
    text = seal.write_certificate(seal.sign(body, KEY))
    assert verifies(text) and not verifies(text.replace('"losses": 0', '"losses": -0'))


# -- what earlier code signed ----------------------------------------------------------------------


@pytest.mark.parametrize("file", VERSION_ONE, ids=lambda file: file.stem)
def test_certificates_of_earlier_code_verify(file):
    verdict = seal.check(file.read_text(), [PUBLIC])
    assert verdict.problems == () and verdict.has_known_key
    assert verdict.body == json.loads(file.read_text())["body"]


def test_there_are_certificates_of_three_earlier_states():
    headers = [json.loads(file.read_text())["header"] for file in VERSION_ONE]
    assert [header["v"] for header in headers] == [1, 1, 1]


def test_what_is_shown_is_what_was_checked(signed):
    verdict = seal.check(seal.write_certificate(signed), [PUBLIC])
    assert verdict.body == sample_body()
    signed["body"]["context"] = "dev"
    assert seal.check(seal.write_certificate(signed), [PUBLIC]).body is None


# -- the search ------------------------------------------------------------------------------------


def check_search(search: Search, count: int) -> None:
    assert search.tried == count
    assert search.forgeries == []
    assert search.lost_copies == []
    assert search.copies >= count // 40, "the search must try copies in other styles too"


def test_no_mutant_of_a_signed_document_verifies(signed):
    check_search(search_forgeries(seal.write_certificate(signed), verifies, 500, seed=1), 500)


@pytest.mark.all
def test_no_mutant_of_a_hundred_thousand_verifies(signed):
    check_search(search_forgeries(seal.write_certificate(signed), verifies, 50_000, seed=2), 50_000)


class TestPlantedBugs:
    """Verifiers that one would write first; the search finds a forgery of each."""

    def search(self, certificate: dict[str, Any], check: Any, count: int = 360) -> set[str]:
        def accepts(text: str) -> bool:
            try:
                return bool(check(text))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return False

        found = search_forgeries(seal.write_certificate(certificate), accepts, count, seed=1)
        assert found.lost_copies == []
        return {names for names, _ in found.forgeries}

    def test_the_paths_of_version_one(self):
        names = self.search(sign_version_one(sample_body()), check_as_version_one_did)
        assert any("hide_under_key" in name for name in names)

    def test_a_reader_that_keeps_the_last_of_two_keys(self):
        def check(text: str) -> bool:
            document = json.loads(text)
            return is_signed(
                write_canonical({key: document[key] for key in ("body", "header")}),
                document["signature"],
            )

        assert any("duplicate_member" in name for name in self.search(sign_sample(), check))

    def test_a_comparison_in_which_one_is_true(self):
        certificate = sign_sample()

        def check(text: str) -> bool:
            return json.loads(text) == certificate

        assert any("retype_value" in name for name in self.search(certificate, check))

    def test_a_comparison_after_normalisation(self):
        certificate = sign_sample()
        wanted = unicodedata.normalize("NFKC", write_canonical(certificate))

        def check(text: str) -> bool:
            return unicodedata.normalize("NFKC", write_canonical(json.loads(text))) == wanted

        assert any("normalise_text" in name for name in self.search(certificate, check))

    def test_a_signature_over_the_header_alone(self):
        def check(text: str) -> bool:
            document = json.loads(text)
            return is_signed(write_canonical(document["header"]), document["signature"])

        assert len(self.search(sign_version_one(sample_body()), check)) > len(MUTATIONS)

    @pytest.mark.parametrize(
        "missing",
        [("read_json",), ("list_leaves",), ("read_json", "list_leaves")],
        ids=" and ".join,
    )
    def test_the_empty_key_is_refused_by_what_is_left(self, signed, missing, monkeypatch):
        """Without the strict reader, without the paths of today, and without both."""
        signed["body"] = {**sample_body(), "context": "dev", "": copy.deepcopy(signed["body"])}
        planted = {"read_json": json.loads, "list_leaves": list_fields}
        for name in missing:
            monkeypatch.setattr(seal, name, planted[name])
        assert not seal.check(seal.write_certificate(signed), [PUBLIC]).intact
