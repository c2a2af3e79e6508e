"""Certificates of leases: what was promised for everything that one lease released.

The body has the fields of every certificate, so that the same checker reads it. The mechanism is
the lease itself, whose steps are listed in words; the commitment is a hash of what was made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.canonical import digest
from dither.catalog.explain import UNPROTECTED, list_rules
from dither.privacy.charges.rules import charge_from_amounts
from dither.privacy.kernel.release import Version
from dither.privacy.ledger import Incident, Pot
from dither.privacy.ledger.reports import Record
from dither.privacy.loss_documents import read_loss
from dither.privacy.losses import compose
from dither.publish.budget import LabelledGuarantee, label_running_sum
from dither.publish.certificate import (
    VARIANTS,
    CertificateMode,
    describe_pot,
    format_exact,
    format_rounded_up,
    state_charge,
    state_over_windows,
)
from dither.version import LOSS_VERSION, __version__


@dataclass(frozen=True)
class LeaseRemarks:
    """What was made of a lease, in words: `text` names it, `steps` what was released, `unprotected`
    the public facts that no noise protects; `commitment` is a hash of it. `sources` are the earlier
    releases that it was made from as well."""

    text: str
    asked: str
    steps: tuple[str, ...]
    limits: tuple[str, ...]
    unprotected: tuple[str, ...]
    commitment: str
    sources: tuple[str, ...] = ()


def write_lease_body(
    record: Record,
    version: Version,
    remarks: LeaseRemarks,
    pot_path: tuple[Pot, ...],
    incidents: Iterable[Incident],
    over_windows: LabelledGuarantee | None,
    mode: CertificateMode,
    sources: tuple[Record, ...] = (),
) -> dict[str, Any]:
    """Write the body of a lease that is over, by its record in the ledger.

    `pot_path` is the paying pot and all pots around it. `sources` are the records of the earlier
    releases that entered what was made: the guarantee is that of all together.
    """
    catalog = version.catalog
    losses = [record.loss, *(source.loss for source in sources)]
    charges = record.charges
    return {
        "release": {
            "id": record.release_id,
            "released_at": str(record.released_at),
            "repeated": False,
            "sql": remarks.text,
            "request_hash": record.request_hash,
            "plan_hash": digest({"text": remarks.text, "steps": list(remarks.steps)}),
        },
        "dataset": {
            "name": catalog.dataset,
            "lineage": catalog.lineage,
            "population": catalog.population,
            "version": version.number,
            "catalog_hash": version.catalog_hash,
        },
        "context": version.context,
        "mode": {"name": mode.name, "not_promised": list(mode.not_promised)},
        "guarantee": _state_guarantee(record, version, pot_path, sources),
        "unit": {
            "protects": catalog.unit.label,
            "neighbours": catalog.neighbours,
            "not_protected": [
                f"{person.key}: {person.because}"
                for person in catalog.people
                if not person.protected
            ],
            "over_all_windows": "" if over_windows is None else state_over_windows(over_windows),
        },
        "mechanisms": [
            {
                "mechanism": "budget lease",
                "family": "lease",
                "share": "1",
                "answers": "steps chosen from what was released before",
                "loss": record.loss,
            },
            *(
                {
                    "mechanism": f"earlier release {source.release_id}",
                    "family": "earlier",
                    "share": "0",
                    "answers": "what was paid before, used again",
                    "loss": source.loss,
                }
                for source in sources
            ),
        ],
        "bounds": {},
        "limits": list(remarks.limits),
        "price": {
            "asked": remarks.asked,
            "loss": compose(*map(read_loss, losses)).to_json() if sources else record.loss,
            "charges": {
                name: [format_exact(taken.amount), format_exact(taken.delta)]
                for name, taken in charges.items()
            },
        },
        "pots": {pot.name: describe_pot(pot, charges.get(pot.name)) for pot in pot_path},
        "post_processing": list(remarks.steps),
        "values": {"commitment": remarks.commitment},
        "unprotected": [*UNPROTECTED, *list_rules(catalog), *remarks.unprotected],
        "incidents": [
            {"reserve": incident.reserve, "code": incident.code} for incident in incidents
        ],
        "software": {"dither": __version__, "losses": LOSS_VERSION},
    }


def _state_guarantee(
    record: Record, version: Version, pot_path: tuple[Pot, ...], sources: tuple[Record, ...]
) -> dict[str, Any]:
    """State the guarantee of the whole lease: its charge by the rule of the pot that paid.

    With sources, what the total took for the lease and for all of them is added up, and labelled
    where it is converted: the price of the lease may have followed from them.
    """
    pot = pot_path[-1] if sources else pot_path[0]
    charges = [paid.charges[pot.name] for paid in (record, *sources)]
    taken = charge_from_amounts(
        sum((charge.amount for charge in charges), Fraction(0)),
        sum((charge.delta for charge in charges), Fraction(0)),
    )
    epsilon, delta, native = state_charge(pot, taken)
    catalog = version.catalog
    names = ", ".join(source.release_id for source in sources)
    return {
        "variant": VARIANTS[pot.rule.name],
        "native": native,
        "epsilon": format_exact(epsilon),
        "delta": format_exact(delta),
        "stated": (
            f"epsilon {format_rounded_up(epsilon)} at delta {format_rounded_up(delta)}, "
            f"for one {catalog.unit.label} ({catalog.neighbours})"
            + (f", together with the earlier releases {names}" if names else "")
            + (label_running_sum(pot) if sources else "")
        ),
    }
