"""The reference page of the protocol, made from its messages."""

from __future__ import annotations

import textwrap
from typing import Any, get_args

from pydantic import BaseModel

from dither.protocol import act_messages, job_messages, messages, page_messages

HEAD = """\
# The protocol between curator and gateway

Version 1. A [gateway](../how-to/deploy.md) speaks it to a curator over a Unix socket, or by mutual
TLS between hosts; a Python client sends the same calls to a gateway, which passes them on.

**Frames.** Four bytes with the length, big-endian, then one JSON document in UTF-8, in its one
canonical spelling: sorted keys, no spaces, no floats. A call has at most 1 MiB, a reply at most
1 GiB, and both are nested at most 300 deep. Connections stay open; calls on one connection are
answered in order. After a frame that is none of these the curator closes the connection.

**Calls.** Every call but the three that open a session carries a token, which the curator verifies
each time with role and grants, and the name of a dataset. Registering, opening, raising and
clearing are commands on the curator's machine, or come as an `act` with a steward's signature that
no gateway can make ([users and grants](../how-to/users-and-grants.md)). No call shows a repair
count. What is not granted is refused in one sentence. Unknown fields are refused.

**Requests.** A request holds queries (plans, as [stored](stored-formats.md)), steps (columns of a
query, a family of mechanisms, a share of the price), a price and a pot. It can state neither a
scale nor a sensitivity, and no SQL: the text of a question travels as a remark, as told by the
asker. The curator prices the request by itself and answers under the key that the asker sent, or
not at all. A job of several steps, with operators and choices over cells too, is one request: one
charge and one scheduled answer.

**Jobs.** An algorithm that chooses its next step from what was released so far (a synthetic table,
the training of a model) is one call, `job`: the curator runs it out of one charge and sends what it
made, once, at the end of the slots that every job holds. Its steps have no calls of their own:
when each was measured would tell of the data. Only the three algorithms below run.

**Exact numbers** are texts `p/q`. Released values are integers, or lists of labels for keys.

**Errors** have the kind, message, rule and position of the library's own. What is no error of
dither is one constant sentence. After a charge there is one answer to every failure.

This page is written from the messages: `DITHER_WRITE_SIGNATURES=1 python -m pytest tests/protocol`.
"""


def write_reference() -> str:
    """The page."""
    calls = get_args(get_args(messages.CalledAct)[0])
    results = get_args(get_args(messages.Outcome)[0])
    shown = [messages.CallFrame, messages.ReplyFrame]
    parts = [
        HEAD,
        "## Frames\n",
        *map(_write_message, shown),
        "## Calls\n",
        *map(_write_message, calls),
        "## Results\n",
        *map(_write_message, results),
        "## Documents in them\n",
        *map(_write_message, _list_inner([*shown, *calls, *results])),
    ]
    return "\n".join(parts)


def _write_message(model: type[BaseModel]) -> str:
    kind = model.model_fields.get("kind")
    title = f"`{kind.default}`" if kind is not None and kind.default else model.__name__
    text = textwrap.wrap(" ".join((model.__doc__ or "").split()), 100, break_on_hyphens=False)
    schema = model.model_json_schema()
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {_name_type(facts)} | {'yes' if name in required else 'no'} |"
        for name, facts in schema.get("properties", {}).items()
        if name != "kind" or kind is None or not kind.default
    ]
    table = ["", "| field | type | required |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"### {title}", "", *text, *table, ""])


def _name_type(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(dict.fromkeys(map(_name_type, facts["anyOf"])))
    if "oneOf" in facts:
        return "one of the list below"
    if "$ref" in facts:
        return str(facts["$ref"]).rpartition("/")[2]
    if facts.get("type") == "array":
        return f"list of {_name_type(facts.get('items', {}))}"
    return str(facts.get("type", "any"))


def _list_inner(models: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """The models inside messages, each once, that are no messages themselves."""
    names: dict[str, None] = {}
    for model in models:
        names |= dict.fromkeys(model.model_json_schema().get("$defs", {}))
    known = {model.__name__ for model in models}
    inner = [name for name in sorted(names) if name not in known]
    modules = (messages, act_messages, job_messages, page_messages)
    return [
        next(vars(module)[name] for module in modules if name in vars(module)) for name in inner
    ]
