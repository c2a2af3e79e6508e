"""The columns of a subquestion: its keys, and the aggregates that a statement names."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from dither.postprocess.query_tree import CannotSplit, strip_alias, write_output


class SubQuestionColumns:
    """The columns of a part: its keys, and the aggregates that are met while the rest is read."""

    def __init__(self, keys: dict[str, exp.Expr], query: exp.Select, hidden: set[str]) -> None:
        self.keys = keys
        self.aggregates: dict[str, exp.Expr] = {}
        self.aliases = {
            output.alias.lower(): output.this for output in query.expressions if output.alias
        }
        named = Counter(output.alias.lower() for output in query.expressions if output.alias)
        self.ambiguous = {name for name, count in named.items() if count > 1}
        for name in hidden:
            del self.aliases[name]
        self.used_aliases: set[str] = set()
        self._names = {
            strip_alias(output): output.alias for output in query.expressions if output.alias
        }

    def find_key(self, node: exp.Expr) -> str | None:
        """The name of the key that an expression is."""
        for name, key in self.keys.items():
            if node == key:
                return name
        if not isinstance(node, exp.Column) or node.table:
            return None
        return next((name for name in self.keys if node.name.lower() == name.lower()), None)

    def add(self, aggregate: exp.Expr) -> str:
        """The name of the column of an aggregate: the asker's, or else its own text."""
        for name, known in self.aggregates.items():
            if known == aggregate:
                return name
        taken = {name.lower() for name in (*self.keys, *self.aggregates)}
        alias = self._names.get(aggregate)
        named: str = aggregate.sql(dialect="duckdb")
        if alias is not None and alias.lower() not in taken:
            named = alias
        if named.lower() in taken:
            raise CannotSplit
        self.aggregates[named] = aggregate.copy()
        return named

    def mistakes_an_alias(self) -> bool:
        """Whether the name of an output that is used by another is that of a different column."""
        columns = {**self.keys, **self.aggregates}
        ends = {f"{name}{end}".lower() for name in columns for end in ("_low", "_high")}
        meanings = {name.lower(): node for name, node in columns.items()}
        return any(
            name in ends or meanings.get(name, self.aliases[name]) != self.aliases[name]
            for name in self.used_aliases
        )

    def list_outputs(self) -> list[exp.Expr]:
        """Keys, then aggregates, each under its name."""
        return [
            write_output(node.copy(), name)
            for name, node in {**self.keys, **self.aggregates}.items()
        ]
