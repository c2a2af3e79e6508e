"""Recipes as canonical JSON, both ways.

A client that has bound nothing can show what a curator answered.
"""

from __future__ import annotations

from typing import Any, get_args

from dither import wire
from dither.plan.algebra import Aggregate, Condition, Expression, Named, Plan, Query
from dither.plan.domain import Domain
from dither.question.expressions import Formula
from dither.question.recipe import Atom, GroupingSet, KeyColumn, Order, Output, Recipe

PLAN_TYPES: tuple[type, ...] = (
    *(cls for alias in (Query, Plan, Expression, Condition, Aggregate) for cls in get_args(alias)),
    Named,
)
RECIPE_TYPES: tuple[type, ...] = (
    *PLAN_TYPES,
    *get_args(Formula),
    Domain,
    Atom,
    GroupingSet,
    KeyColumn,
    Order,
    Output,
    Recipe,
)


def write_recipe(recipe: Recipe) -> dict[str, Any]:
    """The recipe as a tree for `canonical.dumps`."""
    tree: dict[str, Any] = wire.write(recipe)
    return tree


def read_recipe(tree: Any) -> Recipe:
    """The recipe that `write_recipe` wrote; ParameterError for anything else."""
    return wire.read(tree, Recipe, RECIPE_TYPES)
