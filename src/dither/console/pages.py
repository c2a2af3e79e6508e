"""Puts the pages of the console under a gateway."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from dither.console.ask_pages import make_ask_router
from dither.console.budget_page import make_budget_router
from dither.console.curators import Curators
from dither.console.dataset_pages import make_dataset_router
from dither.console.files_pages import make_files_router
from dither.console.history_pages import make_history_router
from dither.console.limit_pages import make_limit_router
from dither.console.login_pages import make_login_router
from dither.console.page_route import PageRoute
from dither.console.register_pages import make_register_router
from dither.console.rendering import write_page
from dither.console.saved_pages import make_saved_router
from dither.console.settings import ConsoleSettings
from dither.console.static_files import send_static_file
from dither.console.steward_pages import make_steward_router
from dither.console.table_pages import make_table_router
from dither.console.user_pages import make_user_router
from dither.console.visitors import identify_visitor
from dither.gateway.app import AddPages
from dither.remote.transport import SocketPool

NO_PAGE = "There is nothing at this address. It may have been mistyped, or the page has moved."


def make_pages(settings: ConsoleSettings) -> AddPages:
    """The pages of these settings, for `make_gateway`."""
    return lambda app, sockets: add_console(app, sockets, settings)


def add_console(app: FastAPI, sockets: SocketPool, settings: ConsoleSettings | None = None) -> None:
    """Add all pages to the application of a gateway, below the routes for programs."""
    curators = Curators(sockets, settings or ConsoleSettings())
    for make_router in (
        make_login_router,
        make_dataset_router,
        make_ask_router,
        make_files_router,
        make_budget_router,
        make_history_router,
        make_register_router,
        make_steward_router,
        make_user_router,
        make_saved_router,
        make_limit_router,
        make_table_router,
    ):
        app.include_router(make_router(curators))
    app.include_router(_make_rest_router())


def _make_rest_router() -> APIRouter:
    """Static files, and a page for addresses that lead nowhere."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/static/{name}")
    def send_file(name: str, request: Request) -> Response:
        return send_static_file(name, request)

    @router.get("/{path:path}")
    def show_nothing(path: str, request: Request) -> Response:
        if path == "api" or path.startswith("api/"):
            raise HTTPException(404, "Not Found")
        visitor = identify_visitor(request)
        title = "no page here"
        return write_page(
            "error.html", 404, title=title, message=NO_PAGE, rule=None, visitor=visitor
        )

    return router
