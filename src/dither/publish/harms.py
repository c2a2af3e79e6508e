"""What differential privacy does about the harms that privacy law names, and what not.

A table for every report, so that nobody reads a guarantee as more than it is. The families are
Solove's taxonomy; what is said about each is ours. It bounds what the *answers* add to what anyone
could learn; on all else it is silent.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Coverage = Literal["bounded", "partly", "not covered"]


class Harm(NamedTuple):
    """One kind of harm, how far it is covered, and what else has to stand for it."""

    family: str
    harm: str
    coverage: Coverage
    note: str


HARMS: tuple[Harm, ...] = (
    Harm(
        "collection",
        "surveillance",
        "not covered",
        "collect less; more people make answers better, not watching less",
    ),
    Harm("collection", "interrogation", "not covered", "ask only what a stated purpose needs"),
    Harm(
        "processing",
        "aggregation",
        "partly",
        "answers about many are allowed; those about one are bounded",
    ),
    Harm(
        "processing",
        "identification",
        "partly",
        "bounded from the answers; other sources stay what they are",
    ),
    Harm("processing", "insecurity", "not covered", "access control, encryption, backups, updates"),
    Harm(
        "processing",
        "secondary use",
        "not covered",
        "each budget states its purpose; people must hold to it",
    ),
    Harm("processing", "exclusion", "not covered", "tell people what is held and let them object"),
    Harm(
        "dissemination",
        "disclosure by an answer",
        "bounded",
        "by epsilon and delta, whatever else is known",
    ),
    Harm(
        "dissemination",
        "breach of the raw data",
        "not covered",
        "the curator holds the rows in the clear",
    ),
    Harm(
        "dissemination",
        "exposure, blackmail, appropriation",
        "partly",
        "only so far as they would use the answers",
    ),
    Harm(
        "dissemination",
        "increased accessibility",
        "not covered",
        "who may ask is decided by people",
    ),
    Harm(
        "dissemination",
        "distortion",
        "not covered",
        "noise is stated with every answer; misuse of it is not prevented",
    ),
    Harm(
        "invasion",
        "intrusion",
        "not covered",
        "a true finding about a group can be acted on against its members",
    ),
    Harm(
        "invasion", "decisional interference", "not covered", "govern decisions, not only answers"
    ),
)
"""In the order of the life of data: collected, processed, passed on, acted on."""

FORBIDDEN = ("anonym", "complian", "no risk", "risk-free", "guaranteed safe")
"""Words that a report may not use: they promise what no answer can."""
