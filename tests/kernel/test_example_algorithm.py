"""The example of an algorithm of one's own: short, of public names alone, and useful."""

from __future__ import annotations

import ast
import inspect

from tests.example_files import EXAMPLES, load_example

FILE = "select_measure_reconstruct.py"


def test_it_fits_a_table_far_better_than_a_flat_one() -> None:
    """At epsilon 2 and 4,000 people: an error above a third of the flat table's would take noise
    of hundreds in each of 12 marginals, whose scale is 6 (a chance below e^-30)."""
    fitted, flat = load_example(FILE).run(people=4000, epsilon=2.0)
    assert fitted < flat / 3


def test_it_has_fifty_lines_and_nothing_private() -> None:
    module = load_example(FILE)
    lines = [
        line
        for function in (module.fit_table, module.project, module.scale_to)
        for line in inspect.getsource(function).splitlines()
    ]
    assert len(lines) <= 50
    tree = ast.parse((EXAMPLES / FILE).read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not [name for name in names if name.startswith("_")]
