"""Users and grants: who may do what at a dataset, and drafts of acts that change it.

The page lists. Grants, and users called NAME@DATASET, are made and ended by acts that a steward
signs elsewhere; other users and groups on the curator's machine, since they concern all datasets.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Response

from dither.console.curators import Curators, describe_head, list_page_values
from dither.console.dataset_pages import DatasetName
from dither.console.page_route import PageRoute
from dither.console.rendering import write_page
from dither.console.visitors import SignedIn, Visitor
from dither.protocol.page_messages import GrantDocument, GrantList, ReadGrants

HEADS = ("by", "id", "holder", "members", "role", "budgets", "purpose", "until")


@dataclass(frozen=True)
class RoleLine:
    """A role of somebody, by a grant or by a token that stands for itself."""

    by: str
    id: str
    holder: str
    members: tuple[str, ...]
    role: str
    pots: tuple[str, ...]
    purpose: str
    expires: str

    @property
    def end_query(self) -> str:
        """The draft of the act that ends a grant."""
        return urlencode({"kind": "end-grant", "id": self.id})

    def write_row(self) -> tuple[str, ...]:
        """The line as texts, under `HEADS`."""
        members = ", ".join(self.members)
        pots = ", ".join(self.pots)
        head = (self.by, self.id, self.holder, members)
        return (*head, self.role, pots, self.purpose, self.expires)


def make_user_router(curators: Curators) -> APIRouter:
    """The route of users and grants."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/datasets/{dataset}/users")
    def show_users(dataset: DatasetName, visitor: SignedIn) -> Response:
        lines = read_grants(curators, dataset, visitor)
        with curators.borrow(dataset, visitor) as borrowed:
            values = list_page_values(visitor, describe_head(borrowed), "users", "users")
        return write_page("users.html", **values, lines=lines)

    return router


def read_grants(curators: Curators, dataset: str, visitor: Visitor) -> tuple[RoleLine, ...]:
    """Grants first, then tokens; refused to analysts by the curator."""
    reply = curators.make_transport(visitor.token, dataset).call(ReadGrants(), GrantList)
    grants = [_describe_line("grant", document) for document in reply.grants]
    tokens = [_describe_line("token", document) for document in reply.tokens]
    return (*grants, *tokens)


def _describe_line(by: str, document: GrantDocument) -> RoleLine:
    return RoleLine(
        by,
        document.id,
        document.holder,
        tuple(document.members),
        document.role,
        tuple(document.pots),
        document.purpose,
        document.expires,
    )
