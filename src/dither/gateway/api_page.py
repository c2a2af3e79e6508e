"""The page of the API: every route with its parameters, from the OpenAPI document.

It has no script and fetches nothing; the document itself is at /api/v1/openapi.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dither.pages.html import Html, write_element, write_list
from dither.pages.page import PageSection, write_card, write_page

_LEAD = (
    "Send a token with every request: Authorization: Bearer TOKEN. The data steward makes one with "
    "'dither token create DATASET NAME'. Errors are problem documents (RFC 9457)."
)


def write_api_page(document: dict[str, Any]) -> str:
    """The page of an OpenAPI document."""
    cards = [_write_route(path, method, route) for path, method, route in list_routes(document)]
    link = write_element("a", "the OpenAPI document", href="/api/v1/openapi.json")
    lead = Html(write_element("p", _LEAD) + write_element("p", link))
    routes = PageSection("Routes", Html("".join(cards)), "routes")
    schemas = PageSection("Bodies", _write_schemas(document), "bodies")
    return write_page(f"{document['info']['title']} API", [routes, schemas], lead=lead)


def list_routes(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The routes of an OpenAPI document: path, method and description."""
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield path, method.upper(), route


def _write_route(path: str, method: str, route: dict[str, Any]) -> Html:
    lines = [
        f"{parameter['name']} ({parameter['in']}): {parameter.get('description', '')}"
        for parameter in route.get("parameters", ())
    ]
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "$ref" in body.get("schema", {}):
        lines.append(f"body: {body['schema']['$ref'].rpartition('/')[2]}")
    description = write_element("p", route.get("description", ""))
    return write_card(f"{method} {path}", description, write_list(lines))


def _write_schemas(document: dict[str, Any]) -> Html:
    cards = []
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        lines = [
            f"{field}{' (required)' if field in schema.get('required', ()) else ''}"
            for field in schema.get("properties", {})
        ]
        text = write_element("p", str(schema.get("description", "")))
        cards.append(write_card(name, text, write_list(lines)))
    return Html("".join(cards))
