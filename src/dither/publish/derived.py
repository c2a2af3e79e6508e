"""Certificates of answers that were computed from earlier releases alone.

Nothing new is lost, and nothing is free: what such an answer tells was paid for with its sources.
The certificate names them and states the guarantee of their composition, never an epsilon of 0.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dither.canonical import digest
from dither.privacy.charges.rules import charge_from_amounts
from dither.privacy.kernel.release import Release
from dither.privacy.ledger import Pot
from dither.privacy.ledger.pots import charge_of
from dither.privacy.losses import compose
from dither.publish.certificate import (
    describe_steps,
    format_exact,
    format_rounded_up,
    state_charge,
)

FROM_EARLIER = "answered from earlier releases"


def write_derived_body(
    body: dict[str, Any], sources: tuple[Release, ...], total: Pot, plan_hash: str
) -> dict[str, Any]:
    """The body of a certificate of the first source, changed into that of what all sources tell.

    `total` paid for every source. What it took for them is added up: their prices may have followed
    from earlier answers, so the conversion of their joint loss does not hold for them.
    """
    names = [source.release_id for source in sources]
    loss = compose(*(source.priced.loss for source in sources))
    charges = [charge_of(total, source.priced.loss) for source in sources]
    taken = charge_from_amounts(
        sum((charge.amount for charge in charges), Fraction(0)),
        sum((charge.delta for charge in charges), Fraction(0)),
    )
    epsilon, delta, native = state_charge(total, taken)
    version = sources[0].version
    stated = (
        f"no new loss; covered by releases {', '.join(names)}, whose losses compose to epsilon "
        f"{format_rounded_up(epsilon)} at delta {format_rounded_up(delta)}, for one "
        f"{version.catalog.unit.label} ({version.catalog.neighbours})"
    )
    return body | {
        "release": body["release"]
        | {
            "id": f"derived from {', '.join(names)}",
            "released_at": max(source.released_at for source in sources),
            "repeated": True,
            "request_hash": digest([source.priced.request.hash for source in sources]),
            "plan_hash": plan_hash,
        },
        "guarantee": body["guarantee"]
        | {
            "native": native,
            "epsilon": format_exact(epsilon),
            "delta": format_exact(delta),
            "stated": stated,
        },
        "mechanisms": [step for source in sources for step in describe_steps(source)],
        "price": {"asked": "nothing new", "loss": loss.to_json(), "charges": {}},
        "post_processing": [f"{FROM_EARLIER}: {', '.join(names)}", *body["post_processing"]],
    }
