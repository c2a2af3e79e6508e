"""GROUP BY of a question: its keys, and its grouping sets (ROLLUP, CUBE, GROUPING SETS)."""

from __future__ import annotations

from itertools import combinations

from sqlglot import exp

from dither.plan.analyse import FIRST_RULES
from dither.rules import PrivacyRule
from dither.sql.expressions import resolve_expression
from dither.sql.key_codes import KeyEncoding, encode_key, period_of, scale_key
from dither.sql.listed_texts import encode_listed_text
from dither.sql.names import name_output
from dither.sql.per_unit import contains_aggregate, find_key_node
from dither.sql.question import Key, QuestionDraft
from dither.sql.refusals.refuse import make_refusal

MAX_SETS = 64
Sets = list[tuple[int, ...]]


def read_grouping_sets(select: exp.Select, question: QuestionDraft) -> Sets:
    """Read GROUP BY as grouping sets, each a tuple of indexes of keys.

    The keys are added to the question.
    """
    group = select.args.get("group")
    context = question.scope.context
    if group is None:
        return [()]
    if group.args.get("totals"):
        raise context.error("WITH TOTALS is not answered: write ROLLUP", group)
    if group.args.get("all"):
        outputs = [
            column.this if isinstance(column, exp.Alias) else column
            for column in select.expressions
        ]
        return [
            tuple(
                _add_key(output, select, question)
                for output in outputs
                if not contains_aggregate(output)
            )
        ]
    sets: Sets = [()]
    elements = list(group.expressions)
    for clause in ("rollup", "cube", "grouping_sets"):
        elements += group.args.get(clause) or []
    for element in elements:
        added_sets = _read_element(element, select, question)
        sets = [tuple(dict.fromkeys((*left, *right))) for left in sets for right in added_sets]
        if len(sets) > MAX_SETS:
            raise context.error(
                f"more than {MAX_SETS} grouping sets: ask for fewer "
                f"{PrivacyRule.BOUNDED_WORK.label}",
                group,
            )
    if len(sets) > 1:
        _check_names(elements, select, question)
    return sets


def _check_names(elements: list[exp.Expr], select: exp.Select, question: QuestionDraft) -> None:
    """Raise QueryError where one key has two names in ROLLUP or the like.

    Engines differ in whether that is one key or two.
    """
    called: dict[int, str] = {}
    for element in elements:
        for node in _list_keys(element):
            name = node.unnest().sql(dialect="duckdb").lower()
            if called.setdefault(_add_key(node, select, question), name) != name:
                raise make_refusal("two names", question.scope.context, node)


def _list_keys(node: exp.Expr) -> list[exp.Expr]:
    """The keys that an element of GROUP BY lists."""
    if not isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
        return [node]
    return [key for element in node.expressions for key in _list_keys(element)]


def _read_element(node: exp.Expr, select: exp.Select, question: QuestionDraft) -> Sets:
    """Read one element of GROUP BY: ROLLUP, CUBE, GROUPING SETS, or keys."""
    if isinstance(node, exp.Rollup):
        key_sets = [_read_keys(element, select, question) for element in node.expressions]
        return [_merge_sets(key_sets[:size]) for size in range(len(key_sets), -1, -1)]
    if isinstance(node, exp.Cube):
        key_sets = [_read_keys(element, select, question) for element in node.expressions]
        if len(key_sets) > 6:
            raise question.scope.context.error(
                f"CUBE of {len(key_sets)} keys: at most 6 {PrivacyRule.BOUNDED_WORK.label}", node
            )
        return [
            _merge_sets(list(chosen_sets))
            for size in range(len(key_sets), -1, -1)
            for chosen_sets in combinations(key_sets, size)
        ]
    if isinstance(node, exp.GroupingSets):
        return [
            key_set
            for element in node.expressions
            for key_set in _read_element(element, select, question)
        ]
    return [_read_keys(node, select, question)]


def _read_keys(node: exp.Expr, select: exp.Select, question: QuestionDraft) -> tuple[int, ...]:
    """A key, or several in parentheses."""
    if isinstance(node, exp.Tuple):
        return tuple(_add_key(element, select, question) for element in node.expressions)
    return (_add_key(node, select, question),)


def _merge_sets(key_sets: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(key for key_set in key_sets for key in key_set))


def _add_key(node: exp.Expr, select: exp.Select, question: QuestionDraft) -> int:
    """Return the index of a key in the question, and add it at its first use.

    Raises QueryError for ids and free texts.
    """
    scope = question.scope
    key = find_key_node(node, select, scope)
    field = (
        scope.field(key)
        if isinstance(key, exp.Column) and not isinstance(key.this, exp.Star)
        else None
    )
    if field is not None and (field.of is None or scope.domain(field.of).kind == "id"):
        raise make_refusal("id", scope.context, node)
    value = resolve_expression(key, scope)
    index = question.find_key(value)
    if index is not None:
        return index
    domain = scope.domain(value, key)
    period = period_of(value) or scope.period_of(value)
    scaled = scale_key(value) if scope.context.rules > FIRST_RULES else None
    encoding: KeyEncoding = scaled or encode_key(value, period, domain, scope.columns)
    if domain.kind == "text" and not domain.undeclared and not encoding.labels:
        listed = encode_listed_text(value, field, scope.relation.plan, nullable=domain.nullable)
        if listed is None:
            raise make_refusal("text key", scope.context, node)
        encoding = listed
    aliases = [
        column.alias
        for column in select.expressions
        if isinstance(column, exp.Alias) and column.this is key
    ]
    name = aliases[0] if aliases else name_output(key, len(question.keys) + 1)
    question.keys.append(Key(value, encoding, name, is_public=field is not None and field.public))
    return len(question.keys) - 1
