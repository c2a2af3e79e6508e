"""Acts that a steward signs: which fields each kind has, and the draft that is signed.

The draft is what `dither sign` takes. Nonce and expiry are set by the one who signs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.ledger.pots import sentence
from dither.protocol.act_messages import LimitHead
from dither.strict_json import read_json

FORMAT = 1
MOST_SIGNED = 100_000
MOST_TERM = 500


@dataclass(frozen=True)
class ActField:
    """A term of an act, as the page asks for it."""

    name: str
    label: str
    help: str = ""
    is_required: bool = True


@dataclass(frozen=True)
class ActForm:
    """A kind of act."""

    title: str
    fields: tuple[ActField, ...]


_PURPOSE = (
    ActField(
        "question",
        "What would you tell a member of the public that this budget is for?",
        "One sentence of three words or more, which the register shows.",
    ),
    ActField("population", "Whom is it about?"),
    ActField("recipient", "Who receives the answers?"),
)
_REASON = ActField("reason", "Reason", "A sentence of three words or more, kept for ever.")
_SENTENCES = ("reason", "question")
"""Terms that the ledger refuses where they say nothing: better told before the act is signed."""
ACT_FORMS: dict[str, ActForm] = {
    "raise": ActForm(
        "Raise the cap of a budget",
        (
            ActField("pot", "Budget"),
            ActField("cap", "New cap", "At most the ceiling, which was fixed at opening."),
            _REASON,
        ),
    ),
    "open": ActForm(
        "Open a budget",
        (
            ActField("pot", "Name"),
            ActField("epsilon", "Cap in epsilon", "Or in rho, below.", is_required=False),
            ActField("rho", "Cap in rho", is_required=False),
            ActField("ceiling", "Ceiling", "Fixed for ever; the promise is made for it."),
            *_PURPOSE,
            ActField("inside", "Inside which budget", is_required=False),
            ActField("kind", "Kind (group, analyst, ...)", is_required=False),
        ),
    ),
    "clear": ActForm("Clear a suspension", (_REASON,)),
    "register": ActForm(
        "Register the data anew",
        (
            ActField(
                "catalog_hash",
                "Hash of the catalog",
                "That of the catalog file on the curator's machine.",
            ),
        ),
    ),
    "user": ActForm(
        "Make a user",
        (
            ActField("name", "Name", "NAME@DATASET; the end is added where it is left out."),
            ActField(
                "issuer",
                "Issuer of their account",
                "For single sign-on, with the subject. Without it a password is set on the "
                "curator's machine.",
                is_required=False,
            ),
            ActField("subject", "Subject of their account", is_required=False),
        ),
    ),
    "end-user": ActForm("End a user", (ActField("name", "Name"),)),
    "grant": ActForm(
        "Grant a role",
        (
            ActField("id", "Id", "Eight hex digits, not used before."),
            ActField("holder", "For whom", "user:NAME or group:NAME"),
            ActField("role", "Role", "analyst, auditor, steward or admin"),
            ActField("pots", "Budgets", "Names with commas between them.", is_required=False),
            ActField("purpose", "What for"),
            ActField("expires", "Until", "A time in UTC such as 2027-03-01T12:00:00+00:00"),
        ),
    ),
    "end-grant": ActForm("End a grant", (ActField("id", "Id of the grant"),)),
}


def draft_act(head: LimitHead, kind: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The act to be signed: for this dataset, while limits and roles stand as the heads say."""
    if kind not in ACT_FORMS:
        raise ParameterError(f"an act is one of {', '.join(ACT_FORMS)}")
    terms: dict[str, Any] = {}
    for term in ACT_FORMS[kind].fields:
        text = form.get(term.name, "").strip()
        if len(text) > MOST_TERM:
            raise ParameterError(f"{term.label}: at most {MOST_TERM} characters")
        if term.is_required and not text:
            raise ParameterError(f"{term.label}: say something here")
        if term.name in _SENTENCES:
            sentence(text, term.label, "a second report was approved")
        if text:
            terms[term.name] = text
    if kind == "grant":
        names = terms.get("pots", "").split(",")
        terms["pots"] = [name.strip() for name in names if name.strip()]
    if kind in ("grant", "end-grant"):
        terms["dataset"] = head.dataset
    if kind == "user":
        account = {"issuer": None, "subject": None}
        name = terms["name"]
        terms = account | terms | {"name": name if "@" in name else f"{name}@{head.dataset}"}
    return {
        "dither_act": FORMAT,
        "dataset": head.dataset,
        "lineage": head.lineage,
        "ledger_head": head.ledger_head,
        "acts_head": head.acts_head,
        "kind": kind,
        "terms": terms,
    }


def read_signed_text(text: str) -> dict[str, Any]:
    """The document that `dither sign` printed; ParameterError where it is none."""
    try:
        if len(text) > MOST_SIGNED:
            raise ValueError("too long")
        document = read_json(text)
    except ValueError:
        raise ParameterError(
            "paste the whole JSON that was printed when the act was signed"
        ) from None
    if not isinstance(document, dict):
        raise ParameterError(f"a signed act is an object, got {quote(document)}")
    return document
