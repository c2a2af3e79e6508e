"""A statement in the shape that NIST SP 800-226 suggests: what must be said about a deployment,
point by point.

Filled from catalog and ledger; what only a person knows stays a prompt. (The points are read from
the initial public draft; the wording is ours. The statement is evidence towards a review, not the
outcome of one.)
"""

from __future__ import annotations

from collections.abc import Iterator

from dither.catalog.explain import UNPROTECTED
from dither.publish.certificate import VARIANTS, format_rounded_up
from dither.publish.deployment import Deployment
from dither.publish.hazards import Hazard, find_hazards
from dither.publish.registry import fill_entry
from dither.publish.registry_schema import PROMPT
from dither.surfaces import escape_lines
from dither.version import __version__


def write_statement(deployment: Deployment) -> str:
    """Write the statement as Markdown."""
    lines = [f"# Privacy statement: {deployment.catalog.dataset}", "", *_write_intro(deployment)]
    for title, body in _list_sections(deployment):
        lines += ["", f"## {title}", "", *(f"- {line}" for line in body)]
    return escape_lines("\n".join(lines) + "\n")


def _write_intro(deployment: Deployment) -> Iterator[str]:
    """Write the paragraph before the sections: where the facts come from."""
    yield (
        f"Filled by dither {__version__} from the registered catalog and the ledger of the dataset "
        f"{deployment.catalog.dataset} ({deployment.context}). Lines that begin with "
        f"*{PROMPT.strip()}* are for a person."
    )


def _list_sections(deployment: Deployment) -> Iterator[tuple[str, list[str]]]:
    """List the sections a to k of NIST's list, and the hazards, each with its sentences."""
    filled = fill_entry(deployment)["deployment"]
    loss = filled["privacy_loss"]
    model = filled["deployment_model"]
    yield "a. Variant and parameters", _state_parameters(deployment)
    yield "b. Unit of privacy", [loss["privacy_unit_details"], *_list_unprotected(deployment)]
    yield "c. Trust", [model["model_name_details"], model["actors"]]
    yield "d. Query model and budget", [model["release_type_details"], model["access_type_details"]]
    other_releases = [
        PROMPT + "what else was or will be published from the same data without noise"
    ]
    yield "e. Other releases from the same data", other_releases + list(deployment.population_notes)
    yield "f. Mechanisms and library", [filled["implementation"]["mechanisms"]]
    yield (
        "g. Bins, keys and bounds",
        [filled["implementation"]["preprocessing_and_hyperparameter_tuning"]],
    )
    yield (
        "h. Utility, bias and small groups",
        [
            "every answer carries an interval that covers the exact answer on the registered table "
            "at the stated level",
            "limits and clamps bias sums towards the bounds; intervals do not cover that, and "
            "results name it",
            PROMPT + "what error is tolerable for which decision, and how small groups fare",
        ],
    )
    yield (
        "i. Side channels",
        [
            "floating point: none on the way from data to answer",
            "backend errors: one constant response after a charge; earlier failures read no data",
            "time: embedded mode makes no promise",
            f"not covered by noise: {'; '.join(UNPROTECTED)}",
        ],
    )
    yield (
        "j. Security and access control",
        [PROMPT + "who can read the state folder, its backups and the source"],
    )
    yield (
        "k. Why the data was collected",
        [
            *(
                f"budget {pot.name}: {pot.question} About {pot.population}."
                for pot in deployment.pots
            ),
            PROMPT + "why it was collected, on what basis, and when it is deleted",
        ],
    )
    yield "Hazards to look at", [_write_line(hazard) for hazard in find_hazards(deployment)]


def _write_line(hazard: Hazard) -> str:
    return f"**{hazard.name}**{' (to answer)' if hazard.ask else ''}: {hazard.message}"


def _state_parameters(deployment: Deployment) -> list[str]:
    """State the total budget in its own measure, as (epsilon, delta), and what that means."""
    total = deployment.total
    guarantee = deployment.guarantee()
    if total is None or guarantee is None:
        return [PROMPT + "no budget was opened yet: dither budget open --help"]
    cap = (
        f"{total.rule.measure} {format_rounded_up(total.ceiling)}, all deltas together "
        "at most delta "
    )
    cap += format_rounded_up(total.rule.delta_cap)
    native = f"{VARIANTS[total.rule.name]}: {cap}, for one {total.unit}, at the ceiling"
    epsilon, delta = map(format_rounded_up, guarantee)
    pair = (
        f"as a pair: epsilon {epsilon} at delta {delta}, for one {total.unit} ({total.neighbours})"
    )
    return [native, pair, *deployment.meaning()[1:]]


def _list_unprotected(deployment: Deployment) -> list[str]:
    """List the people whom the catalog declares as not protected, with the reason."""
    return [
        f"not protected: people named by {p.key}, because {p.because}"
        for p in deployment.catalog.people
        if not p.protected
    ]
