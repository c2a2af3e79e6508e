"""An entry for the OpenDP deployments registry, filled from catalog and ledger.

What only a person knows is a prompt. The fields are those of `registry_schema.py`.
"""

from __future__ import annotations

import re
from typing import Any

from dither.catalog import Category, Date, Decimal, Integer, Timestamp
from dither.catalog.explain import UNPROTECTED
from dither.publish.certificate import EMBEDDED, format_rounded_up
from dither.publish.deployment import Deployment
from dither.publish.registry_schema import PROMPT, VARIANTS
from dither.version import __version__


def fill_entry(deployment: Deployment) -> dict[str, Any]:
    """Fill an entry: every field that catalog and ledger know, prompts for the rest."""
    catalog = deployment.catalog
    total = deployment.total
    guarantee = deployment.guarantee()
    slug = re.sub(r"[^a-z0-9]+", "_", catalog.dataset.lower()).strip("_")
    parameters: dict[str, str] = {}
    if guarantee is not None and total is not None:
        parameters = {
            "epsilon": format_rounded_up(guarantee[0]),
            "delta": format_rounded_up(guarantee[1]),
        }
        parameters |= {"rho": format_rounded_up(total.ceiling)} if total.rule.name == "zcdp" else {}
    return {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": catalog.dataset,
                "data_curators": [PROMPT + "who publishes it"],
                "intended_use": " ".join(pot.question for pot in deployment.pots)
                or PROMPT + "what is it for",
                "data_product_type": "SQL queries",
                "data_product_region": PROMPT + "which country or region",
                "description": PROMPT + f"what the data is about; population: {catalog.population}",
                "publication_date": deployment.first_release()
                or PROMPT + "YYYY-MM-DD; nothing was released yet",
            },
            "dp_variant": {
                "variant_name": "Custom" if total is None else VARIANTS[total.rule.name],
                "data_domain": _describe_domain(deployment),
                "unprotected_quantities": "; ".join([*UNPROTECTED, *EMBEDDED.not_promised]),
            },
            "privacy_loss": {
                "privacy_unit": catalog.unit.label,
                "privacy_unit_details": _describe_unit(deployment),
                "privacy_parameters": parameters,
                "privacy_parameters_details": _describe_parameters(deployment),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "one curator holds the rows, adds noise and keeps the ledger",
                "actors": "; ".join(
                    [
                        "the steward, who registers data and opens budgets, and sees the rows",
                        *(f"{pot.recipient}, from budget {pot.name}" for pot in deployment.pots),
                        PROMPT + "who else may see answers, and whom you trust with what",
                    ]
                ),
                "release_type": "Many releases",
                "release_type_details": "answers are paid from a budget with a ceiling fixed "
                "before the first; nothing is refunded, and at the cap questions are refused",
                "data_source_type": "Static",
                "data_source_type_details": "versions are made by the steward's act; charges of "
                "all of them add",
                "access_type": "Interactive",
                "access_type_details": _describe_access(deployment),
            },
            "accounting": {
                "post_processing": "intervals, ratios and orderings are computed from noisy values "
                "alone",
                "composition": _describe_composition(deployment),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _describe_preprocessing(deployment),
                "mechanisms": _describe_mechanisms(deployment),
                "justification": PROMPT + "who chose epsilon and the unit, how, and what was "
                "rejected",
            },
            "administrative": {
                "registry_authors": [PROMPT + "who wrote this entry"],
                "notes": f"filled by dither {__version__} from catalog and ledger, for the schema "
                "at 3e9c812",
            },
        },
    }


def _describe_domain(deployment: Deployment) -> str:
    """Say which databases the guarantee is about."""
    tables = ", ".join(
        f"{table.name} (at most {table.max_rows} rows)"
        for table in deployment.catalog.private_tables
    )
    return f"all databases with the tables {tables} whose columns obey the registered catalog"


def _describe_unit(deployment: Deployment) -> str:
    """Say what neighbours and units are, and how many rows of a unit are kept."""
    catalog = deployment.catalog
    limits = "; ".join(
        f"{table.rows_per_unit} rows of {table.name}"
        for table in catalog.private_tables
        if table.rows_per_unit
    )
    differ = (
        "one is the other with a unit added or removed"
        if catalog.neighbours == "add_remove"
        else ("one unit's rows are replaced by other rows")
    )
    owner = catalog.owner_column(catalog.private_tables[0])
    whom = f"all rows that {owner} names" if owner else "one row"
    return (
        f"neighbours ({catalog.neighbours}): {differ}; a unit is {whom}, over all versions; at "
        f"most {limits or '1 row'} per unit are kept, and this is enforced at registration"
    )


def _describe_parameters(deployment: Deployment) -> str:
    """Say the ceiling of the total budget, what is spent, and its (epsilon, delta)."""
    total = deployment.total
    guarantee = deployment.guarantee()
    if total is None or guarantee is None:
        return PROMPT + "no budget was opened yet"
    spent = format_rounded_up(total.spent + total.reissued)
    return (
        f"stated for the ceiling, fixed before any answer was seen: {total.rule.measure} "
        f"{format_rounded_up(total.ceiling)}; spent so far {total.rule.measure} {spent} and "
        f"delta {format_rounded_up(total.delta_spent)} in {len(deployment.releases)} releases; "
        f"epsilon {format_rounded_up(guarantee[0])} at delta {format_rounded_up(guarantee[1])} for "
        f"one {total.unit}"
    )


def _describe_access(deployment: Deployment) -> str:
    """Say who pays from which pot, and who may share answers."""
    total = deployment.total
    if total is None:
        return PROMPT + "no budget was opened yet"
    inside = [pot.name for pot in deployment.pots if pot.inside]
    if total.policy == "separate":
        return (
            f"each group pays from its own budget ({', '.join(inside)}); groups are assumed not to "
            "share answers; the dataset's total bounds all of them together"
        )
    shared = f", with allowances inside it: {', '.join(inside)}" if inside else ""
    return (
        f"one total for all analysts{shared}; analysts may share everything, since the "
        "total alone is promised"
    )


def _describe_composition(deployment: Deployment) -> str:
    """Say how the losses of all questions are added."""
    total = deployment.total
    rule = (
        "no budget yet"
        if total is None
        else {
            "pure": "sums of epsilon",
            "approx": "sums of epsilon and of delta",
            "zcdp": "sums of rho, and of the deltas of key selection (approximate zCDP filter)",
            "rdp": "sums at one order fixed in advance (Renyi filter)",
        }[total.rule.name]
    )
    return (
        "a privacy filter, valid for questions and prices chosen after seeing answers: "
        f"{rule}; exact rationals"
    )


def _describe_preprocessing(deployment: Deployment) -> str:
    """Say what happens to rows before noise, and where bounds and keys come from."""
    bounds = [
        f"{name} from {column.provenance}"
        for name, column in deployment.columns()
        if isinstance(column, (Integer, Decimal, Date, Timestamp))
    ]
    lists = [name for name, column in deployment.columns() if isinstance(column, Category)]
    return (
        "rows are cast, clamped, rounded and limited by rules that a person wrote before looking; "
        "bounds: "
        + ("; ".join(bounds) or "none")
        + (f"; listed keys: {', '.join(lists)}" if lists else "")
        + "; "
        + PROMPT
        + "was anything tuned on the data, and was that charged?"
    )


def _describe_mechanisms(deployment: Deployment) -> str:
    """Say which mechanisms were used, and how they are implemented and protected."""
    used = ", ".join(deployment.mechanisms()) or "nothing was released yet"
    return (
        f"losses released: {used}; implemented by dither {__version__}; noise is exact on integers "
        "(no floating point on the way from data to answer); keyed by the operating system's "
        "generator; errors after a charge are one constant text; timing: "
        + EMBEDDED.not_promised[1]
        + "; "
        + PROMPT
        + "how the machine and its backups are protected"
    )
