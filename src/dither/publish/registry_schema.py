"""The schema of the OpenDP deployments registry, and the checks of an entry against it.

The fields are those of the registry's schema at commit 3e9c812 (schemas/deployments-schema.yaml);
unknown fields are refused there and here. `find_problems` checks an entry, also one that a person
has filled in.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import yaml

from dither.errors import DitherError

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
VARIANTS = {
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
            "variant_name": (*VARIANTS.values(), "Custom"),
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


class _StrictLoader(yaml.SafeLoader):
    """Reads YAML and refuses a field that is given twice.

    Plain YAML silently keeps the last one.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(keys)) != len(keys):
            raise yaml.YAMLError("a field is there twice")
        return dict(super().construct_mapping(node, deep))


def read_entry(text: str) -> Any:
    """Read the entry that a YAML text holds.

    A text is refused where two readers could see two entries, or where it has no end.
    """
    try:
        _check_size(text)
        return yaml.load(text, _StrictLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise DitherError(
            "this is no register entry: YAML with each field once, without aliases, as 'dither "
            "registry export CATALOG' writes"
        ) from None


def _check_size(text: str) -> None:
    """Refuse what is long or deep before it is built.

    Aliases are refused too: by them a short text grows without end.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("too long")
    depth = 0
    for token in yaml.scan(text):
        depth += isinstance(token, _OPENING)
        depth -= isinstance(token, _CLOSING)
        if depth > _MOST_DEPTH or isinstance(token, yaml.AliasToken):
            raise ValueError("too deep, or an alias")


def find_problems(document: Any) -> list[str]:
    """Find what is wrong with an entry by the schema, field by field.

    Prompts that are left count too.
    """
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
    """List what is wrong with a value by its part of the schema, field by field."""
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
        # 1 == True.
        listed = any(type(value) is type(choice) and value == choice for choice in want)
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
    """Say whether a text is a date in ISO format."""
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
