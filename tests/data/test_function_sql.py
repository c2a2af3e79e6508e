"""The plan's table of functions and the table of their SQL hold the same names; engine SQL lives in
data/ alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dither.data.lower.functions import SQL, UNDEFINED
from dither.data.lower.functions.sql import SqlArguments
from dither.plan.domain import Domain
from dither.plan.functions import TABLE

SOURCE = Path(__file__).parents[2] / "src" / "dither"
ENGINE_SQL = re.compile(
    r"\b(CAST|TRY_CAST|coalesce|list_extract|date_trunc|regexp_\w+|strpos)\("
    r"|\b(SELECT|CASE WHEN|IS NULL|IS DISTINCT FROM|GROUP BY|HUGEINT|BIGINT|TINYINT)\b[^.]*[{(]"
    r"|\bDATE '"
)

LEDGER = SOURCE / "privacy" / "ledger"
"""Its statements run in the store of the ledger, which holds no row about people."""


def test_every_function_has_sql_and_all_sql_has_a_function():
    assert SQL.keys() == TABLE.keys()
    assert UNDEFINED.keys() <= TABLE.keys()


def find_engine_sql(source: str) -> list[str]:
    """Texts of a module, other than docstrings and messages, that an engine would run."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    prose |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
    }
    texts = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) and id(node) not in prose
    ]
    texts += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]
    return [text for text in texts if ENGINE_SQL.search(text)]


@pytest.mark.parametrize("room", ["catalog", "plan", "privacy"])
def test_no_engine_sql_outside_the_data_layer(room):
    paths = [path for path in (SOURCE / room).rglob("*.py") if path.parent != LEDGER]
    found = {str(path): find_engine_sql(path.read_text()) for path in paths}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_the_search_finds_the_sql_that_there_is():
    for name in ("conditions", "dates", "numbers", "sql", "text"):
        assert find_engine_sql(
            (SOURCE / "data" / "lower" / "functions" / f"{name}.py").read_text()
        ), name


def test_a_list_of_texts_with_all_short_letters_has_a_mark_between_them():
    texts = ("".join(map(chr, range(1, 0xD800))), "b")
    domains = (Domain("text", True, width=8), *(Domain("text", False) for _ in texts))
    arguments = SqlArguments("index_in", domains, (None, *texts), ("t", "'a'", "'b'"))
    sql = SQL["index_in"](arguments, Domain("number", True, 0, 1))
    assert f"{chr(0xE000)}b', '{chr(0xE000)}')" in sql
