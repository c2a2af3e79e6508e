"""One file of good and bad values, and the clients in Python, JavaScript and C run against it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dither import ParameterError, local
from dither.local import wire
from tests.local.client_programs import compile_c_client, read_program

CASES = json.loads((Path(__file__).parent / "conformance.json").read_text("utf-8"))["cases"]
IDS = [f"{json.loads(case['document'])['protocol']}-{i}" for i, case in enumerate(CASES)]
# runs the page's client on every value of the file; a refused one prints null
DRIVER = """
const { report } = require("./client.js"), fs = require("fs");
const tried = JSON.parse(fs.readFileSync("conformance.json", "utf8")).cases.map((one) =>
  [...one.good, ...one.bad].map((value) => {
    try { return { report: report(one.document, value) }; }
    catch (problem) { return { refusal: problem.message }; }
  }));
console.log(JSON.stringify(tried));
"""


def read_case(case: dict[str, Any]) -> local.Protocol:
    return local.from_json(json.loads(case["document"]))


def is_possible(protocol: local.Protocol, report: bytes) -> bool:
    """Whether the collector takes the report as one that some client could have sent."""
    collector = local.Aggregator(protocol)
    collector.add(report)
    return (collector.reports, collector.rejected) == (1, 0)


def test_every_protocol_has_good_and_bad_values() -> None:
    named = {json.loads(case["document"])["protocol"] for case in CASES}
    ours = {
        name
        for name, kind in local.protocol._TYPES.items()
        if kind.__module__.startswith("dither.")
    }
    assert named == ours
    assert all(case["good"] and case["bad"] for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_python_client_takes_the_good_and_refuses_the_bad(case: dict[str, Any]) -> None:
    protocol = read_case(case)
    for memoise in (True, False):
        for text in case["good"]:
            client = local.Client(protocol, lifetime_epsilon=protocol.epsilon, memoise=memoise)
            assert is_possible(protocol, client.report(json.loads(text)))
        for text in case["bad"]:
            client = local.Client(protocol, lifetime_epsilon=protocol.epsilon, memoise=memoise)
            with pytest.raises(ParameterError) as caught:
                client.report(json.loads(text))
            assert client.spent == 0 and "\\ud" not in ascii(str(caught.value))


def test_a_vector_with_one_missing_coordinate_is_refused_whichever_is_drawn() -> None:
    """Without memoisation only the drawn coordinate was read: a nan elsewhere passed, and whether
    it did told which coordinate was drawn for whom."""
    protocol = local.VectorMean(1, -1, 1, 8, 1)
    for _ in range(50):
        client = local.Client(protocol, lifetime_epsilon=1, memoise=False)
        with pytest.raises(ParameterError):
            client.report([0.0, float("nan"), *[0.5] * 6])


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_javascript_client_takes_the_good_and_refuses_the_bad(tmp_path: Path) -> None:
    (tmp_path / "client.js").write_text(read_program("js"))
    (tmp_path / "driver.js").write_text(DRIVER)
    shutil.copy(Path(__file__).parent / "conformance.json", tmp_path)
    done = subprocess.run(
        ["node", "driver.js"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    for case, answers in zip(CASES, json.loads(done.stdout), strict=True):
        protocol = read_case(case)
        taken = answers[: len(case["good"])]
        refused = answers[len(case["good"]) :]
        for answer in taken:
            assert is_possible(protocol, bytes.fromhex(answer["report"])), case["document"]
        for text, answer in zip(case["bad"], refused, strict=True):
            assert "no place in the domain" in answer.get("refusal", ""), (text, case["document"])


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_javascript_command_sends_nothing_for_a_bad_value(tmp_path: Path) -> None:
    (tmp_path / "client.js").write_text(read_program("js"))
    (tmp_path / "document.json").write_text(local.Direct(1, 8).document())
    for value in ("9", "-1", "junk424242"):
        command = ["node", "client.js", "document.json", value, "3"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert value not in done.stderr and "no place" in done.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_c_client_takes_the_good_and_refuses_the_bad(tmp_path: Path) -> None:
    binary = compile_c_client(tmp_path)
    spoken = {"direct": "direct", "symmetric_unary": "unary", "optimised_unary": "unary"}
    tried = 0
    for case in CASES:
        protocol: Any = read_case(case)
        if protocol.type not in spoken:
            continue
        p, q = protocol.p, protocol.q
        fractions = [p.numerator, p.denominator, q.numerator, q.denominator]
        head = [str(binary), protocol.digest[:4].hex(), spoken[protocol.type]]
        for text in [*case["good"], *case["bad"]]:
            command = [*head, *map(str, [protocol.domain, *fractions]), text, "1"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            tried += 1
            if text in case["good"]:
                assert is_possible(protocol, bytes.fromhex(done.stdout.strip()))
            else:
                assert (done.returncode, done.stdout) == (1, ""), text
                assert "public value" in done.stderr
    assert tried > 60


def test_reports_of_the_file_fit_their_frame() -> None:
    for case in CASES:
        protocol = read_case(case)
        client = local.Client(protocol, lifetime_epsilon=protocol.epsilon)
        report = client.report(json.loads(case["good"][0]))
        assert len(report) == wire.HEADER_BYTES + protocol.payload_bytes
