"""Certificates: what was promised for one release, as signed JSON that anyone can check with the
public key alone.

The body holds parameters and public facts only: no value, row count, duration or fingerprint of
data, and nothing of keys that were not shown. It needs no secret: whoever holds the file may read
it. `seal.py` signs and checks it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from decimal import Decimal as Digits
from fractions import Fraction
from typing import Any

from dither.canonical import fraction_text
from dither.catalog import Boolean, Bounded, Category, Column, Date, FromPublic, Timestamp
from dither.catalog.explain import UNPROTECTED, list_rules
from dither.catalog.scalar_texts import write_days, write_seconds
from dither.plan.algebra import Scan, nodes_of, plan_hash
from dither.plan.algebra import to_json as plan_json
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.kernel.release import Release
from dither.privacy.ledger import Charge, Incident, Pot
from dither.privacy.ledger.pots import charge_of
from dither.publish.budget import LabelledGuarantee
from dither.version import LOSS_VERSION, __version__

VARIANTS = {
    "pure": "pure differential privacy",
    "approx": "(epsilon, delta)-differential privacy",
    "zcdp": "approximate zero-concentrated differential privacy",
    "rdp": "Renyi differential privacy at one order",
}


@dataclass(frozen=True)
class CertificateMode:
    """How a dataset is served, and what that does not promise."""

    name: str
    not_promised: tuple[str, ...]


EMBEDDED = CertificateMode(
    "embedded",
    (
        "embedded mode protects what was released, not the data from the person who runs dither",
        "embedded mode makes no promise about how long answers take",
        "the signing key of embedded mode is readable by whoever runs dither",
    ),
)


def write_body(
    release: Release,
    sql: str,
    limits: Iterable[str],
    pot_path: tuple[Pot, ...],
    incidents: Iterable[Incident],
    post_processing: Iterable[str] = (),
    over_windows: LabelledGuarantee | None = None,
    commitment: str = "",
    mode: CertificateMode = EMBEDDED,
) -> dict[str, Any]:
    """Write the body of a release's certificate.

    `pot_path` is the paying pot and all pots around it.

    The pots stand as they do when the certificate is made, by what was released until then: what is
    under way does not show (rule release-times-only).
    """
    priced = release.priced
    version = release.version
    pot = pot_path[0]
    catalog = version.catalog
    price = priced.request.price
    return {
        "release": {
            "id": release.release_id,
            "released_at": release.released_at,
            "repeated": release.repeated,
            "sql": sql,
            "request_hash": priced.request.hash,
            "plan_hash": hash_plan(release),
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
        "guarantee": _state_guarantee(release, pot),
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
        "mechanisms": describe_steps(release),
        "bounds": list_bounds(release),
        "limits": sorted({*filter(_is_stated, limits), *list_table_limits(release)}),
        "price": {
            "asked": f"{price.name} {format_exact(price.value)}",
            "loss": priced.loss.to_json(),
            "charges": {
                name: [format_exact(taken.amount), format_exact(taken.delta)]
                for name, taken in release.charges.items()
            },
        },
        "pots": {pot.name: describe_pot(pot, release.charges.get(pot.name)) for pot in pot_path},
        "post_processing": list(post_processing),
        "values": {"commitment": commitment},
        "unprotected": [*UNPROTECTED, *list_rules(catalog)],
        "incidents": [
            {"reserve": incident.reserve, "code": incident.code} for incident in incidents
        ],
        "software": {"dither": __version__, "losses": LOSS_VERSION},
    }


def state_over_windows(guarantee: LabelledGuarantee) -> str:
    """Write the person-level figure of a (person, window) unit.

    It holds over all windows that the catalog declares.
    """
    pair = (
        f"epsilon {format_rounded_up(guarantee.epsilon)} at delta "
        f"{format_rounded_up(guarantee.delta)}"
    )
    return f"{guarantee.label}: {pair}, for one {guarantee.unit}"


def hash_plan(release: Release) -> str:
    """Hash the plan of a release; of several queries, all of them in order."""
    hashes = [plan_hash(step.query) for step in release.priced.request.steps]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def format_exact(value: Fraction) -> str:
    """Format a fraction as its shortest exact decimal, else as p/q."""
    denominator = value.denominator
    twos = 0
    fives = 0
    while denominator % 2 == 0:
        denominator //= 2
        twos += 1
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    decimals = max(twos, fives)
    if denominator != 1 or decimals > 12:
        return fraction_text(value)
    digits = str(abs(value.numerator) * 10**decimals // value.denominator).rjust(decimals + 1, "0")
    text = digits if decimals == 0 else f"{digits[:-decimals]}.{digits[-decimals:]}"
    return f"-{text}" if value < 0 else text


def _state_guarantee(release: Release, pot: Pot) -> dict[str, Any]:
    """State the guarantee of this release alone.

    It has the rule's own parameters, and (epsilon, delta).
    """
    taken = release.charges.get(pot.name)
    priced = release.priced
    epsilon, total, native = state_charge(pot, taken or charge_of(pot, priced.loss))
    unit = priced.version.catalog.unit.label
    neighbours = priced.version.catalog.neighbours
    stated = (
        f"epsilon {format_rounded_up(epsilon)} at delta {format_rounded_up(total)}, "
        f"for one {unit} ({neighbours})"
    )
    return {
        "variant": VARIANTS[pot.rule.name],
        "native": native,
        "epsilon": format_exact(epsilon),
        "delta": format_exact(total),
        "stated": stated,
    }


def state_charge(pot: Pot, taken: Charge) -> tuple[Fraction, Fraction, dict[str, str]]:
    """Epsilon and delta that a charge stands for by a pot's rule, and the rule's own parameters."""
    rule = pot.rule
    amount, delta = taken
    native = {rule.measure: format_exact(amount), "delta": format_exact(delta)}
    native |= {"alpha": format_exact(rule.alpha)} if rule.name == "rdp" else {}
    if rule.name in ("pure", "approx"):
        return amount, delta, native
    epsilon, total = rule.guarantee(amount)
    return epsilon, total - rule.delta_selection + delta, native


def format_rounded_up(value: Fraction) -> str:
    """Format a number with at most six significant digits, rounded up.

    >>> format_rounded_up(Fraction(1, 2)), format_rounded_up(Fraction(1,
    ...     3)), format_rounded_up(Fraction(1, 10**6))
    ('0.5', '0.333334', '1e-6')
    """
    up = Context(prec=6, rounding=ROUND_CEILING)
    decimal = up.divide(Digits(value.numerator), Digits(value.denominator)).normalize(up)
    return f"{decimal:f}" if decimal == 0 or decimal >= Digits("1e-4") else f"{decimal:e}"


def describe_pot(pot: Pot, taken: Charge | None) -> dict[str, Any]:
    """Describe a pot: its rule, what this release took, its totals and what it promises."""
    epsilon, delta = pot.rule.guarantee(pot.ceiling)
    return {
        "kind": pot.kind,
        "rule": {
            key: value if key == "name" else format_exact(value)
            for key, value in pot.rule.to_body().items()
        },
        "measure": pot.rule.measure,
        "paid": format_exact(taken.amount if taken else Fraction(0)),
        "paid_delta": format_exact(taken.delta if taken else Fraction(0)),
        "cumulative": format_exact(pot.spent),
        "cap": format_exact(pot.cap),
        "ceiling": format_exact(pot.ceiling),
        "whatever_is_asked": {"epsilon": format_rounded_up(epsilon), "delta": format_exact(delta)},
        "purpose": {
            "question": pot.question,
            "population": pot.population,
            "recipient": pot.recipient,
        },
    }


def describe_steps(release: Release) -> list[dict[str, Any]]:
    """Describe the mechanism of every step of a release."""
    return [_describe_mechanism(calibrated) for calibrated in release.priced.steps]


def _describe_mechanism(calibrated: Calibrated) -> dict[str, Any]:
    """Describe the mechanism of one step: its noise, its scale and what it was asked."""
    mechanism = calibrated.mechanism
    step = calibrated.step
    document: dict[str, Any] = {
        "mechanism": mechanism.stored_name,
        "family": step.family,
        "share": format_exact(step.weight),
        "answers": plan_json(step.query)["type"],
        "loss": calibrated.loss().to_json(),
    }
    document |= {name: format_exact(value) for name, value in mechanism.parameters.items()}
    if sensitivity := mechanism.sensitivity_document():
        document["sensitivity"] = {
            key: format_exact(value) if isinstance(value, Fraction) else value
            for key, value in sensitivity.items()
        }
    return document


def list_used_columns(release: Release) -> dict[str, tuple[Column, ...]]:
    """List the columns that the plans name, by registered table.

    A name anywhere in a plan counts.
    """
    used: dict[str, tuple[Column, ...]] = {}
    for calibrated in release.priced.steps:
        tree = plan_json(calibrated.step.query)
        named = {text.lower() for text in _list_texts(tree)}
        for node in nodes_of(calibrated.step.query.plan):
            if isinstance(node, Scan):
                table = release.version.catalog.table(node.table)
                used_names = {column.name for column in used.get(table.name, ())}
                columns = tuple(
                    c for c in table.columns if c.name.lower() in named or c.name in used_names
                )
                used[table.name] = columns
    return used


def _list_texts(tree: Any) -> Iterator[str]:
    """List all texts in a tree of dicts and lists, without the keys."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _list_texts(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _list_texts(value)


def list_bounds(release: Release) -> dict[str, Any]:
    """Map each column used to its bounds, list and null rule, with where they came from."""
    bounds: dict[str, Any] = {}
    for table, columns in list_used_columns(release).items():
        for column in columns:
            if bound := _describe_bound(column):
                bounds[f"{table}.{column.name}"] = bound
    return bounds


def _describe_bound(column: Column) -> dict[str, Any]:
    """Describe what a column may hold, and where that is known from."""
    if isinstance(column, Category):
        if isinstance(column.values, tuple):
            return {
                "values": list(column.values),
                "provenance": "listed in the catalog",
                "other": str(column.other),
            }
        if isinstance(column.values, FromPublic):
            return {
                "values": f"public {column.values.table}.{column.values.column}",
                "provenance": "a public table",
            }
        return {"values": "not listed", "provenance": "keys shown by private selection alone"}
    if not isinstance(column, Bounded):
        return {}
    if isinstance(column, Boolean):
        return {"lower": "false", "upper": "true", "provenance": "the type"}
    show: Callable[[Fraction], str] = format_exact
    if isinstance(column, Date):
        show = _format_day
    elif isinstance(column, Timestamp):
        show = _format_second
    ends = {
        "lower": show(column.lower_grid * column.step),
        "upper": show(column.upper_grid * column.step),
    }
    provenance = str(getattr(column, "provenance", "the type"))
    return ends | {
        "resolution": format_exact(column.step),
        "nulls": column.nulls.rule,
        "provenance": provenance,
    }


def _format_day(value: Fraction) -> str:
    return write_days(int(value))


def _format_second(value: Fraction) -> str:
    return write_seconds(int(value), 0)


def _is_stated(limit: str) -> bool:
    """Whether a limit is stated as it is.

    Rows per unit are stated for each table instead, with its name.
    """
    return not re.fullmatch(r"at most \d+ rows? per \w+", limit)


def list_table_limits(release: Release) -> set[str]:
    """List how many rows of one unit the registered tables hold."""
    catalog = release.version.catalog
    limits = set()
    for name in list_used_columns(release):
        table = catalog.table(name)
        if table.kind == "private" and table.rows_per_unit is not None:
            limits.add(
                f"at most {table.rows_per_unit} rows of {table.name} per {catalog.unit.label}"
            )
    return limits
