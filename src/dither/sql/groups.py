"""GROUP BY of a question: its keys, and its grouping sets (ROLLUP, CUBE, GROUPING SETS)."""

from __future__ import annotations

from itertools import combinations

from sqlglot import exp

from dither.rules import PrivacyRule
from dither.sql.expressions import expression
from dither.sql.key_codes import Listed, listed, period_of
from dither.sql.names import output_name
from dither.sql.per_unit import contains_aggregate, key_node
from dither.sql.question import Key, Question
from dither.sql.refusals.refuse import refused

MAX_SETS = 64
Sets = list[tuple[int, ...]]


def grouping_sets(select: exp.Select, question: Question) -> Sets:
    """The grouping sets as indexes of keys, which are added to the question."""
    group = select.args.get("group")
    at = question.scope.at
    if group is None:
        return [()]
    if group.args.get("totals"):
        raise at.error("WITH TOTALS is not answered: write ROLLUP", group)
    if group.args.get("all"):
        items = [each.this if isinstance(each, exp.Alias) else each for each in select.expressions]
        return [tuple(_key(each, select, question) for each in items if not contains_aggregate(each))]
    sets: Sets = [()]
    elements = list(group.expressions)
    for part in ("rollup", "cube", "grouping_sets"):
        elements += group.args.get(part) or []
    for element in elements:
        more = _element(element, select, question)
        sets = [tuple(dict.fromkeys((*one, *other))) for one in sets for other in more]
        if len(sets) > MAX_SETS:
            raise at.error(f"more than {MAX_SETS} grouping sets: ask for fewer {PrivacyRule.BOUNDED_WORK.label}", group)
    if len(sets) > 1:
        _check_names(elements, select, question)
    return sets


def _check_names(elements: list[exp.Expr], select: exp.Select, question: Question) -> None:
    """Engines differ in whether one key under two names in ROLLUP is one key or two."""
    called: dict[int, str] = {}
    for element in elements:
        for node in _keys_of(element):
            name = node.unnest().sql(dialect="duckdb").lower()
            if called.setdefault(_key(node, select, question), name) != name:
                raise refused("two names", question.scope.at, node)


def _keys_of(node: exp.Expr) -> list[exp.Expr]:
    """The keys that an element of GROUP BY lists."""
    if not isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
        return [node]
    return [key for each in node.expressions for key in _keys_of(each)]


def _element(node: exp.Expr, select: exp.Select, question: Question) -> Sets:
    if isinstance(node, exp.Rollup):
        parts = [_together(each, select, question) for each in node.expressions]
        return [_joined(parts[:size]) for size in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube):
        parts = [_together(each, select, question) for each in node.expressions]
        if len(parts) > 6:
            raise question.scope.at.error(
                f"CUBE of {len(parts)} keys: at most 6 {PrivacyRule.BOUNDED_WORK.label}", node
            )
        return [_joined(list(some)) for size in range(len(parts), -1, -1) for some in combinations(parts, size)]
    if isinstance(node, exp.GroupingSets):
        return [one for each in node.expressions for one in _element(each, select, question)]
    return [_together(node, select, question)]


def _together(node: exp.Expr, select: exp.Select, question: Question) -> tuple[int, ...]:
    """A key, or several in parentheses."""
    if isinstance(node, exp.Tuple):
        return tuple(_key(each, select, question) for each in node.expressions)
    return (_key(node, select, question),)


def _joined(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(key for part in parts for key in part))


def _key(node: exp.Expr, select: exp.Select, question: Question) -> int:
    """The index of a key in the question, which has it from here on."""
    scope = question.scope
    found = key_node(node, select, scope)
    known = scope.field(found) if isinstance(found, exp.Column) and not isinstance(found.this, exp.Star) else None
    if known is not None and (known.of is None or scope.domain(known.of).kind == "id"):
        raise refused("id", scope.at, node)
    value = expression(found, scope)
    place = question.key_index(value)
    if place is not None:
        return place
    domain = scope.domain(value, found)
    how: Listed = listed(value, period_of(value) or scope.period_of(value), domain)
    if domain.kind == "text" and not domain.undeclared and not how.labels:
        raise refused("text key", scope.at, node)
    aliases = [each.alias for each in select.expressions if isinstance(each, exp.Alias) and each.this is found]
    name = aliases[0] if aliases else output_name(found, len(question.keys) + 1)
    question.keys.append(Key(value, how, name, is_public=known is not None and known.public))
    return len(question.keys) - 1
