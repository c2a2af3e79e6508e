"""Does an act that a steward signed elsewhere, or refuses it.

In this order: the signature by a key that is pinned for this dataset; dataset, lineage, expiry and
heads; the nonce, which is used up in the act log before anything is done. So an act is done at most
once, on the limits that the steward saw, whoever carries it.
"""

from __future__ import annotations

from typing import Any

from dither.curator.dataset import ServedDataset
from dither.errors import ParameterError
from dither.identity.act_bodies import SIGNABLE_ROLE_ACTS, check_signed_roles
from dither.identity.act_log import ActLog
from dither.identity.directory import Directory, StewardKey, name_key
from dither.identity.signed_acts import LIMIT_ACTS, NOT_SIGNED, SignedAct, read_signed_act
from dither.protocol.act_messages import ActDone, LimitHead
from dither.protocol.errors import AccessError

OTHER_HEAD = (
    "limits or roles changed since this act was drafted: look at them, draft the act again and "
    "sign it"
)


def read_limit_head(dataset: ServedDataset, acts: ActLog) -> LimitHead:
    """What an act on this dataset must name."""
    lineage, ledger_head = dataset.limits.read_head()
    return LimitHead(
        dataset=dataset.name, lineage=lineage, ledger_head=ledger_head, acts_head=acts.head
    )


def do_signed_act(document: Any, dataset: ServedDataset, acts: ActLog) -> ActDone:
    """Do a signed act on a dataset; one at a time."""
    act = read_signed_act(document)
    key = _find_key(act, dataset.name, acts.read_directory())
    act.check_signature()
    act.check_time()
    roles = _read_roles(act)
    body = {"act": "signed", "kind": act.kind, "dataset": act.dataset, "nonce": act.nonce}
    with dataset.limits.lock:
        _check_ledger(act, dataset)

        def check(acts_head: str, directory: Directory) -> None:
            _find_key(act, dataset.name, directory)
            if act.nonce not in directory.nonces and act.acts_head != acts_head:
                raise ParameterError(OTHER_HEAD)

        who = f"steward-key:{key.name}:{act.public_key[:16]}"
        acts.record({**body, "roles": roles}, who, act.evidence, check=check)
        if roles is not None:
            return ActDone(act=act.kind, sentence=f"the act {act.kind} is done")
        sentence = dataset.limits.do_act(act.kind, act.terms)
        if act.kind == "register":
            dataset.reopen()
    return ActDone(act=act.kind, sentence=sentence)


def _find_key(act: SignedAct, dataset: str, directory: Directory) -> StewardKey:
    """The pinned key of an act; one refusal where it is unknown, ended or another dataset's."""
    key = directory.steward_keys.get(name_key(dataset, act.public_key))
    if key is None or key.is_ended or act.dataset != dataset:
        raise AccessError(NOT_SIGNED)
    return key


def _check_ledger(act: SignedAct, dataset: ServedDataset) -> None:
    """Refuse an act for another lineage, or for limits that have moved since."""
    lineage, ledger_head = dataset.limits.read_head()
    if act.lineage != lineage or act.ledger_head != ledger_head:
        raise ParameterError(OTHER_HEAD)


def _read_roles(act: SignedAct) -> dict[str, Any] | None:
    """The body of an act on roles, None for one on limits; refused where it is neither."""
    if act.kind in LIMIT_ACTS:
        return None
    if act.kind not in SIGNABLE_ROLE_ACTS:
        raise ParameterError(
            f"a signed act is one of {', '.join((*LIMIT_ACTS, *SIGNABLE_ROLE_ACTS))}"
        )
    if "act" in act.terms:
        raise ParameterError("the kind of an act says what it does: its terms have no 'act'")
    roles = {"act": act.kind, **act.terms}
    check_signed_roles(act.dataset, roles)
    return roles
