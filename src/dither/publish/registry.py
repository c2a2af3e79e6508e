"""An entry for the OpenDP deployments registry, filled from catalog and ledger; what only a person
knows is a prompt.

The fields are those of the registry's schema at commit 3e9c812 (schemas/deployments-schema.yaml);
unknown fields are refused there and here. `find_problems` checks an entry, also one that a person
has filled in.
"""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import yaml

from dither.catalog import Category, Date, Decimal, Integer, Timestamp
from dither.catalog.explain import UNPROTECTED
from dither.errors import DitherError
from dither.publish.certificate import EMBEDDED, format_rounded_up
from dither.publish.deployment import Deployment
from dither.version import __version__

PROMPT = "PLEASE WRITE: "
_MOST_CHARACTERS = 100_000
_MOST_DEPTH = 16
_OPENING = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_VARIANT = {
    "pure": "Pure DP",
    "approx": "Approximate DP",
    "zcdp": "Zero-concentrated DP",
    "rdp": "Renyi DP",
}
_STATUS = (
    "Converted",
    "Draft",
    "Pending",
    "Changes Required",
    "Approved",
    "Approved (Update Requested)",
    "Approved (Pending)",
)
_PRODUCT = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
_SECTOR = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
TEXT = "text"
NUMBER = "number"
LIST = "list"
SCHEMA: dict[str, Any] = {
    "url_slug": TEXT,
    "status": _STATUS,
    "tier": (1, 2, 3),
    "deployment": {
        "basic": {
            "name": TEXT,
            "data_curators": LIST,
            "intended_use": TEXT,
            "data_product_type": _PRODUCT,
            "data_product_region": TEXT,
            "description": TEXT,
            "publication_date": "date",
            "data_product_sector?": _SECTOR,
        },
        "dp_variant": {
            "variant_name": (*_VARIANT.values(), "Custom"),
            "data_domain": TEXT,
            "unprotected_quantities": TEXT,
        },
        "privacy_loss": {
            "privacy_unit": TEXT,
            "privacy_unit_details": TEXT,
            "privacy_parameters": {"epsilon?": NUMBER, "delta?": NUMBER, "rho?": NUMBER},
            "privacy_parameters_details": TEXT,
        },
        "deployment_model": {
            "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
            "model_name_details": TEXT,
            "actors": TEXT,
            "release_type": ("One release", "Many releases"),
            "release_type_details": TEXT,
            "data_source_type": ("Static", "Dynamic"),
            "data_source_type_details": TEXT,
            "access_type": ("Interactive", "Non-interactive"),
            "access_type_details": TEXT,
        },
        "accounting": {"post_processing": TEXT, "composition": TEXT},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": TEXT,
            "mechanisms": TEXT,
            "justification": TEXT,
        },
        "administrative": {"registry_authors": LIST, "sources?": TEXT, "notes?": TEXT},
    },
}


def fill_entry(of: Deployment) -> dict[str, Any]:
    """Fill an entry: every field that catalog and ledger know, prompts for the rest."""
    catalog = of.catalog
    total = of.total
    guarantee = of.guarantee()
    slug = re.sub(r"[^a-z0-9]+", "_", catalog.dataset.lower()).strip("_")
    parameters: dict[str, str] = {}
    if guarantee is not None and total is not None:
        parameters = {
            "epsilon": format_rounded_up(guarantee[0]),
            "delta": format_rounded_up(guarantee[1]),
        }
        parameters |= {"rho": format_rounded_up(total.ceiling)} if total.rule == "zcdp" else {}
    return {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": catalog.dataset,
                "data_curators": [PROMPT + "who publishes it"],
                "intended_use": " ".join(pot.question for pot in of.pots)
                or PROMPT + "what is it for",
                "data_product_type": "SQL queries",
                "data_product_region": PROMPT + "which country or region",
                "description": PROMPT + f"what the data is about; population: {catalog.population}",
                "publication_date": of.first_release()
                or PROMPT + "YYYY-MM-DD; nothing was released yet",
            },
            "dp_variant": {
                "variant_name": "Custom" if total is None else _VARIANT[total.rule],
                "data_domain": _describe_domain(of),
                "unprotected_quantities": "; ".join([*UNPROTECTED, *EMBEDDED]),
            },
            "privacy_loss": {
                "privacy_unit": catalog.unit.label,
                "privacy_unit_details": _describe_unit(of),
                "privacy_parameters": parameters,
                "privacy_parameters_details": _describe_parameters(of),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "one curator holds the rows, adds noise and keeps the ledger",
                "actors": "; ".join(
                    [
                        "the steward, who registers data and opens budgets, and sees the rows",
                        *(f"{pot.recipient}, from pot {pot.name}" for pot in of.pots),
                        PROMPT + "who else may see answers, and whom you trust with what",
                    ]
                ),
                "release_type": "Many releases",
                "release_type_details": "answers are paid from a budget "
                "with a "
                "ceiling "
                "fixed before the first; nothing "
                "is refunded, and at the cap questions are refused",
                "data_source_type": "Static",
                "data_source_type_details": "versions are made by the "
                "steward's "
                "act; "
                "charges of all of them add",
                "access_type": "Interactive",
                "access_type_details": _describe_access(of),
            },
            "accounting": {
                "post_processing": "intervals, ratios and orderings are "
                "computed "
                "from "
                "noisy values alone",
                "composition": _describe_composition(of),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _describe_preprocessing(of),
                "mechanisms": _describe_mechanisms(of),
                "justification": PROMPT + "who chose epsilon and the unit, "
                "how, and "
                "what "
                "was rejected",
            },
            "administrative": {
                "registry_authors": [PROMPT + "who wrote this entry"],
                "notes": f"filled by dither {__version__} from catalog and "
                "ledger, "
                "for the "
                "schema at 3e9c812",
            },
        },
    }


class _StrictLoader(yaml.SafeLoader):
    """Reads YAML and refuses a field that is given twice; plain YAML silently keeps the last
    one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(keys)) != len(keys):
            raise yaml.YAMLError("a field is there twice")
        return dict(super().construct_mapping(node, deep))


def read_entry(text: str) -> Any:
    """The entry that a YAML text holds; refused where two readers could see two, or where it has no
    end."""
    try:
        _check_size(text)
        return yaml.load(text, _StrictLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise DitherError(
            "this is no register entry: YAML with each field once, without aliases, as 'dither "
            "registry export CATALOG' writes"
        ) from None


def _check_size(text: str) -> None:
    """Refuse what is long or deep before it is built, and aliases, by which a short text grows
    without end."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("too long")
    depth = 0
    for token in yaml.scan(text):
        depth += isinstance(token, _OPENING)
        depth -= isinstance(token, _CLOSING)
        if depth > _MOST_DEPTH or isinstance(token, yaml.AliasToken):
            raise ValueError("too deep, or an alias")


def find_problems(document: Any) -> list[str]:
    """Find what is wrong with an entry by the schema, field by field. Prompts that are left count
    too."""
    return [
        *_check(document, SCHEMA, ""),
        *(f"{path}: {text}" for path, text in list_prompts(document)),
    ]


def list_prompts(document: Any, path: str = "") -> list[tuple[str, str]]:
    """List the prompts that are left, by field."""
    if isinstance(document, str):
        return [(path, document[document.index(PROMPT) :])] if PROMPT in document else []
    pairs = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [
        prompt
        for key, value in pairs
        for prompt in list_prompts(value, f"{path}.{key}" if path else str(key))
    ]


def _check(value: Any, want: Any, path: str) -> list[str]:
    where = path or "the entry"
    if isinstance(want, dict):
        if not isinstance(value, dict):
            return [f"{where}: must have fields"]
        kinds = {name.rstrip("?"): kind for name, kind in want.items()}
        wrong = [f"{path}.{name}: no such field".lstrip(".") for name in value if name not in kinds]
        wrong += [
            f"{path}.{name}: missing".lstrip(".")
            for name in want
            if not name.endswith("?") and name not in value
        ]
        for name, kind in kinds.items():
            if name in value:
                wrong += _check(value[name], kind, f"{path}.{name}".lstrip("."))
        return wrong
    if isinstance(value, str) and PROMPT in value:
        return []
    if isinstance(want, tuple):
        listed = any(
            type(value) is type(choice) and value == choice for choice in want
        )  # 1 == True
        return [] if listed else [f"{where}: one of {', '.join(map(str, want))}"]
    if want == LIST:
        return (
            []
            if isinstance(value, list) and value and all(value)
            else [f"{where}: a list with at least one name"]
        )
    if want == NUMBER:
        return [] if _is_number(value) else [f"{where}: a number"]
    if want == "date":
        return [] if _is_date(str(value)) else [f"{where}: a day as YYYY-MM-DD"]
    return [] if isinstance(value, str) and value.strip() else [f"{where}: a text"]


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and 0 <= float(value) < math.inf
    except (TypeError, ValueError, OverflowError):
        return False


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _describe_domain(of: Deployment) -> str:
    tables = ", ".join(
        f"{table.name} (at most {table.max_rows} rows)" for table in of.catalog.private_tables
    )
    return f"all databases with the tables {tables} whose columns obey the registered catalog"


def _describe_unit(of: Deployment) -> str:
    catalog = of.catalog
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
        f"most "
        f"{limits or '1 row'} per unit are kept, and this is enforced at registration"
    )


def _describe_parameters(of: Deployment) -> str:
    total = of.total
    guarantee = of.guarantee()
    if total is None or guarantee is None:
        return PROMPT + "no budget was opened yet"
    spent = format_rounded_up(total.spent + total.reissued)
    return (
        f"stated for the ceiling, fixed before any answer was seen: {total.filter.measure} "
        f"{format_rounded_up(total.ceiling)}; spent so far {total.filter.measure} {spent} and "
        f"delta "
        f"{format_rounded_up(total.delta_spent)} in {len(of.releases)} releases; "
        f"epsilon {format_rounded_up(guarantee[0])} at delta {format_rounded_up(guarantee[1])} for "
        f"one {total.unit}"
    )


def _describe_access(of: Deployment) -> str:
    total = of.total
    if total is None:
        return PROMPT + "no budget was opened yet"
    inside = [pot.name for pot in of.pots if pot.inside]
    if total.policy == "separate":
        return (
            f"each group pays from its own pot ({', '.join(inside)}); groups are assumed not to "
            f"share answers; "
            "the dataset's total bounds all of them together"
        )
    shared = f", with allowances inside it: {', '.join(inside)}" if inside else ""
    return (
        f"one total for all analysts{shared}; analysts may share everything, since the "
        "total alone is promised"
    )


def _describe_composition(of: Deployment) -> str:
    total = of.total
    rule = (
        "no budget yet"
        if total is None
        else {
            "pure": "sums of epsilon",
            "approx": "sums of epsilon and of delta",
            "zcdp": "sums of rho, and of the deltas of key selection (approximate zCDP filter)",
            "rdp": "sums at one order fixed in advance (Renyi filter)",
        }[total.rule]
    )
    return (
        "a privacy filter, valid for questions and prices chosen after seeing answers: "
        f"{rule}; exact rationals"
    )


def _describe_preprocessing(of: Deployment) -> str:
    bounds = [
        f"{name} from {column.provenance}"
        for name, column in of.columns()
        if isinstance(column, (Integer, Decimal, Date, Timestamp))
    ]
    lists = [name for name, column in of.columns() if isinstance(column, Category)]
    return (
        "rows are cast, clamped, rounded and limited by rules that a person wrote before looking; "
        "bounds: "
        + ("; ".join(bounds) or "none")
        + (f"; listed keys: {', '.join(lists)}" if lists else "")
        + "; "
        + PROMPT
        + "was anything tuned on the data, and was that charged?"
    )


def _describe_mechanisms(of: Deployment) -> str:
    used = ", ".join(of.mechanisms()) or "nothing was released yet"
    return (
        f"losses released: {used}; implemented by dither {__version__}; noise is exact on integers "
        f"(no floating point "
        "on the way from data to answer); keyed by the operating system's generator; errors after "
        "a charge are one "
        "constant text; timing: "
        + EMBEDDED[1]
        + "; "
        + PROMPT
        + "how the machine and its backups are protected"
    )
