"""Stored state of local protocols: tallies, clients and a device's budget, as plain JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dither import local
from dither.local.subjects import EXAMPLES
from dither.privacy.noise import SystemSource

LIFETIME = 40
REPORTED = {"direct": 3, "optimised_unary": 5, "local_hash": 2, "one_bit": 0.5, "hadamard": 1}


def describe_tally(aggregator: Any) -> dict[str, Any]:
    """Counts and estimates of a collection; of a search, which has no estimate, its payloads."""
    counts = {"reports": aggregator.reports, "rejected": aggregator.rejected}
    if aggregator.protocol.keeps_reports:
        return counts | {"payloads": aggregator.payloads.tobytes().hex()}
    estimate = aggregator.estimate()
    variances = None if estimate.variances is None else np.asarray(estimate.variances).tolist()
    return counts | {"values": np.asarray(estimate.values).tolist(), "variances": variances}


def collect_tallies() -> list[dict[str, Any]]:
    """One collection of every protocol."""
    tallies = []
    for protocol in EXAMPLES:
        aggregator = local.Aggregator(protocol)
        for value in protocol.inputs()[:4]:
            values = [value] * 8 if isinstance(value, (dict, tuple, str)) else np.array([value] * 8)
            aggregator.add_payloads(protocol.randomise(values, SystemSource()))
        stored = aggregator.to_bytes().hex()
        tallies.append({"stored": stored, "expected": describe_tally(aggregator)})
    return tallies


def report_from_clients(budget: local.DeviceBudget) -> list[dict[str, Any]]:
    """Clients that share a device's budget, each with the report that it must repeat."""
    protocols = {protocol.type: protocol for protocol in EXAMPLES}
    clients = []
    for name, value in REPORTED.items():
        client = local.Client(protocols[name], budget=budget)
        report = client.report(value).hex()
        clients.append({"value": value, "report": report, "client": client.to_json()})
    return clients


def write_local_state(folder: Path) -> None:
    """Everything into `local.json` and the device's budget into `device_budget.json`."""
    path = folder / "device_budget.json"
    budget = local.budget_file(path, LIFETIME)
    clients = report_from_clients(budget)
    budget.renew(1, because="the survey goes on")
    Path(f"{path}.lock").unlink()
    document = {
        "lifetime": LIFETIME,
        "left": str(budget.left),
        "clients": clients,
        "tallies": collect_tallies(),
    }
    (folder / "local.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
