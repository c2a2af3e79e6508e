"""The reference page of the HTTP API, made from its OpenAPI document."""

from __future__ import annotations

import textwrap
from typing import Any

from dither.gateway.api_page import list_routes
from dither.protocol.problems import STATUSES

HEAD = """\
# The HTTP API

What a [gateway](../how-to/deploy.md) answers under `/api/v1`. Send a token with every request:
`Authorization: Bearer TOKEN`; the data steward makes one with `dither token create`. Bodies are
JSON. An answer is JSON, or an Arrow stream for a client that accepts
`application/vnd.apache.arrow.stream`. Numbers are JSON numbers or their decimal texts; exact
fractions in responses are texts `p/q`.

```text
printf 'Authorization: Bearer %s' "$DITHER_TOKEN" | \\
  curl -H @- -H 'Content-Type: application/json' \\
  -d '{"sql": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "epsilon": 0.1}' \\
  http://127.0.0.1:8765/api/v1/datasets/clinic/sql
```

The token is piped in because every user of a computer can list the arguments of its commands.

- **Retries.** Send `Idempotency-Key: some-name` with an ask. After a lost reply the same request
  under the same key is bought once, also with `"fresh": true` and after a restart; keys are kept
  for a week. Without `fresh` a question that is asked again at the same price is free anyway.
- **Request ids.** Every response has `X-Request-ID`: the client's own where it sent one of up to 64
  letters, digits, `_`, `.` and `-`, else a new one. Problem documents name it as `instance`.
- **Pages.** `history` takes `start` and `count`; `next` is the start of the next page.
- **Caches.** Every response is `no-store`. GET never spends.
- **Limits.** A body has at most 1 MiB, a question 100,000 characters, an answer 5,000,000 numbers.
  What exceeds them is refused before anything is charged.

The document itself is at `/api/v1/openapi.json`, and a page of it at `/api`;
[the console](../console.md) has the pages for people.

This page is written from that document:
`DITHER_WRITE_SIGNATURES=1 python -m pytest tests/gateway`.

## Problems

Errors are problem documents (RFC 9457), `application/problem+json`: `detail` is the message of the
library, with the remedy; `kind` the class of the error; `rule` the rule that a refusal follows;
`start` and `end` the position in the question. `dither.connect(url)` raises them again as the
library does.

| kind | status | title |
|---|---|---|
"""


def write_reference(document: dict[str, Any]) -> str:
    """The page."""
    lines = [f"| `{kind.__name__}` | {status} | {title} |" for kind, status, title in STATUSES]
    parts = [HEAD + "\n".join(lines), "## Routes"]
    parts += [_write_route(*route) for route in list_routes(document)]
    parts.append("## Bodies")
    schemas = document["components"]["schemas"]
    parts += [_write_schema(name, schemas[name]) for name in sorted(_list_bodies(document))]
    return "\n\n".join(parts) + "\n"


def _write_route(path: str, method: str, route: dict[str, Any]) -> str:
    lines = [f"### {method} {path}", "", *_wrap(route["description"])]
    parameters = [
        line
        for parameter in route.get("parameters", ())
        for line in textwrap.wrap(
            f"- `{parameter['name']}` ({parameter['in']}"
            f"{'' if parameter['required'] else ', optional'})"
            + (f": {parameter['description']}" if "description" in parameter else ""),
            100,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    ]
    body = _name_schema(route.get("requestBody", {}))
    answer = _name_schema(route["responses"]["200"])
    facts = [*parameters, *([f"- body: `{body}`"] if body else []), f"- answers `{answer}`"]
    return "\n".join([*lines, "", *facts])


def _write_schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{field}` | {_name_type(facts)} | {'yes' if field in required else 'no'} |"
        for field, facts in schema.get("properties", {}).items()
    ]
    table = ["| field | type | required |", "|---|---|---|", *rows]
    return "\n".join([f"### {name}", "", *_wrap(schema.get("description", "")), "", *table])


def _list_bodies(document: dict[str, Any]) -> set[str]:
    """The bodies of routes, without those of the protocol, which have a page of their own."""
    names = set()
    for path, _, route in list_routes(document):
        if not path.endswith("/calls"):
            names |= {_name_schema(route.get("requestBody", {}))}
            names |= {_name_schema(route["responses"]["200"])}
    return names - {""} | {"Problem"}


def _name_schema(content: dict[str, Any]) -> str:
    schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema["$ref"]).rpartition("/")[2] if "$ref" in schema else ""


def _name_type(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(dict.fromkeys(_name_type(choice) for choice in facts["anyOf"]))
    if "$ref" in facts:
        return str(facts["$ref"]).rpartition("/")[2]
    return str(facts.get("type", "any"))


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 100, break_on_hyphens=False)
