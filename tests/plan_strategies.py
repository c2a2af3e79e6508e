"""Random expressions and conditions over whatever columns a plan has, and how many are tried."""

from __future__ import annotations

from fractions import Fraction as F

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from dither.plan import algebra as a
from dither.plan.algebra import Call, Column, Value

SLOW_EXAMPLES = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
]


def set_examples(examples: int) -> settings:
    """So many examples, none shrunk: shrinking would register thousands of databases."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=SLOW_EXAMPLES,
        phases=[Phase.generate],
        database=None,
    )


def expressions(draw, columns, kind: str):
    """An expression of a kind over the columns, one or two calls deep."""
    mine = [Column(name) for name, domain in columns.items() if domain.kind == kind]
    others = [Column(name) for name, domain in columns.items() if domain.kind == "number"]
    constant = Value("number", draw(st.sampled_from([F(0), F(2), F(-3), F(1, 2), F(7, 100)])))
    if kind == "number":
        some = st.sampled_from([*others, constant])
        two = (draw(some), draw(some))
        made = [
            Call(
                draw(
                    st.sampled_from(
                        ["add", "subtract", "multiply", "divide", "mod", "least", "greatest"]
                    )
                ),
                two,
            ),
            Call(draw(st.sampled_from(["abs", "floor", "sign", "negate", "round"])), two[:1]),
            Call("clamp", (two[0], Value("number", F(-1)), Value("number", F(5)))),
            Call("if", (Call("lt", (two[0], two[1])), two[0], constant)),
            Call("coalesce", two),
            Call("case", (Call("ge", two), Call("nullif", two))),
        ]
        return draw(st.sampled_from(made))
    if kind == "boolean":
        some = st.sampled_from([*others, constant])
        compare = Call(
            draw(st.sampled_from(["eq", "lt", "ge", "is_distinct_from"])), (draw(some), draw(some))
        )
        other = Call("gt", (Call("divide", (draw(some), draw(some))), draw(some)))
        joined = Call(draw(st.sampled_from(["and", "or", "xor"])), (compare, other))
        tested = Call(draw(st.sampled_from(["is_null", "is_true", "is_false", "not"])), (joined,))
        between = Call("between", (draw(some), draw(some), draw(some)))
        return draw(
            st.sampled_from([compare, *mine, Call("not", (compare,)), joined, tested, between])
        )
    return draw(st.sampled_from(mine)) if mine else None


@st.composite
def conditions(draw, columns):
    names = [name for name, domain in columns.items() if domain.kind != "id"]
    name = draw(st.sampled_from(names))
    domain = columns[name]
    if domain.kind == "category":
        simple = a.Compare(
            name, draw(st.sampled_from(["=", "<>"])), draw(st.sampled_from(domain.labels))
        )
    elif domain.kind == "text":
        simple = a.Compare(
            name, draw(st.sampled_from(["=", "<>"])), draw(st.sampled_from(["flu", "a", ""]))
        )
    else:
        at = F(draw(st.integers(domain.low - 1, domain.high + 1))) * domain.step
        simple = a.Compare(name, draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), at)
    holds = a.Holds(expressions(draw, columns, "boolean"))
    return draw(
        st.sampled_from(
            [
                simple,
                holds,
                a.Not(simple),
                a.And((simple, holds)),
                a.Or((simple, holds)),
                a.IsNull(name),
            ]
        )
    )
