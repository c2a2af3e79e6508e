"""`dither ledger export`: what anyone may see.

The parameters of every release, never a value, nonce or salt of one.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from dither.canonical import dumps, fraction_text
from dither.privacy.ledger.reports import Record, Reports
from dither.surfaces import escape_csv

COLUMNS = (
    *(
        "release",
        "released_at",
        "pot",
        "measure",
        "charge",
        "delta",
        "loss",
        "mechanisms",
        "request_hash",
        "version",
    ),
    *("catalog_hash", "supersedes", "superseded_by", "note", "shared_by", "windows"),
)


def as_rows(ledger: Reports) -> list[dict[str, Any]]:
    """List one row for each pot and release, in the order of the charges.

    Only what was released is listed.
    """
    pots = {pot.name: pot for pot in ledger.pots()}
    return [_row(record, pots[record.pot].rule.measure) for record in ledger.history()]


def _row(record: Record, measure: str) -> dict[str, Any]:
    """Write one release as the public facts of an export."""
    taken = record.charges[record.pot]
    return {
        "release": record.seq,
        "released_at": record.released_at,
        "pot": record.pot,
        "measure": measure,
        "charge": fraction_text(taken.amount),
        "delta": fraction_text(taken.delta),
        "loss": record.loss,
        "mechanisms": sorted(_mechanisms(record.loss)),
        "request_hash": record.request_hash,
        "version": record.public.get("version"),
        "catalog_hash": record.public.get("catalog_hash"),
        "supersedes": record.supersedes,
        "superseded_by": record.superseded_by,
        "note": record.note,
        "shared_by": list(record.shared_by),
        "windows": list(record.pots[1:]),
    }


def _mechanisms(loss: dict[str, Any]) -> set[str]:
    inner = [*loss.get("losses", []), *([loss["loss"]] if "loss" in loss else [])]
    return set().union(*map(_mechanisms, inner)) if inner else {str(loss["type"])}


def as_json(ledger: Reports) -> str:
    """Write pots (terms and exact sums), releases and open incidents as canonical JSON."""
    pots = [
        {
            "pot": pot.name,
            "kind": pot.kind,
            "inside": pot.inside,
            "rule": pot.rule.to_body(),
            "measure": pot.rule.measure,
            "purpose": {
                "question": pot.question,
                "population": pot.population,
                "recipient": pot.recipient,
            },
            "unit": pot.unit,
            "neighbours": pot.neighbours,
            "cap": pot.cap,
            "ceiling": pot.ceiling,
            "spent": pot.spent,
            "delta_spent": pot.delta_spent,
            "reissue_reserve": pot.reissue,
            "reissued": pot.reissued,
            "policy": pot.policy,
            "relations": pot.relations,
        }
        for pot in ledger.pots(under_way=False)
    ]
    incidents = [
        {"reserve": incident.reserve, "code": incident.code} for incident in ledger.incidents_open()
    ]
    return dumps(
        {"dither_ledger": 2, "pots": pots, "releases": as_rows(ledger), "incidents_open": incidents}
    )


def as_csv(ledger: Reports) -> str:
    """Write the releases as CSV text. Nested values are JSON text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in as_rows(ledger):
        flat = {
            key: json.dumps(value) if isinstance(value, (dict, list)) else value
            for key, value in row.items()
        }
        writer.writerow({key: escape_csv(value) for key, value in flat.items()})
    return text.getvalue()
