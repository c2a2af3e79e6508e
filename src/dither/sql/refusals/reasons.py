"""All the independent reasons for which a question is refused, the worst first.

Binding stops at its first error. What that error marks (a column, a condition of WHERE, HAVING, a
term of ORDER BY) is then left out, and the rest is bound again: what is refused next has another
cause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dither.errors import QueryError
from dither.rules import PrivacyRule
from dither.sql.refusals.refuse import find_span

MOST_REASONS = 4
_DEPENDENT = (
    PrivacyRule.ARGUMENTS,
    PrivacyRule.BOUNDED_WORK,
    PrivacyRule.BOUNDS,
    PrivacyRule.PARAMETER_RANGES,
    PrivacyRule.WIDTHS,
)
"""Rules about ranges: a condition that was left out might have narrowed them."""
_ABOUT_PEOPLE = (PrivacyRule.IDS_NEVER_READ, PrivacyRule.NOISY_AGGREGATES)


class SeveralReasons(QueryError):
    """A question that is refused for several reasons, each of which stands for itself."""

    def __init__(self, reasons: Sequence[QueryError]) -> None:
        first = reasons[0]
        text = "\nAlso: ".join(reason.message for reason in reasons)
        super().__init__(text, start=first.start, end=first.end)
        self.reasons = tuple(reasons)


def gather_reasons(
    error: QueryError, query: exp.Query, bind: Callable[[exp.Query], object]
) -> QueryError:
    """Add to an error the other reasons for which the question would be refused.

    What an error marks is left out of `query`, and the rest is bound again.
    """
    reasons = [error]
    while len(reasons) < MOST_REASONS and _leave_out(query, reasons[-1], len(reasons)):
        try:
            bind(query.copy())
            break
        except RecursionError:
            break
        except QueryError as next_error:
            if any(next_error.message == reason.message for reason in reasons):
                break
            reasons.append(next_error)
    independent = [error, *filter(_is_independent, reasons[1:])]
    ordered = sorted(independent, key=_rank_severity)
    return ordered[0] if len(ordered) == 1 else SeveralReasons(ordered)


def add_offer(error: QueryError, offer: str | None) -> QueryError:
    """The error with a question that means the same and is answered."""
    if offer is None or isinstance(error, SeveralReasons):
        return error
    return QueryError(f"{error.message}\nWrite: {offer}", start=error.start, end=error.end)


def _leave_out(query: exp.Query, error: QueryError, number: int) -> bool:
    """Take what an error marks out of the question; False where that is nothing of its own."""
    if not isinstance(query, exp.Select) or error.end <= error.start:
        return False
    for output in query.expressions:
        if _covers(output, error):
            return _replace_output(query, output, number)
    where = query.args.get("where")
    if where is not None and _covers(where, error):
        return _drop_term(query, where, error)
    having = query.args.get("having")
    if having is not None and _covers(having, error):
        query.set("having", None)
        return True
    order = query.args.get("order")
    terms = order.expressions if order is not None else []
    kept = [term for term in terms if not _covers(term, error)]
    if order is not None and len(kept) < len(terms):
        query.set("order", exp.Order(expressions=kept) if kept else None)
        return True
    return False


def _replace_output(query: exp.Select, output: exp.Expr, number: int) -> bool:
    """Put a count in the place of a column that nothing else of the question refers to."""
    group = query.args.get("group")
    keys = group.expressions if group is not None else []
    is_positional = any(isinstance(key, exp.Literal) for key in keys)
    is_key = any(key == output or key.name.lower() == output.alias.lower() for key in keys)
    if is_positional or is_key or (group is not None and group.args.get("all")):
        return False
    name = output.alias or f"reason_{number}"
    output.replace(exp.alias_(exp.Count(this=exp.Star()), name, quoted=True))
    return True


def _drop_term(query: exp.Select, where: exp.Expr, error: QueryError) -> bool:
    """Leave out the condition of WHERE that an error marks; return True where there was one."""
    terms = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    kept = [term for term in terms if not _covers(term, error)]
    if len(kept) == len(terms):
        return False
    query.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
    return True


def _covers(node: exp.Expr, error: QueryError) -> bool:
    start, end = find_span(node)
    return start <= error.start and error.end <= end and start < end


def _is_independent(error: QueryError) -> bool:
    return not any(rule.label in error.message for rule in _DEPENDENT)


def _rank_severity(error: QueryError) -> int:
    """0 where the question meets other people's rows, 1 where a rule is missing, 2 for slips."""
    rules = [rule for rule in PrivacyRule if rule.label in error.message]
    if any(rule.page == "owners" or rule in _ABOUT_PEOPLE for rule in rules):
        return 0
    return 1 if rules else 2
