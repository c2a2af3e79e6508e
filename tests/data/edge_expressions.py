"""Random expressions and conditions over some columns, their constants at the edges; what is made
may be refused."""

from __future__ import annotations

from fractions import Fraction as F
from random import Random

from dither.plan import algebra as a
from dither.plan.algebra import Call, Column, Value

EDGE_NUMBERS = [
    F(0), F(1), F(-1), F(2), F(1, 2), F(-3), F(7), F(127), F(128), F(-128), F(-129), F(32767),
    F(2**31), F(-(2**31)),
    F(2**62), F(2**63 - 1), F(-(2**63)), F(10**18), F(1, 100), F(-7, 100), F(5),
]  # fmt: skip


def n(value) -> Value:
    return Value("number", F(value))


class Maker:
    """Random expressions over some columns; what it makes may be refused."""

    def __init__(self, random: Random, columns) -> None:
        self.random, self.columns = random, columns

    def of_kind(self, *kinds: str):
        return [Column(name) for name, domain in self.columns.items() if domain.kind in kinds]

    def constant(self, kind: str):
        near = [d for d in self.columns.values() if d.kind == kind]
        if kind == "boolean":
            return Value("boolean", F(self.random.randint(0, 1)))
        if near and self.random.random() < 0.6:
            domain = self.random.choice(near)
            at = self.random.choice(
                [domain.low - 1, domain.low, domain.high, domain.high + 1, domain.high + 2]
            )
            value = at * domain.step
            if kind == "date":
                value = max(F(-719162), min(F(2932896), value))
            if kind == "timestamp":
                value = max(F(-719162 * 86400), min(F((2932896 + 1) * 86400 - 1), value))
            return Value(kind, value)
        if kind == "number":
            return n(self.random.choice(EDGE_NUMBERS))
        if kind == "date":
            return Value("date", F(self.random.choice([0, -1, 19782, -719162, 2932896])))
        return Value("timestamp", F(self.random.choice([0, -1, 1, 1_714_561_200])))

    def leaf(self, kind: str):
        mine = self.of_kind(kind)
        # a constant time takes the zone of the column it is chosen with, which the oracle does not
        # know
        if mine and (kind == "timestamp" or self.random.random() < 0.75):
            return self.random.choice(mine)
        if kind == "category":
            return self.random.choice(mine) if mine else None
        if kind == "text":
            return self.random.choice(mine) if mine else Value("text", "ab")
        return self.constant(kind)

    def make(self, kind: str, depth: int = 2):
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(kind)
        made = getattr(self, f"_{kind}")(depth - 1)
        if made is None or any(each is None for each in made.arguments):
            return self.leaf(kind)
        return made

    def _chosen(self, kind: str, depth: int):
        x, y = self.make(kind, depth), self.make(kind, depth)
        test = self.make("boolean", depth)
        if kind == "category":
            labels = [d.labels for d in self.columns.values() if d.kind == "category"]
            if not labels:
                return None
            y = self.random.choice(
                [y, Value("text", self.random.choice(self.random.choice(labels)))]
            )
        return self.random.choice(
            [
                Call("if", (test, x, y)),
                Call("case", (test, x)),
                Call("case", (test, x, self.make("boolean", depth), y)),
                Call("case", (test, x, self.make("boolean", depth), y, self.make(kind, depth))),
                Call("coalesce", (x, y)),
                Call("coalesce", (x, y, self.make(kind, depth))),
                Call("nullif", (x, y)),
            ]
        )

    def _number(self, depth: int):
        pick, x, y = self.random.choice, self.make("number", depth), self.make("number", depth)
        k = self.random.random()
        if k < 0.3:
            two = [
                "add",
                "subtract",
                "multiply",
                "divide",
                "integer_divide",
                "mod",
                "least",
                "greatest",
            ]
            return Call(pick(two), (x, y))
        if k < 0.4:
            return Call(
                pick(
                    [
                        "floor",
                        "ceil",
                        "trunc",
                        "round",
                        "to_integer",
                        "abs",
                        "negate",
                        "sign",
                        "sqrt",
                        "to_number",
                    ]
                ),
                (x,),
            )
        if k < 0.5:
            low, high = sorted([self.constant("number").value, self.constant("number").value])
            return pick(
                [
                    Call("clamp", (x, n(low), n(high))),
                    Call(
                        "width_bucket", (x, n(low), n(high), n(pick([1, 2, 7, 127, 128, 100_000])))
                    ),
                    Call("bin", (x, n(pick([1, 2, 3, 5, 100, 128, 2**31, F(1, 10)])))),
                    Call("round", (x, n(pick([0, 1, 2, 6])))),
                    Call("power", (x, n(pick([1, 2, 3])))),
                ]
            )
        if k < 0.6:
            date = self.make("date", depth)
            names = [
                "year",
                "quarter",
                "month",
                "week",
                "day",
                "day_of_week",
                "day_of_year",
                "days_in_month",
            ]
            return Call(pick(names), (date,))
        if k < 0.68:
            return pick(
                [
                    Call(pick(["hour", "minute", "second"]), (self.make("timestamp", depth),)),
                    Call("days_between", (self.make("date", depth), self.make("date", depth))),
                    Call("age_years", (self.make("date", depth), self.make("date", depth))),
                    Call(
                        "seconds_between",
                        (self.make("timestamp", depth), self.make("timestamp", depth)),
                    ),
                ]
            )
        if k < 0.76:
            text = self.make("text", depth)
            return pick(
                [
                    Call(pick(["length", "byte_length"]), (text,)),
                    Call("position", (text, Value("text", "b"))),
                    Call(
                        "parse_integer",
                        (text, n(pick([-7, 0, -128, -(10**17)])), n(pick([127, 128, 5, 10**17]))),
                    ),
                ]
            )
        if k < 0.8:
            return Call("to_number", (self.make("boolean", depth),))
        return self._chosen("number", depth)

    def _boolean(self, depth: int):
        pick = self.random.choice
        kind = pick(["number", "number", "date", "timestamp"])
        x, y = self.make(kind, depth), self.make(kind, depth)
        p, q = self.make("boolean", depth), self.make("boolean", depth)
        k = self.random.random()
        if k < 0.3:
            return Call(pick(["eq", "ne", "lt", "le", "gt", "ge", "is_distinct_from"]), (x, y))
        if k < 0.4:
            return Call("between", (x, y, self.make(kind, depth)))
        if k < 0.5:
            return Call("in", (x, *(self.constant(kind) for _ in range(self.random.randint(1, 3)))))
        if k < 0.6:
            return Call(pick(["and", "or"]), (p, q, self.make("boolean", depth))[: pick([2, 3])])
        if k < 0.7:
            return Call(pick(["not", "is_true", "is_false", "is_null", "is_not_null"]), (p,))
        if k < 0.75:
            return Call("xor", (p, q))
        if k < 0.8:
            c = self.make("category", depth)
            labels = [d.labels for d in self.columns.values() if d.kind == "category"]
            if c is None or not labels:
                return Call("is_weekend", (self.make("date", depth),))
            some = [Value("text", pick(pick(labels))) for _ in range(2)]
            return pick(
                [Call(pick(["eq", "ne", "is_distinct_from"]), (c, some[0])), Call("in", (c, *some)),
                 Call("is_null", (c,)),                  Call("eq",
                 (c, self.make("category", depth)))]
            )  # fmt: skip
        if k < 0.85:
            return Call(pick(["is_null", "is_not_null"]), (pick([x, y, self.make("text", depth)]),))
        return self._chosen("boolean", depth)

    def _date(self, depth: int):
        pick = self.random.choice
        x = self.make("date", depth)
        k = self.random.random()
        if k < 0.35:
            return Call(
                pick(["trunc_year", "trunc_quarter", "trunc_month", "trunc_week", "last_day"]), (x,)
            )
        if k < 0.45:
            return Call("add_days", (x, self.make("number", depth)))
        if k < 0.55:
            return Call("add_months", (x, n(pick([0, 1, -1, 12, -13, 1200]))))
        if k < 0.65:
            return Call("date_of", (self.make("timestamp", depth),))
        return self._chosen("date", depth)

    def _timestamp(self, depth: int):
        if self.random.random() < 0.4:
            return Call("add_seconds", (self.make("timestamp", depth), self.make("number", depth)))
        return self._chosen("timestamp", depth)

    def _category(self, depth: int):
        return self._chosen("category", depth)

    def _text(self, depth: int):
        pick, x = self.random.choice, self.make("text", depth)
        return pick(
            [
                Call(pick(["lower", "upper", "trim"]), (x,)),
                Call("left", (x, n(1))),
                Call("concat", (x, self.make("text", depth))),
                Call("label", (self.make("category", depth),)),
                self._chosen("text", depth),
            ]
        )

    def condition(self, depth: int = 2):
        pick = self.random.choice
        if depth and self.random.random() < 0.4:
            parts = tuple(self.condition(depth - 1) for _ in range(self.random.randint(1, 3)))
            return pick([a.And(parts), a.Or(parts), a.Not(parts[0])])
        names = [name for name, domain in self.columns.items() if domain.kind != "id"]
        name = pick(names)
        domain = self.columns[name]
        if self.random.random() < 0.3:
            return a.Holds(self.make("boolean", 2))
        if self.random.random() < 0.15:
            return a.IsNull(name)
        if domain.kind == "category":
            return a.Compare(name, pick(["=", "<>"]), pick(domain.labels))
        if domain.kind == "text":
            return a.Compare(name, pick(["=", "<>"]), pick(["a", "", "v0"]))
        ends = [domain.low, domain.high]
        at = F(pick(ends) + pick([-2, -1, 0, 1, 2]) + pick([0, 0, 0, F(1, 2)])) * domain.step
        at = pick([at, at, at, F(pick([10**30, -(10**30), 0, 1, 127, 128]))])
        return a.Compare(name, pick(["=", "<>", "<", "<=", ">", ">="]), at)
