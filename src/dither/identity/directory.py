"""Users, groups, grants and pinned keys: what the acts of a curator add up to.

A grant gives a user or a group one role at one dataset, with the pots that pay and the purpose. A
user has one role at a dataset, whatever groups give: who audits does not ask. `apply_act` is the
only way from one directory to the next, and refuses what makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dither.canonical import quote
from dither.errors import ParameterError
from dither.identity.act_bodies import check_body
from dither.identity.principal import Role

USER = "user:"
GROUP = "group:"
Body = Mapping[str, Any]


@dataclass(frozen=True)
class User:
    """A person. `issuer` and `subject` name the account of single sign-on, where there is one."""

    name: str
    issuer: str | None = None
    subject: str | None = None
    is_ended: bool = False


@dataclass(frozen=True)
class UserGroup:
    """Users who are granted something together."""

    name: str
    members: frozenset[str] = frozenset()
    is_ended: bool = False


@dataclass(frozen=True)
class Grant:
    """One role at one dataset, for a user (`user:alice`) or a group (`group:ward`)."""

    grant_id: str
    dataset: str
    holder: str
    role: Role
    pots: tuple[str, ...]
    purpose: str
    expires: str
    is_ended: bool = False


@dataclass(frozen=True)
class StewardKey:
    """A public key whose signatures move the limits of one dataset."""

    name: str
    dataset: str
    public_key: str
    is_ended: bool = False


@dataclass(frozen=True)
class Issuer:
    """A provider of single sign-on: for whom its tokens are made out, and its pinned keys (JWK)."""

    issuer: str
    audience: str
    keys: tuple[dict[str, str], ...]
    is_ended: bool = False


@dataclass(frozen=True)
class Rights:
    """What one user may do at one dataset."""

    role: Role
    pots: tuple[str, ...]


@dataclass(frozen=True)
class Directory:
    """Everybody and everything that a curator knows, ended ones included: names are not reused."""

    users: Mapping[str, User] = field(default_factory=dict)
    groups: Mapping[str, UserGroup] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)
    steward_keys: Mapping[str, StewardKey] = field(default_factory=dict)
    issuers: Mapping[str, Issuer] = field(default_factory=dict)
    nonces: frozenset[str] = frozenset()

    def find_account(self, issuer: str, subject: str) -> User | None:
        """The user of an account of single sign-on, by issuer and subject and nothing else."""
        for user in self.users.values():
            if (user.issuer, user.subject) == (issuer, subject) and not user.is_ended:
                return user
        return None

    def list_grants(self, name: str, now: str) -> tuple[Grant, ...]:
        """The grants that a user has now, through groups too."""
        user = self.users.get(name)
        if user is None or user.is_ended:
            return ()
        holders = {USER + name}
        holders |= {GROUP + group.name for group in self._list_groups(name)}
        return tuple(
            grant
            for grant in self.grants.values()
            if grant.holder in holders and not grant.is_ended and now < grant.expires
        )

    def _list_groups(self, name: str) -> tuple[UserGroup, ...]:
        groups = self.groups.values()
        return tuple(group for group in groups if name in group.members and not group.is_ended)

    def find_rights(self, name: str, dataset: str, now: str) -> Rights | None:
        """What a user may do at a dataset now; None where that is nothing, or two roles."""
        grants = [grant for grant in self.list_grants(name, now) if grant.dataset == dataset]
        roles = {grant.role for grant in grants}
        if len(roles) != 1:
            return None
        pots = dict.fromkeys(pot for grant in grants for pot in grant.pots)
        return Rights(roles.pop(), tuple(pots))

    def list_datasets(self, name: str, now: str) -> tuple[str, ...]:
        """The datasets at which a user has a role now."""
        return tuple(sorted({grant.dataset for grant in self.list_grants(name, now)}))


EMPTY = Directory()
Entry = TypeVar("Entry", User, UserGroup, Grant, StewardKey, Issuer)


def apply_act(directory: Directory, body: Body) -> Directory:
    """The directory after an act; ParameterError where the act cannot be done."""
    check_body(body)
    return _APPLIED[body["act"]](directory, body)


def _add_user(directory: Directory, body: Body) -> Directory:
    name = body["name"]
    _refuse_taken(directory.users, name, "user")
    issuer = body["issuer"]
    subject = body["subject"]
    if (issuer is None) != (subject is None):
        raise ParameterError("an account of single sign-on is an issuer and a subject: give both")
    if issuer is not None and directory.find_account(issuer, subject) is not None:
        raise ParameterError("another user has this account: end that user first")
    return replace(directory, users={**directory.users, name: User(name, issuer, subject)})


def _end_user(directory: Directory, body: Body) -> Directory:
    user = _find(directory.users, body["name"], "user")
    users = {**directory.users, user.name: replace(user, is_ended=True)}
    return replace(directory, users=users)


def _add_group(directory: Directory, body: Body) -> Directory:
    name = body["name"]
    _refuse_taken(directory.groups, name, "group")
    return replace(directory, groups={**directory.groups, name: UserGroup(name)})


def _end_group(directory: Directory, body: Body) -> Directory:
    group = _find(directory.groups, body["name"], "group")
    return _replace_group(directory, replace(group, is_ended=True))


def _join_group(directory: Directory, body: Body) -> Directory:
    group = _find(directory.groups, body["group"], "group")
    user = _find(directory.users, body["user"], "user")
    if user.name in group.members:
        raise ParameterError(f"{user.name} is in {group.name} already")
    joined = _replace_group(directory, replace(group, members=group.members | {user.name}))
    return _check_roles(joined)


def _leave_group(directory: Directory, body: Body) -> Directory:
    group = _find(directory.groups, body["group"], "group")
    if body["user"] not in group.members:
        raise ParameterError(f"{quote(body['user'])} is not in {group.name}: see dither group list")
    return _replace_group(directory, replace(group, members=group.members - {body["user"]}))


def _replace_group(directory: Directory, group: UserGroup) -> Directory:
    return replace(directory, groups={**directory.groups, group.name: group})


def _add_grant(directory: Directory, body: Body) -> Directory:
    grant_id = body["id"]
    _refuse_taken(directory.grants, grant_id, "grant")
    holder = body["holder"]
    if holder.startswith(GROUP):
        _find(directory.groups, holder.removeprefix(GROUP), "group")
    else:
        _find(directory.users, holder.removeprefix(USER), "user")
    grant = Grant(
        grant_id,
        body["dataset"],
        holder,
        body["role"],
        tuple(body["pots"]),
        body["purpose"],
        body["expires"],
    )
    return _check_roles(replace(directory, grants={**directory.grants, grant_id: grant}))


def _end_grant(directory: Directory, body: Body) -> Directory:
    grant = _find(directory.grants, body["id"], "grant")
    if grant.dataset != body["dataset"]:
        raise ParameterError(f"grant {grant.grant_id} is of another dataset: see dither grant list")
    grants = {**directory.grants, grant.grant_id: replace(grant, is_ended=True)}
    return replace(directory, grants=grants)


def _check_roles(directory: Directory) -> Directory:
    """Refuse a directory in which somebody has two roles at one dataset, expired grants too."""
    for name in directory.users:
        grants = directory.list_grants(name, "")
        for dataset in {grant.dataset for grant in grants}:
            roles = {grant.role for grant in grants if grant.dataset == dataset}
            if len(roles) > 1:
                raise ParameterError(
                    f"{name} would be {' and '.join(sorted(roles))} of {quote(dataset)}: a person "
                    "has one role at a dataset; end a grant or a membership first"
                )
    return directory


def _pin_key(directory: Directory, body: Body) -> Directory:
    key = StewardKey(body["name"], body["dataset"], body["public_key"])
    name = name_key(key.dataset, key.public_key)
    _refuse_taken(directory.steward_keys, name, "steward key")
    return replace(directory, steward_keys={**directory.steward_keys, name: key})


def _end_key(directory: Directory, body: Body) -> Directory:
    name = name_key(body["dataset"], body["public_key"])
    key = _find(directory.steward_keys, name, "steward key")
    keys = {**directory.steward_keys, name: replace(key, is_ended=True)}
    return replace(directory, steward_keys=keys)


def _rotate_key(directory: Directory, body: Body) -> Directory:
    """Pin a new key in place of an old one, in one act: at no time are there both or none."""
    old = name_key(body["dataset"], body["old"])
    key = _find(directory.steward_keys, old, "steward key")
    terms = {"name": key.name, "dataset": key.dataset}
    pinned = _pin_key(directory, {**terms, "public_key": body["new"]})
    return _end_key(pinned, {**terms, "public_key": body["old"]})


def name_key(dataset: str, public_key: str) -> str:
    """The name under which a directory keeps a steward's key."""
    return f"{dataset}/{public_key}"


def _pin_issuer(directory: Directory, body: Body) -> Directory:
    """Pin an issuer's keys; pinned again, the new keys take the place of the old ones."""
    issuer = Issuer(body["issuer"], body["audience"], tuple(body["keys"]))
    return replace(directory, issuers={**directory.issuers, issuer.issuer: issuer})


def _end_issuer(directory: Directory, body: Body) -> Directory:
    issuer = _find(directory.issuers, body["issuer"], "issuer")
    issuers = {**directory.issuers, issuer.issuer: replace(issuer, is_ended=True)}
    return replace(directory, issuers=issuers)


def _record_only(directory: Directory, body: Body) -> Directory:
    """An act whose effect lies elsewhere, such as a token or a password: it is on record here."""
    return directory


def _use_nonce(directory: Directory, body: Body) -> Directory:
    """A signed act is begun: its nonce is used up, whatever becomes of it."""
    if body["nonce"] in directory.nonces:
        raise ParameterError("this act was done before: draft and sign a new one")
    begun = replace(directory, nonces=directory.nonces | {body["nonce"]})
    return begun if body["roles"] is None else apply_act(begun, body["roles"])


_APPLIED: dict[str, Callable[[Directory, Body], Directory]] = {
    "user": _add_user,
    "end-user": _end_user,
    "group": _add_group,
    "end-group": _end_group,
    "join": _join_group,
    "leave": _leave_group,
    "grant": _add_grant,
    "end-grant": _end_grant,
    "pin-key": _pin_key,
    "end-key": _end_key,
    "rotate-key": _rotate_key,
    "pin-issuer": _pin_issuer,
    "end-issuer": _end_issuer,
    "token": _record_only,
    "end-token": _record_only,
    "password": _record_only,
    "signed": _use_nonce,
}


def _refuse_taken(entries: Mapping[str, Any], name: str, kind: str) -> None:
    if name in entries:
        raise ParameterError(
            f"there is a {kind} {quote(name)} already, or was: choose another name"
        )


def _find(entries: Mapping[str, Entry], name: str, kind: str) -> Entry:
    entry = entries.get(name)
    if entry is None or entry.is_ended:
        raise ParameterError(
            f"there is no {kind} {quote(name)}: 'dither {kind.replace(' ', '-')} list' shows them"
        )
    return entry
