"""Answers over HTTP: JSON for everybody, an Arrow stream for those who accept one."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response

from dither.answer.result import Result
from dither.errors import ParameterError
from dither.privacy.kernel.release import table_bytes
from dither.publish.commitment import plain
from dither.surfaces import escape_json

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"


def write_json(document: Any) -> Response:
    """A JSON response; fractions as p/q, times and decimals as text, hidden characters escaped."""
    text = json.dumps(document, default=plain, ensure_ascii=False, allow_nan=False)
    return Response(escape_json(text).encode(), media_type=JSON)


def write_answer(result: Result, accepted: str, with_certificate: bool) -> Response:
    """A result in the form that the client accepts."""
    if ARROW in accepted:
        if with_certificate:
            raise ParameterError("a certificate comes with JSON: accept application/json")
        return Response(table_bytes(result.to_arrow()), media_type=ARROW)
    document = describe_answer(result)
    if with_certificate:
        document["certificate"] = result.certificate()
        document["nonce"] = result.opening()["nonce"]
    return write_json(document)


def describe_answer(result: Result) -> dict[str, Any]:
    """A result as a document, without a certificate."""
    return {
        "columns": result.to_dict(),
        "info": result.info,
        "footnotes": list(result.footnotes),
        "certificate": None,
        "nonce": None,
    }
