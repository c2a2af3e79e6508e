"""The HTTP API: answers, problems, ids, limits; and the page that describes it."""

from __future__ import annotations

import inspect
import io
import json
import os
import socket
from fractions import Fraction
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import dither
from dither.errors import DitherError
from dither.gateway import app as app_module
from dither.gateway import bodies
from dither.gateway.app import NO_TELEMETRY, make_app
from dither.gateway.bodies import AskBody, PreviewBody
from dither.gateway.run import make_gateway
from dither.identity import ActLog
from dither.identity.signed_acts import draft_act, sign_act
from dither.publish.commitment import commitment
from dither.publish.seal import check, write_certificate
from dither.session import Connection
from tests.datasets.clinic import PURPOSE
from tests.datasets.served_clinic import BY_WARD, COUNT, make_pool, running_gateway, serving
from tests.gateway.api_reference import write_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http-api.md"
PROBLEM = "application/problem+json"
JSON_BODY = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), "1000") as clinic:
        yield clinic


@pytest.fixture(scope="module")
def client(served):
    token = served.make_token()
    with running_gateway(served.socket) as url:
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60) as opened:
            yield opened


def ask(client: httpx.Client, sql: str = COUNT, headers=None, **terms) -> httpx.Response:
    body = {"sql": sql, **terms}
    return client.post("/datasets/clinic/sql", json=body, headers=headers or {})


# -- answers


def test_the_public_facts_of_a_dataset(client):
    assert client.get("/datasets").json() == {"datasets": ["clinic"]}
    facts = client.get("/datasets/clinic").json()
    assert facts["tables"][0]["name"] == "visits" and facts["principal"] == "alice"
    assert facts["pots"] == ["total"] and facts["mode"] == "split, one user"


def test_a_question_is_previewed_asked_and_asked_again_for_free(client, served):
    spent = served.read_spent()
    preview = client.post("/datasets/clinic/preview", json={"sql": BY_WARD, "epsilon": 0.5}).json()
    assert preview["preview"]["price"]["charged"] == "1/2" and preview["sentences"]
    assert served.read_spent() == spent
    answer = ask(client, BY_WARD, epsilon="0.5").json()
    assert answer["columns"]["ward"] == ["north", "south", "other", None]
    assert set(answer["columns"]) >= {"n", "n_low", "n_high", "mean"}
    again = ask(client, BY_WARD, epsilon=0.5).json()
    assert again["info"]["repeated"] and again["columns"] == answer["columns"]
    assert served.read_spent() == spent + 1 / 2


def test_the_same_answer_as_arrow(client):
    as_json = ask(client, BY_WARD, epsilon=1).json()["columns"]
    accepted = {"accept": "application/vnd.apache.arrow.stream"}
    response = ask(client, BY_WARD, accepted, epsilon=1)
    assert response.headers["content-type"] == accepted["accept"]
    table = pa.ipc.open_stream(io.BytesIO(response.content)).read_all()
    assert table.column("n").to_pylist() == as_json["n"] and b"dither" in table.schema.metadata


def test_a_certificate_comes_with_the_answer_and_is_of_these_numbers(client):
    answer = ask(client, epsilon=1, certificate=True).json()
    signed = answer["certificate"]
    verdict = check(write_certificate(signed), [signed["header"]["public_key"]])
    assert verdict.intact
    promised = commitment(answer["columns"], answer["nonce"])
    assert verdict.body["values"]["commitment"] == promised


def test_explain_suggest_budget_and_a_rehearsal(client, served):
    spent = served.read_spent()
    explained = client.post("/datasets/clinic/explain", json={"sql": COUNT, "epsilon": 1}).json()
    assert any("Scan" in line for line in explained["explanation"])
    assert ask(client, epsilon=1, dry_run=True).json()["info"]["context"] == "dry_run"
    assert served.read_spent() == spent
    body = {"what": "bounds", "of": "visits.cost", "epsilon": 2, "keep": 0.9}
    assert (
        "keeps about 90%" in client.post("/datasets/clinic/suggest", json=body).json()["sentence"]
    )
    budget = client.get("/datasets/clinic/budget").json()
    assert budget["pots"][0]["name"] == "total" and budget["sentences"]
    assert served.read_spent() == spent + 2


def test_limits_of_parts_are_bought_and_sent_with_the_question(client, served):
    """A price for limits and one for the answer, each as it is announced."""
    sql = "SELECT SUM(cost) AS s FROM visits WHERE cost < (SELECT AVG(cost) FROM visits)"
    spent = served.read_spent()
    body = {"what": "limits", "of": sql, "epsilon": 1}
    bought = client.post("/datasets/clinic/suggest", json=body).json()
    assert [own["name"] for own in bought["limits"]["part_limits"]] == ["part_1", "part_2"]
    assert "part_2: SUM(cost): one person adds" in bought["sentence"]
    assert served.read_spent() - spent == Fraction(bought["info"]["charged"]) <= 1
    spent = served.read_spent()
    answer = ask(client, sql, epsilon=2, limits=bought["limits"]).json()
    assert served.read_spent() - spent == Fraction(answer["info"]["charged"]) <= 2
    whole = bodies.LimitsBody.model_validate(bought["limits"])
    assert bodies.LimitsBody.write_suggested(whole.read_suggested()) == whole


CLAMP = {"aggregate": "SUM(cost)", "low": "0", "high": "5"}
MOST = "9" * 1_000


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"part_limits": []},
        {"part_limits": [{"name": "part_1"}] * 10_000},
        {"part_limits": [{"name": "part_1"}]},
        {"part_limits": [{"name": "part_1"}] * 2},
        {"part_limits": [{"name": "part_2"}, {"name": "part_1"}]},
        {"part_limits": [{"name": "part_1"}, {"name": "part_2"}], "max_groups": 1},
        {"part_limits": [{"name": "part_1", "limits": {"clamps": []}}, {"name": "part_2"}]},
        {"part_limits": [{"name": "part_1"}, {"name": "part_2", "limits": {"part_limits": []}}]},
        {
            "part_limits": [
                {"name": "part_1"},
                {"name": "part_2", "limits": {"clamps": [CLAMP] * 2}},
            ]
        },
        {
            "part_limits": [
                {"name": "part_1"},
                {"name": "part_2", "limits": {"clamps": [CLAMP], "max_groups": 0}},
            ]
        },
        {
            "part_limits": [
                {"name": "part_1"},
                {"name": "part_2", "limits": {"clamps": [CLAMP | {"low": MOST}]}},
            ]
        },
        {
            "part_limits": [
                {"name": "part_1"},
                {"name": "part_2", "limits": {"clamps": [CLAMP | {"high": MOST}]}},
            ]
        },
        {"clamps": [CLAMP]},
    ],
)
def test_limits_that_do_not_fit_the_parts_are_refused_and_nothing_is_spent(client, served, limits):
    sql = "SELECT SUM(cost) AS s FROM visits WHERE cost < (SELECT AVG(cost) FROM visits)"
    spent = served.read_spent()
    for path in ("sql", "preview"):
        body = {"sql": sql, "epsilon": 2, "limits": limits}
        response = client.post(f"/datasets/clinic/{path}", json=body)
        assert 400 <= response.status_code < 500, response.text
    assert served.read_spent() == spent


def test_history_comes_in_pages(client, served):
    for _ in range(3):
        ask(client, epsilon="0.125", fresh=True)
    whole = client.get("/datasets/clinic/history").json()
    assert whole["total"] == len(whole["releases"]) >= 3 and whole["next"] is None
    pages = []
    start = 0
    while start is not None:
        page = client.get(f"/datasets/clinic/history?start={start}&count=2").json()
        pages += page["releases"]
        start = page["next"]
    assert pages == whole["releases"]


def test_an_ask_that_is_sent_again_under_its_key_is_bought_once(client, served):
    spent = served.read_spent()
    key = {"idempotency-key": "monday-1"}
    first = ask(client, BY_WARD, key, epsilon=2, fresh=True).json()
    second = ask(client, BY_WARD, key, epsilon=2, fresh=True).json()
    assert first["info"]["release_id"] == second["info"]["release_id"]
    assert first["columns"] == second["columns"] and served.read_spent() == spent + 2
    other = ask(client, COUNT, key, epsilon=2, fresh=True)
    assert other.status_code == 400 and "another question" in other.json()["detail"]
    assert served.read_spent() == spent + 2


def test_a_question_in_parts_is_bought_once_under_its_key(client, served):
    sql = "SELECT ward, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM visits GROUP BY ward"
    spent = served.read_spent()
    key = {"idempotency-key": "monday-2"}
    tables = [ask(client, sql, key, epsilon=3).json()["columns"] for _ in range(2)]
    assert tables[0] == tables[1] and served.read_spent() == spent + 3


# -- problems


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"sql": "SELECT * FROM visits", "epsilon": 1}, 422, "QueryError"),
        ({"sql": COUNT}, 400, "ParameterError"),
        ({"sql": COUNT, "epsilon": "nan"}, 400, "ParameterError"),
        ({"sql": COUNT, "epsilon": -1}, 400, "ParameterError"),
        ({"sql": COUNT, "epsilon": 1e99}, 402, "BudgetError"),
        ({"sql": COUNT, "rho": 1}, 422, "RefusedError"),
        ({"sql": COUNT, "epsilon": 1, "pot": "board"}, 403, "AccessError"),
        ({"sql": COUNT, "epsilon": 1, "seed": 3}, 422, "ParameterError"),
        ({"sql": 7}, 422, "ParameterError"),
        ({"sql": "x" * 100_001, "epsilon": 1}, 422, "ParameterError"),
        ({"sql": COUNT, "epsilon": 1, "certificate": True, "dry_run": True}, 400, "ParameterError"),
    ],
)
def test_a_refusal_is_a_problem_document_and_costs_nothing(client, served, body, status, kind):
    spent = served.read_spent()
    response = client.post("/datasets/clinic/sql", json=body)
    problem = response.json()
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM)
    assert (problem["kind"], problem["status"]) == (kind, status)
    assert problem["detail"] and problem["title"]
    assert problem["instance"].endswith(response.headers["x-request-id"])
    assert served.read_spent() == spent


def test_a_problem_has_the_words_and_the_rule_of_the_library(client, served):
    response = ask(client, "SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient", epsilon=1)

    with pytest.raises(DitherError) as refused:
        served.connect().sql(
            "SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient", epsilon=1
        )
    assert response.json()["detail"] == str(refused.value)
    rule = ask(client, rho=1).json()["rule"]
    assert rule["id"] and rule["page"].startswith("docs/rules/") and rule["sentence"]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer no"}, {"authorization": "x"}])
def test_without_a_token_nothing_is_shown(client, headers):
    url = str(client.base_url)
    for path in ("/datasets", "/datasets/clinic", "/datasets/shop/budget"):
        response = httpx.get(f"{url.rstrip('/')}{path}", headers=headers, timeout=60)
        assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
    assert httpx.get(url.replace("api/v1/", "healthz"), timeout=60).json() == {"status": "ok"}


def test_another_dataset_reads_like_one_that_does_not_exist(client):
    details = {
        client.get(f"/datasets/{name}/budget").json()["detail"] for name in ("shop", "no%20such")
    }
    assert len(details) == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"\xff", 400),
        (b"9" * 5000, 400),
        (b"x" * 2**21, 413),
    ],
)
def test_a_body_that_is_no_question_is_a_problem(client, content, status):
    response = client.post(
        "/datasets/clinic/sql", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == status and response.headers["content-type"] == PROBLEM


def test_a_body_that_never_comes_is_given_up(client, monkeypatch):
    monkeypatch.setattr(app_module, "SECONDS_FOR_A_BODY", 0.1)
    with socket.create_connection((client.base_url.host, client.base_url.port)) as stream:
        stream.settimeout(60)
        stream.sendall(b"POST /api/v1/datasets/clinic/sql HTTP/1.1\r\nHost: x\r\n")
        stream.sendall(b"Content-Length: 100\r\n\r\n{")
        assert stream.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_what_is_not_there_is_a_problem_too(client):
    for response in (client.get("/nothing"), client.get("/datasets/clinic/sql")):
        assert response.status_code in (404, 405)
        assert response.headers["content-type"] == PROBLEM


def test_a_curator_that_is_down_is_a_problem_and_not_a_fault(tmp_path):
    with running_gateway(tmp_path / "none") as url:
        response = httpx.get(
            f"{url}/api/v1/datasets", headers={"authorization": "Bearer x"}, timeout=60
        )
    assert response.status_code == 503 and response.json()["kind"] == "BusyError"
    assert response.headers["retry-after"] == "1"


def test_a_fault_says_nothing_of_its_cause(client, monkeypatch, capfd):
    def fail(*_, **__):
        raise RuntimeError("the name Ada Lovelace")

    monkeypatch.setattr(Connection, "preview", fail)
    response = client.post("/datasets/clinic/preview", json={"sql": COUNT, "epsilon": 1})
    assert response.status_code == 500 and response.json()["kind"] == "FaultError"
    logged = capfd.readouterr().err
    line = json.loads(logged)
    assert line.pop("line") > 0 and line.pop("request") == response.headers["x-request-id"]
    assert line == {"event": "fault", "kind": "RuntimeError", "file": "test_api.py"}
    assert "Lovelace" not in response.text + logged and "Traceback" not in logged


# -- headers


def test_every_response_has_an_id_and_is_stored_nowhere(client):
    own = client.get("/datasets", headers={"x-request-id": "my-id_1"})
    assert own.headers["x-request-id"] == "my-id_1"
    for sent in ({}, {"x-request-id": "a b"}, {"x-request-id": "x" * 65}):
        response = client.get("/datasets", headers=sent)
        assert len(response.headers["x-request-id"]) == 16
        assert response.headers["cache-control"] == "no-store"
        assert not {"server", "date", "x-process-time"} & set(response.headers)


def test_no_link_or_form_can_spend(client, served):
    """Spending is a POST with JSON: not what a link, an image or a form of another page sends."""
    spent = served.read_spent()
    assert client.get(f"/datasets/clinic/sql?sql={COUNT}&epsilon=1").status_code == 405
    form = client.post("/datasets/clinic/sql", data={"sql": COUNT, "epsilon": "1"})
    assert form.status_code == 422
    text = client.post(
        "/datasets/clinic/sql",
        content=b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 5}',
        headers={"content-type": "text/plain"},
    )
    assert text.status_code == 422 and served.read_spent() == spent


def test_nothing_exports_durations_or_what_is_under_way():
    """Rule release-times-only: no collector, no gauge of work under way, no access log."""
    app = make_app(make_pool(Path("unused")))
    assert not any(app._telemetry[name] for name in NO_TELEMETRY)
    assert set(NO_TELEMETRY) >= {name for name, on in app._telemetry.items() if type(on) is bool}
    assert not [route for route in app.openapi()["paths"] if "metric" in route or "log" in route]
    config = make_gateway(Path("unused"), "127.0.0.1", 1).config
    assert config.access_log is False and config.server_header is False


# -- signed acts


def test_a_signed_act_is_passed_on_and_verified_by_the_curator_alone(tmp_path):
    """A gateway can deliver what a steward signed, and nothing that it made itself."""
    key = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
    public_key = key.public_key().public_bytes_raw().hex()
    terms = {"pot": "board", "epsilon": "1", "ceiling": "1", "kind": "group", "inside": "total"}
    terms |= PURPOSE
    with serving(tmp_path) as clinic, running_gateway(clinic.socket) as url:
        address = f"{url}/api/v1/datasets/clinic"
        analyst = {"authorization": f"Bearer {clinic.make_token()}"}
        steward = {"authorization": f"Bearer {clinic.make_token('ann', 'steward')}"}
        assert httpx.get(f"{address}/head", headers=analyst, timeout=60).status_code == 403

        def deliver() -> tuple[dict, httpx.Response]:
            head = httpx.get(f"{address}/head", headers=steward, timeout=60).json()
            del head["kind"]
            signed = sign_act(draft_act(**head, kind="open", terms=terms), key, 1)
            return signed, httpx.post(f"{address}/acts", json=signed, headers=steward, timeout=60)

        _, refused = deliver()
        assert refused.status_code == 403 and "not signed" in refused.json()["detail"]
        acts = ActLog(clinic.home)
        body = {"act": "pin-key", "name": "ann", "dataset": "clinic", "public_key": public_key}
        acts.record(body, "local:root")
        signed, done = deliver()
        assert done.status_code == 200 and clinic.read_spent("board") == 0
        again = httpx.post(f"{address}/acts", json=signed, headers=steward, timeout=60)
        assert again.status_code == 400 and "limits or roles changed" in again.json()["detail"]
        acts.close()
        for act in ({"n": 1.5}, {"n": 10**400}, {"n": [[[[{}]]]]}, {"": 0}, {"n": None}):
            odd = httpx.post(
                f"{address}/acts", json={**signed, "act": act}, headers=steward, timeout=60
            )
            assert 400 <= odd.status_code < 500, act


def test_a_call_with_numbers_that_the_protocol_lacks_is_refused(client):
    for query in ({"n": 1.5}, {"n": 1e400}, {"": 0}):
        request = {"queries": [query], "steps": [], "price": {}, "pot": "total"}
        step = {"query": 0, "family": "laplace", "weight": "1/1"}
        call = {"kind": "price", "request": {**request, "steps": [step]}, "rules": 2}
        text = json.dumps(call)
        sent = client.post("/datasets/clinic/calls", content=text, headers=JSON_BODY)
        assert 400 <= sent.status_code < 500, query


# -- the description


def test_the_page_of_the_api_fetches_nothing_and_names_every_route(client):
    page = httpx.get(str(client.base_url).replace("api/v1/", ""), timeout=60)
    assert page.status_code == 200 and "<script" not in page.text and "src=" not in page.text
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page.text


def test_bodies_have_the_terms_of_a_connection():
    """A parameter that a method gains is missing here until the API has it too."""

    def terms(method) -> set[str]:
        return set(inspect.signature(method).parameters) - {"self", "delta"}

    assert set(AskBody.model_fields) == terms(Connection.sql) | {"pot", "certificate"}
    assert set(PreviewBody.model_fields) == terms(Connection.preview) | {"pot"}
    assert terms(Connection.explain) == terms(Connection.preview)


def test_the_reference_page_is_the_openapi_document():
    text = write_reference(make_app(make_pool(Path("unused"))).openapi())
    if os.environ.get("DITHER_WRITE_SIGNATURES"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, (
        "DITHER_WRITE_SIGNATURES=1 python -m pytest tests/gateway writes the page anew"
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    "body",
    [
        '{"sql": "SELECT 1", "epsilon": NUMBER}',
        '{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1, "params": [NUMBER]}',
        '{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1, "weights": {"n": NUMBER}}',
        '{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1, "confidence": NUMBER}',
    ],
)
def test_a_number_that_is_not_finite_is_no_body(client, served, body, number):
    spent = served.read_spent()
    content = body.replace("NUMBER", number)
    response = client.post("/datasets/clinic/sql", content=content, headers=JSON_BODY)
    assert response.status_code == 422 and response.headers["content-type"] == PROBLEM
    assert response.json()["detail"].startswith("body.")
    assert served.read_spent() == spent


def test_metrics_count_answers_that_left_and_nothing_else(served):
    """No duration, no refusal, nothing of the process or of what is under way, and no preview."""
    with running_gateway(served.socket) as url:
        headers = {"authorization": f"Bearer {served.make_token()}"}
        with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60) as client:
            before = httpx.get(f"{url}/metrics", timeout=60).text
            client.post("/datasets/clinic/preview", json={"sql": COUNT, "epsilon": 1})
            assert ask(client, "SELECT 1", epsilon=1).status_code == 422
            assert ask(client, COUNT, epsilon=10**6).status_code == 402
            assert ask(client, COUNT, epsilon=1, dry_run=True).status_code == 200
            assert httpx.get(f"{url}/metrics", timeout=60).text == before
            assert ask(client, COUNT, epsilon=1).status_code == 200
            assert ask(client, COUNT, epsilon=1).status_code == 200
        response = httpx.get(f"{url}/metrics", timeout=60)
        assert response.headers["content-type"].startswith("text/plain")
        names = [line.split()[0] for line in response.text.splitlines() if line[0] != "#"]
        assert names == [f'dither_info{{version="{dither.__version__}"}}', "dither_answers_total"]
        assert "dither_answers_total 0\n" in before
        assert "dither_answers_total 2\n" in response.text
        assert httpx.get(f"{url}/healthz", timeout=60).json() == {"status": "ok"}
