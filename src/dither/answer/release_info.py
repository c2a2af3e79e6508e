"""What a result says of its release: `Result.info`."""

from __future__ import annotations

from typing import Any

from dither.answer.curator_access import AskedThrough
from dither.canonical import fraction_text
from dither.catalog.explain import UNPROTECTED
from dither.privacy.kernel.kernel import DRY_RUN, Release
from dither.publish.budget import LabelledGuarantee
from dither.publish.library import LIBRARY, NO_TOTAL
from dither.question.recipe import Recipe
from dither.version import LOSS_VERSION, __version__

ABOUT_NOBODY = "a rehearsal on invented rows: about nobody, nothing was read and nothing was spent"


def describe_release(
    release: Release,
    recipe: Recipe,
    person: LabelledGuarantee | None,
    asked_through: AskedThrough,
) -> dict[str, Any]:
    """Describe a release: what was asked of which data, at which price, and what the pot paid.

    `person` is the guarantee over all windows, for datasets whose unit is (person, window).
    """
    catalog = release.version.catalog
    price = release.priced.request.price
    pot_name = release.priced.request.pot
    path = release.priced.view.path  # only a dry run can have no pot
    pot = path[0] if path else None
    return {
        "release_id": release.release_id,
        "repeated": release.repeated,
        "dataset": catalog.dataset,
        "lineage": catalog.lineage,
        "version": release.version.number,
        "catalog_hash": release.version.catalog_hash,
        "plan_hash": recipe.plan_hash,
        "sql": recipe.sql,
        "context": release.version.context,
        "mode": asked_through.mode,
        "principal": asked_through.principal,
        "pot": pot_name,
        "rule": "none" if pot is None else pot.rule.name,
        "measure": price.name if pot is None else pot.rule.measure,
        "unit": catalog.unit.label,
        "neighbours": catalog.neighbours,
        "price_asked": fraction_text(price.value),
        "price_in": price.name,
        "charged": fraction_text(release.charged),
        "charges": {
            name: list(map(fraction_text, taken)) for name, taken in release.charges.items()
        },
        "loss": release.priced.loss.to_json(),
        "pot_spent_after": fraction_text(release.spent_after),
        "pot_cap": fraction_text(release.cap),
        "released_at": release.released_at,
        "dither_version": __version__,
        "loss_version": LOSS_VERSION,
        "unprotected": list(UNPROTECTED),
        **({"library": NO_TOTAL} if release.version.context == LIBRARY else {}),
        **({"person": str(person)} if catalog.unit.column else {}),
        **({"about": ABOUT_NOBODY} if release.version.context == DRY_RUN else {}),
    }
