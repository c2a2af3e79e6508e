"""Certificates: what they say, what they must not say, and that every change is named."""

from __future__ import annotations

import copy
import json
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction as F

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dither import DitherError, ParameterError, steward
from dither.plan.algebra import Cells, Compare, Count, Filter, Scan, Sum
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger.reports import Reports
from dither.publish import seal
from dither.publish.certificate import format_exact, format_rounded_up, write_body
from dither.publish.signing import ensure_signing_key, list_known_keys
from dither.state import State
from tests.datasets import clinic

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = seal.public_hex(KEY.public_key())
PLAN = Filter(Scan("visits"), Compare("age", ">=", F(18)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release under each rule, the place, and the body of its certificate."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "xdg"))
        folder = home / "clinic"
        folder.mkdir()
        (folder / "clinic.yaml").write_text(clinic.CATALOG)
        clinic.write_csv(
            folder / "visits.csv", [clinic.row(f"v{i}", f"p{i}", cost="7.13") for i in range(900)]
        )
        place = State(folder / "clinic.dither")
        catalog = steward.register(folder / "clinic.yaml").catalog
        steward.open_pot(place, catalog, "total", rule="zcdp", rho="1", ceiling="2",
            delta_conversion="1e-6",
                         delta_selection="1e-7", purpose=clinic.PURPOSE)  # fmt: skip
        purpose = dict(clinic.PURPOSE)
        steward.open_pot(place, catalog, "board", kind="purpose", inside="total", rule="zcdp",
            rho="0.5", ceiling="1",
                         delta_conversion="1e-6", delta_selection="1e-7",
                         purpose=purpose)  # fmt: skip
        kernel = Kernel(place)
        steps = (Step(Cells(PLAN, ("ward",), (Count(),)), "gaussian", F(1)),
                 Step(Cells(PLAN, ("ward",), (Sum("cost"),)), "gaussian", F(1)))  # fmt: skip
        release = kernel.release(Request(steps, Price(rho=F(1, 10)), "board"))
        pots = {pot.name: pot for pot in Reports.from_ledger(kernel.ledger).pots()}
        way = (pots["board"], pots["total"])
        body = write_body(
            release,
            "SELECT ...",
            ["at most 3 rows per person", "cost clamped"],
            way,
            Reports.from_ledger(kernel.ledger).incidents(),
        )
        yield body, release, place, way
        kernel.ledger.close()


@pytest.fixture
def certificate(made):
    return seal.sign(copy.deepcopy(made[0]), KEY)


def test_it_says_what_issue_nine_asks(made):
    body = made[0]
    assert body["unit"] == {
        "protects": "person",
        "neighbours": "add_remove",
        "not_protected": [],
        "over_all_windows": "",
    }
    assert body["guarantee"]["variant"].startswith("approximate zero-concentrated")
    assert F(body["guarantee"]["native"]["rho"]) <= F(1, 10)
    assert body["guarantee"]["delta"] == "0.000001"
    # Bun and Steinke 2016: epsilon = rho + 2 sqrt(rho ln(1/delta)) is an upper bound of the
    # conversion
    assert 1 < float(F(body["guarantee"]["epsilon"])) <= 0.1 + 2 * (0.1 * 13.8155105579) ** 0.5
    assert [each["mechanism"] for each in body["mechanisms"]] == ["IntegerGaussian"] * 2
    assert body["mechanisms"][0]["sensitivity"]["l2_squared"] == "9"  # three visits in one ward
    assert body["bounds"]["visits.cost"] == {
        "lower": "-10", "upper": "500", "resolution": "0.01", "nulls": "keep",
        "provenance": "tariff",
    }  # fmt: skip
    assert body["bounds"]["visits.age"]["provenance"] == "life tables"
    assert "visits.score" not in body["bounds"]
    assert body["limits"] == ["at most 3 rows of visits per person", "cost clamped"]
    board, total = body["pots"]["board"], body["pots"]["total"]
    assert (
        board["rule"]["name"] == "zcdp"
        and board["paid"] == board["cumulative"] == total["cumulative"]
    )
    assert float(total["whatever_is_asked"]["epsilon"]) > 2
    assert body["unprotected"] and body["incidents"] == []
    assert body["context"] == "prod" and "readable" in " ".join(body["mode"]["not_promised"])
    assert re.fullmatch("[0-9a-f]{64}", body["release"]["plan_hash"])
    assert re.fullmatch("[0-9a-f]{64}", body["dataset"]["catalog_hash"])


def test_epsilon_is_never_stated_without_delta_and_unit(made):
    stated = made[0]["guarantee"]["stated"]
    assert "delta" in stated and "person" in stated and "add_remove" in stated


def test_it_holds_no_value_no_count_of_rows_no_duration(made):
    body, release, _, way = made
    other = replace(
        release, values=tuple(tuple(cell + 10**6 for cell in step) for step in release.values)
    )
    assert (
        write_body(other, "SELECT ...", ["at most 3 rows per person", "cost clamped"], way, ())
        == body
    )  # not a function of the values
    text = json.dumps(body)
    for value in (900, 7.13, 713):
        assert not re.search(rf"(?<![0-9.]){re.escape(str(value))}(?![0-9.])", text), value
    assert not re.search(r"duration|elapsed|seconds|rows_registered|fingerprint|hmac", text)


def test_a_certificate_verifies_with_the_public_key_alone(certificate):
    verdict = seal.check(seal.write_certificate(certificate), [PUBLIC])
    assert (verdict.intact, verdict.has_known_key, verdict.problems) == (True, True, ())


def test_spacing_and_order_do_not_matter(certificate):
    assert seal.check(json.dumps(certificate, sort_keys=False), [PUBLIC]).intact


def set_at(tree, path, value, remove=False):
    *way, last = re.split(r"(?<!\\)\.", path)
    for key in way:
        tree = tree[key.replace("\\.", ".")]
    if remove:
        del tree[last.replace("\\.", ".")]
    else:
        tree[last.replace("\\.", ".")] = value


def flipped(value):
    """Another value of the same kind: the smallest change that could be made."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return [*value, "x"] if isinstance(value, list) else {"x": 1}


def test_every_flipped_field_is_named(certificate):
    fields = dict(seal.list_leaves(certificate["body"]))
    assert len(fields) > 50
    for path, value in fields.items():
        changed = copy.deepcopy(certificate)
        set_at(changed["body"], path, flipped(value))
        verdict = seal.check(seal.write_certificate(changed), [PUBLIC])
        assert not verdict.intact
        assert any(path in problem for problem in verdict.problems), path


def test_every_removed_field_is_named(certificate):
    for path in dict(seal.list_leaves(certificate["body"])):
        changed = copy.deepcopy(certificate)
        set_at(changed["body"], path, None, remove=True)
        assert (
            f"{path}: was removed" in seal.check(seal.write_certificate(changed), [PUBLIC]).problems
        )


def test_an_added_field_is_named(certificate):
    certificate["body"]["unit"]["badge"] = "verified"
    signature, added = seal.check(seal.write_certificate(certificate), [PUBLIC]).problems
    assert signature.startswith("signature") and added == "unit.badge: was added"


def test_a_field_moved_to_another_place_is_noticed(certificate):
    """Digests hold the path: a digest of the value alone would let two equal-typed fields change
    places."""
    digests = certificate["header"]["digests"]
    body = certificate["body"]["pots"]
    body["board"]["cap"], body["board"]["ceiling"] = body["board"]["ceiling"], body["board"]["cap"]
    digests["pots.board.cap"], digests["pots.board.ceiling"] = (
        digests["pots.board.ceiling"], digests["pots.board.cap"])  # fmt: skip
    problems = seal.check(seal.write_certificate(certificate), [PUBLIC]).problems
    assert "pots.board.cap: was changed" in problems and problems[0].startswith("signature")


def test_a_changed_field_with_its_digest_still_breaks_the_signature(certificate):
    forged = seal.sign(certificate["body"] | {"context": "dev"}, KEY)
    certificate["body"], certificate["header"] = forged["body"], forged["header"]
    assert [
        p.split(":")[0] for p in seal.check(seal.write_certificate(certificate), [PUBLIC]).problems
    ] == ["signature"]


@pytest.mark.parametrize(("field", "value"), [("format", "other"), ("v", 3), ("algorithm", "none")])
def test_the_header_is_covered(certificate, field, value):
    certificate["header"][field] = value
    assert any(
        f"header.{field}" in p
        for p in seal.check(seal.write_certificate(certificate), [PUBLIC]).problems
    )


def test_every_bit_of_the_signature_counts(certificate):
    signature = bytes.fromhex(certificate["signature"])
    for bit in range(0, 512, 7):
        flip = bytearray(signature)
        flip[bit // 8] ^= 1 << bit % 8
        certificate["signature"] = flip.hex()
        assert not seal.check(seal.write_certificate(certificate), [PUBLIC]).intact


def test_signed_again_by_another_key_it_is_intact_but_not_known(certificate):
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    forged = seal.write_certificate(seal.sign(certificate["body"] | {"context": "dev"}, other))
    assert "header.public_key" in seal.check(forged, [PUBLIC]).problems[0]
    unasked = seal.check(forged)
    assert unasked.intact and not unasked.has_known_key


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"header":{},"body":{},"signature":""}', "[" * 5000, "nan"]
)
def test_what_is_no_certificate_is_said_to_be_none(text):
    assert seal.check(text, [PUBLIC]).problems == ("this is not a certificate of dither",)


def test_a_key_written_twice_or_a_float_is_refused(certificate):
    """Two readers must not see two certificates in one file."""
    text = seal.write_certificate(certificate)
    twice = text.replace('"context": "prod"', '"context": "dev", "context": "prod"')
    assert twice != text
    assert seal.check(twice, [PUBLIC]).problems == ("this is not a certificate of dither",)
    assert '"v": 2' in text
    assert not seal.check(text.replace('"v": 2', '"v": 2.0'), [PUBLIC]).intact


def test_a_key_that_is_none_is_refused():
    with pytest.raises(ParameterError, match="64 hex digits"):
        seal.check("{}", ["abc"])


class TestSigningKey:
    def test_it_is_made_once_in_secret_and_its_public_half_is_known_here(self, made):
        place = made[2]
        first = ensure_signing_key(place)
        assert ensure_signing_key(place).private_bytes_raw() == first.private_bytes_raw()
        file = place.root / "signing.key"
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        public = seal.public_hex(first.public_key())
        assert (place.root / "signing.pub").read_text().strip() == public
        assert public in list_known_keys()

    def test_two_at_once_get_the_same_key(self, made):
        place = made[2]
        (place.root / "signing.key").unlink(missing_ok=True)
        with ThreadPoolExecutor(8) as pool:
            keys = {
                key.private_bytes_raw()
                for key in pool.map(lambda _: ensure_signing_key(place), range(8))
            }
        assert len(keys) == 1

    def test_a_broken_key_and_no_registration_are_messages(self, made, tmp_path):
        with pytest.raises(DitherError, match="nothing is registered"):
            ensure_signing_key(State(tmp_path / "none.dither"))
        place = State(tmp_path)
        (tmp_path / "id").write_text("a" * 32)
        (tmp_path / "signing.key").write_bytes(b"short")
        with pytest.raises(DitherError, match="no signing key"):
            ensure_signing_key(place)


class TestPlantedBugs:
    """Checks that one would write first, each shown to miss what the real one finds."""

    def test_comparing_only_the_fields_that_are_there_misses_removals(self, certificate):
        del certificate["body"]["unprotected"]
        naive = [p for p, v in seal.list_leaves(certificate["body"])
                 if seal._hash_field(p, v) != certificate["header"]["digests"].get(p)]  # fmt: skip
        assert naive == [] and not seal.check(seal.write_certificate(certificate), [PUBLIC]).intact

    def test_trusting_the_key_in_the_file_accepts_a_forgery(self, certificate):
        other = Ed25519PrivateKey.from_private_bytes(bytes(32))
        forged = seal.write_certificate(seal.sign(certificate["body"] | {"context": "dev"}, other))
        assert seal.check(forged).intact and not seal.check(forged, [PUBLIC]).intact


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (F(1, 2), "0.5"),
        (F(3), "3"),
        (F(-1, 8), "-0.125"),
        (F(1, 3), "1/3"),
        (F(1, 10**6), "0.000001"),
        (F(0), "0"),
    ],
)
def test_numbers_are_exact_texts(value, text):
    assert format_exact(value) == text and F(text) == value


@pytest.mark.parametrize(
    "value", [F(1, 3), F(10**9 + 1, 7), F(1, 3 * 10**12), F(2), F(123456789, 10**8)]
)
def test_rounding_is_against_us(value):
    text = F(format_rounded_up(value))
    assert value <= text <= value * (1 + F(1, 10**5))
