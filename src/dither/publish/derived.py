"""Certificates of answers that were computed from several releases.

Nothing is free: what such an answer tells was paid for with its sources, earlier or by this very
answer. The certificate names them and states the guarantee of their composition, never an epsilon
of 0. It says "no new loss" only where no source was charged for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dither.canonical import digest
from dither.privacy.charges.rules import Charge, charge_from_amounts
from dither.privacy.kernel.release import Release
from dither.privacy.ledger import Pot
from dither.privacy.ledger.pots import charge_of
from dither.privacy.losses import compose
from dither.publish.budget import label_running_sum
from dither.publish.certificate import (
    VARIANTS,
    describe_steps,
    format_exact,
    format_rounded_up,
    list_bounds,
    list_table_limits,
    state_charge,
)

FROM_EARLIER = "answered from earlier releases"


def write_derived_body(
    body: dict[str, Any], sources: tuple[Release, ...], total: Pot, plan_hash: str
) -> dict[str, Any]:
    """The body of a certificate of the first source, changed into that of what all sources tell.

    `total` paid for every source. What it took for them is added up: their prices may have followed
    from earlier answers, so the conversion of their joint loss does not hold for them. Nor does
    that of their sum, unless one plan fixed all prices: it is then labelled.
    """
    names = ", ".join(source.release_id for source in sources)
    taken = _add_charges([charge_of(total, source.priced.loss) for source in sources])
    epsilon, delta, native = state_charge(total, taken)
    version = sources[0].version
    charges = _add_by_pot(sources)
    stated = (
        f"{'' if charges else 'no new loss; '}covered by releases {names}, whose losses compose to "
        f"epsilon {format_rounded_up(epsilon)} at delta {format_rounded_up(delta)}, for one "
        f"{version.catalog.unit.label} ({version.catalog.neighbours})"
        f"{'' if _is_one_plan(sources) else label_running_sum(total)}"
    )
    words = "computed from releases" if charges else FROM_EARLIER
    return body | {
        "release": body["release"]
        | {
            "id": f"derived from {names}",
            "released_at": max(source.released_at for source in sources),
            "repeated": not charges,
            "request_hash": digest([source.priced.request.hash for source in sources]),
            "plan_hash": plan_hash,
        },
        "guarantee": body["guarantee"]
        | {
            "variant": VARIANTS[total.rule.name],
            "native": native,
            "epsilon": format_exact(epsilon),
            "delta": format_exact(delta),
            "stated": stated,
        },
        "mechanisms": [step for source in sources for step in describe_steps(source)],
        "bounds": {
            name: bound for source in sources for name, bound in list_bounds(source).items()
        },
        "limits": sorted({*body["limits"], *_list_limits(sources)}),
        "price": {
            "asked": _write_asked(sources),
            "loss": compose(*(source.priced.loss for source in sources)).to_json(),
            "charges": {
                name: [format_exact(charge.amount), format_exact(charge.delta)]
                for name, charge in charges.items()
            },
        },
        "pots": {
            name: document | _write_paid(charges.get(name))
            for name, document in body["pots"].items()
        },
        "post_processing": [f"{words}: {names}", *body["post_processing"]],
    }


def _is_one_plan(sources: Sequence[Release]) -> bool:
    """Whether one plan fixed all prices: there is one source, or this answer paid for all."""
    return len(sources) == 1 or all(source.charges for source in sources)


def _list_limits(sources: Sequence[Release]) -> set[str]:
    """How many rows of one unit the tables of all sources hold."""
    return set().union(*(list_table_limits(source) for source in sources))


def _add_by_pot(sources: Sequence[Release]) -> dict[str, Charge]:
    """What every pot paid for the sources when they were asked for this answer."""
    names = dict.fromkeys(name for source in sources for name in source.charges)
    return {
        name: _add_charges([source.charges[name] for source in sources if name in source.charges])
        for name in names
    }


def _add_charges(charges: Sequence[Charge]) -> Charge:
    return charge_from_amounts(
        sum((charge.amount for charge in charges), Fraction(0)),
        sum((charge.delta for charge in charges), Fraction(0)),
    )


def _write_asked(sources: Sequence[Release]) -> str:
    """The prices of the sources that were charged for, added up for each measure."""
    asked: dict[str, Fraction] = {}
    for source in sources:
        price = source.priced.request.price
        if source.charges:
            asked[price.name] = asked.get(price.name, Fraction(0)) + price.value
    words = [f"{name} {format_exact(value)}" for name, value in asked.items()]
    return " and ".join(words) or "nothing new"


def _write_paid(charge: Charge | None) -> dict[str, str]:
    amount, delta = (Fraction(0), Fraction(0)) if charge is None else charge
    return {"paid": format_exact(amount), "paid_delta": format_exact(delta)}
