"""The nodes of a parsed question, listed at once: rewrites and checks look at all of them often."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

DUCKDB = Dialect.get_or_raise("duckdb")
"""The dialect that questions are read and written in, made once. It holds nothing of a text."""

Node = TypeVar("Node", bound=exp.Expr)


def list_children(node: exp.Expr) -> list[exp.Expr]:
    """List the nodes right below a node, as `node.iter_expressions()` yields them."""
    children = []
    for argument in node.args.values():
        if isinstance(argument, list):
            children += [member for member in argument if isinstance(member, exp.Expr)]
        elif isinstance(argument, exp.Expr):
            children.append(argument)
    return children


def list_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """List a node and all below it, breadth first, as `tree.walk()` yields them.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT COUNT(*), a + 1 FROM (SELECT a FROM t) WHERE a > 2")
    >>> list_nodes(tree) == list(tree.walk())
    True
    """
    nodes = [tree]
    for node in nodes:  # it grows while it is read
        nodes += list_children(node)
    return nodes


def list_own_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """List a node and what is below it, breadth first; subqueries are not entered.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("COUNT(*) > (SELECT MAX(a) FROM t)")
    >>> [type(node).__name__ for node in list_own_nodes(tree)]
    ['GT', 'Count', 'Star']
    """
    nodes = [tree]
    for node in nodes:  # it grows while it is read
        nodes += [child for child in list_children(node) if not isinstance(child, exp.Query)]
    return nodes


def find_nodes(tree: exp.Expr, kind: type[Node]) -> list[Node]:
    """List the nodes of one kind, breadth first, as `tree.find_all(kind)` yields them."""
    return [node for node in list_nodes(tree) if isinstance(node, kind)]
