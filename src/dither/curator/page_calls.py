"""Calls of pages that touch no ledger: saved questions, and who has a role at a dataset."""

from __future__ import annotations

from pydantic import BaseModel

from dither.curator.saved_questions import SavedQuestions
from dither.identity import Authority, Principal
from dither.identity.directory import GROUP, Directory, Grant
from dither.identity.private_file import read_clock
from dither.protocol.page_messages import (
    GrantDocument,
    GrantList,
    ListQuestions,
    ReadGrants,
    RemoveQuestion,
    SaveQuestion,
)

PageCall = SaveQuestion | ListQuestions | RemoveQuestion | ReadGrants
PAGE_CALLS = (SaveQuestion, ListQuestions, RemoveQuestion, ReadGrants)


def serve_page_call(
    call: PageCall, principal: Principal, questions: SavedQuestions, authority: Authority
) -> BaseModel:
    """The result of a call, for a principal that the curator itself has verified."""
    if isinstance(call, SaveQuestion):
        return questions.save(call, principal)
    if isinstance(call, RemoveQuestion):
        return questions.remove(call.name, principal)
    if isinstance(call, ListQuestions):
        return questions.list_visible(principal)
    principal.check_limits()
    return list_grants(principal.dataset, authority)


def list_grants(dataset: str, authority: Authority) -> GrantList:
    """Who may do what at a dataset now."""
    directory = authority.acts.read_directory()
    now = read_clock()
    grants = [
        _describe_grant(grant, directory)
        for grant in directory.grants.values()
        if grant.dataset == dataset and not grant.is_ended and now < grant.expires
    ]
    tokens = [
        GrantDocument(
            id=token.token_id,
            holder=token.name,
            members=[],
            role=token.role,
            pots=list(token.pots),
            purpose="",
            expires=token.expires,
        )
        for token in authority.tokens.list_tokens()
        if token.dataset == dataset and token.is_valid
    ]
    return GrantList(grants=grants, tokens=tokens)


def _describe_grant(grant: Grant, directory: Directory) -> GrantDocument:
    group = directory.groups.get(grant.holder.removeprefix(GROUP))
    is_group = group is not None and grant.holder.startswith(GROUP) and not group.is_ended
    members = sorted(group.members) if group is not None and is_group else []
    return GrantDocument(
        id=grant.grant_id,
        holder=grant.holder,
        members=members,
        role=grant.role,
        pots=list(grant.pots),
        purpose=grant.purpose,
        expires=grant.expires,
    )
