"""Joins by rule owners-never-meet: with a public table by its columns, or two private ones whose rows have one owner.

The plan adds the equality of owners by itself; what is checked here is that the question says so too, so that the
answer is the answer to what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dither.plan.algebra import And, Call, Column, Condition, Expression, Filter, Join, Named, Plan, Project
from dither.plan.stability import Loose, Owned, Public
from dither.plan.stability.join import comparable
from dither.rules import PrivacyRule
from dither.sql.conditions import condition
from dither.sql.constants import truth
from dither.sql.expressions import flattened
from dither.sql.refusals.refuse import refused
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name, substituted, worded


@dataclass
class _On:
    """What an ON says: pairs of equal fields, conditions on the right alone, and all others."""

    pairs: list[tuple[Field, Field]]
    right: list[exp.Expr]
    rest: list[exp.Expr]


def joined(left: Relation, right: Relation, node: exp.Join, select: exp.Expr, at: Context) -> Relation:
    """The relation of `left JOIN right`."""
    side, kind = str(node.side or "").upper(), str(node.kind or "").upper()
    if str(node.method or "").upper() == "NATURAL":
        raise refused("natural join", at, node)
    if kind == "CROSS":
        raise refused("cross join", at, node)
    if side == "FULL":
        raise refused("full join", at, node)
    if kind in ("SEMI", "ANTI") or side in ("SEMI", "ANTI"):
        raise refused("semi join", at, node)
    if not node.args.get("on") and not node.args.get("using"):
        raise refused("comma join", at, node)
    if kind not in ("", "INNER", "OUTER") or side not in ("", "LEFT", "RIGHT") or node.method:
        raise at.error(f"this kind of join is not answered: write JOIN or LEFT JOIN {PrivacyRule.NO_RULE.label}", node)
    flipped = side == "RIGHT"
    first, second = (right, left) if flipped else (left, right)
    nodes = [at.analysed(each.plan, node).node for each in (first, second)]
    if any(isinstance(each, Loose) for each in nodes):
        raise refused("loose join", at, node)
    outer, keeps_public = bool(side), False
    if isinstance(nodes[0], Public) and isinstance(nodes[1], Owned):
        first, second, flipped = second, first, not flipped
        outer, keeps_public = False, outer
    elif isinstance(nodes[0], Public):
        raise at.error("a join of two public tables comes after the private one: put the private table first", node)
    made = _join(first, second, node, "left" if outer else "inner", select, at)
    count = len(first.fields)
    mine, theirs = made.fields[:count], made.fields[count:]
    listed = made.listed | _listed(mine, theirs) if keeps_public else made.listed
    fields = (*theirs, *mine) if flipped else (*mine, *theirs)
    public_rows = made.public_rows or keeps_public
    return replace(made, fields=fields, listed=listed, public_rows=public_rows)


def _listed(mine: tuple[Field, ...], theirs: tuple[Field, ...]) -> frozenset[str]:
    """Columns of the private side that a public table's column was joined with: its values are the keys."""
    private = {each.of.name for each in mine if isinstance(each.of, Column)}
    return frozenset(each.of.name for each in theirs if isinstance(each.of, Column) and each.of.name in private)


def _join(left: Relation, right: Relation, node: exp.Join, kind: str, select: exp.Expr, at: Context) -> Relation:
    on = _read(node, Scope(at, left), Scope(at, right))
    if kind == "left" and on.rest:
        raise refused("left condition", at, node.args["on"])
    if on.right:
        right = replace(
            right, plan=Filter(right.plan, all_of([condition(each, Scope(at, right)) for each in on.right]))
        )
    using = {each.name.lower() for each in node.args.get("using") or ()}
    if isinstance(at.analysed(right.plan, node).node, Public):
        if not on.pairs:
            raise refused("join condition", at, node.args.get("on") or node)
    elif not same_owner(on.pairs):
        raise refused("join without owner", at, node.args.get("on") or node)
    marked = kind == "left" and _is_named(right, on.pairs, node, select, using)
    made = match(left, right, on.pairs, kind, node, at, marked=marked)
    count = len(left.fields)
    fields = (
        *made.fields[:count],
        *(replace(each, qualified=each.qualified or each.name.lower() in using) for each in made.fields[count:]),
    )
    made = replace(made, fields=fields)
    if on.rest:
        made = replace(made, plan=Filter(made.plan, all_of([condition(each, Scope(at, made)) for each in on.rest])))
    return made


def same_owner(pairs: list[tuple[Field, Field]]) -> bool:
    """Whether equality of all pairs implies one owner of both rows: by name, or by a whole key that leads to it."""
    if any(one.is_owner and other.is_owner for one, other in pairs):
        return True
    equal = {one.anchor for one, other in pairs if one.anchor is not None and one.anchor == other.anchor}
    return any(all((table, key, part) in equal for part in key) for table, key, _ in equal)


def _read(node: exp.Join, left: Scope, right: Scope) -> _On:
    found = _On([], [], [])
    for name in node.args.get("using") or ():
        column = exp.Column(this=name)
        found.pairs.append((left.field(column), right.field(column)))
    if node.args.get("on") is None:
        return found
    for part in flattened(node.args["on"], exp.And):
        part = part.unnest()
        places = {place(column, left, right) for column in part.find_all(exp.Column)}
        if isinstance(part, exp.EQ) and places == {"left", "right"}:
            one, other = part.this.unnest(), part.expression.unnest()
            if isinstance(one, exp.Column) and isinstance(other, exp.Column):
                if place(one, left, right) == "right":
                    one, other = other, one
                found.pairs.append((left.field(one), right.field(other)))
                continue
        (found.right if places == {"right"} else found.rest).append(part)
    return found


def place(column: exp.Column, left: Scope, right: Scope) -> str:
    """On which side of a join a column is; an error if on both or on none."""
    mine, theirs = left.candidates(column), right.candidates(column)
    if mine and theirs:
        raise left.at.error(f"{column.name} is ambiguous: name its table", column)
    if not mine and not theirs:
        both = Relation(left.relation.plan, left.relation.fields + right.relation.fields)
        Scope(left.at, both).field(column)
    return "left" if mine else "right"


def _is_named(
    right: Relation, pairs: list[tuple[Field, Field]], node: exp.Join, select: exp.Expr, using: set[str]
) -> bool:
    """Whether the question names an id or a joined column of the right side outside this ON."""
    names = {each.name.lower() for _, each in pairs} | {each.name.lower() for each in right.fields if each.is_owner}
    names |= {each.name.lower() for each in right.fields if each.anchor is not None}
    inside = {id(each) for each in node.find_all(exp.Column)}
    if any(not isinstance(each.parent, exp.Count) for each in select.find_all(exp.Star)):
        return True
    outside = [each for each in select.find_all(exp.Column) if id(each) not in inside]
    return any(each.name.lower() in names and (each.name.lower() not in using or each.table) for each in outside)


def match(
    left: Relation,
    right: Relation,
    pairs: list[tuple[Field, Field]],
    kind: str,
    node: exp.Expr,
    at: Context,
    *,
    marked: bool = False,
) -> Relation:
    """The plan's join of two relations by equal fields; owners meet without being named.

    Fields of the left come first. Columns of the right whose names are taken are renamed.
    """
    if any(one.is_owner != other.is_owner for one, other in pairs):
        raise refused("join without owner", at, node)
    if kind == "left":  # what is computed from the right side is null where there is none: compute it before
        right = computed(right, at)
    pairs = as_texts([pair for pair in pairs if not pair[0].is_owner], Scope(at, left), Scope(at, right))
    left, mine = with_columns(left, [one for one, _ in pairs], at)
    right, theirs = with_columns(right, [other for _, other in pairs], at)
    on = tuple(zip(mine, theirs, strict=True))
    left_columns, right_columns = (at.analysed(each.plan, node).columns for each in (left, right))
    dropped = {theirs: mine for mine, theirs in on if mine == theirs}
    taken = {name.lower() for name in (*left_columns, *right_columns)}
    renamed: dict[str, str] = {}
    for name in right_columns:
        if name not in dropped and name.lower() in {each.lower() for each in left_columns}:
            renamed[name] = fresh_name(name, taken)
    marker: Expression | None = None
    if marked:
        sure = [n for n, d in right_columns.items() if not d.nullable and d.kind != "id" and n not in dropped]
        marker = Column(renamed.get(sure[0], sure[0])) if sure else None
    plan: Plan = right.plan
    if renamed or (marked and marker is None):
        columns = [Named(renamed.get(name, name), Column(name)) for name in right_columns]
        if marked and marker is None:
            marker = Column(fresh_name("matched", taken))
            columns.append(Named(marker.name, truth(True)))
        plan = Project(plan, tuple(columns))
    on = tuple((one, renamed.get(other, other)) for one, other in on)
    by: dict[str, Expression] = {old: Column(new) for old, new in renamed.items()}
    for theirs_name, mine_name in dropped.items():
        kept: Expression = Column(mine_name)
        if kind == "left" and marker is not None and left_columns[mine_name].kind != "id":
            kept = Call("case", (Call("is_not_null", (marker,)), kept))
        by[theirs_name] = kept
    made = Join(left.plan, plan, on, "left" if kind == "left" else "inner")
    at.analysed(made, node)
    fields = [*left.fields]
    for each in right.fields:
        of = None if each.of is None else substituted(each.of, by)
        inner = None if each.marker is None else substituted(each.marker, by)
        is_id = of is None or (isinstance(each.of, Column) and right_columns[each.of.name].kind == "id")
        fields.append(replace(each, of=of, marker=(inner or marker) if kind == "left" and is_id else inner))
    return Relation(made, tuple(fields), left.listed | right.listed, left.public_rows or right.public_rows)


def as_texts(pairs: list[tuple[Field, Field]], left: Scope, right: Scope) -> list[tuple[Field, Field]]:
    """Labels meet texts as texts, unless the texts are the list that the labels come from."""
    made = []
    for one, other in pairs:
        assert one.of is not None and other.of is not None
        mine, theirs = left.domain(one.of), right.domain(other.of)
        if {mine.kind, theirs.kind} == {"category", "text"} and not comparable(mine, theirs):
            one = replace(one, of=Call("label", (one.of,))) if mine.kind == "category" else one
            other = replace(other, of=Call("label", (other.of,))) if theirs.kind == "category" else other
        made.append((one, other))
    return made


def with_columns(relation: Relation, wanted: list[Field], at: Context) -> tuple[Relation, list[str]]:
    """The relation with each wanted field a column of its plan, and their names."""
    columns = at.analysed(relation.plan).columns
    taken = {name.lower() for name in columns}
    added: list[Named] = []
    names: list[str] = []
    for each in wanted:
        assert each.of is not None
        value = worded(each.of, each.labels) if each.labels else each.of
        if not isinstance(value, Column):
            name = fresh_name(each.name, taken)
            added.append(Named(name, value))
            value = Column(name)
        names.append(value.name)
    if not added:
        return relation, names
    kept = tuple(Named(name, Column(name)) for name in columns)
    return replace(relation, plan=Project(relation.plan, kept + tuple(added))), names


def computed(relation: Relation, at: Context) -> Relation:
    """The relation with every computed field a column of its plan."""
    wanted = [each for each in relation.fields if each.of is not None and not isinstance(each.of, Column)]
    made, names = with_columns(relation, [replace(each, labels=()) for each in wanted], at)
    by = dict(zip((id(each) for each in wanted), names, strict=True))
    fields = tuple(replace(each, of=Column(by[id(each)])) if id(each) in by else each for each in relation.fields)
    return replace(made, fields=fields)


def all_of(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else And(tuple(conditions))
