"""A question while it is read.

Its keys, its atoms, and the columns that both need before they are grouped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Expression
from dither.plan.domain import Domain
from dither.plan.stability import Owned
from dither.question.expressions import Formula, Noisy
from dither.question.recipe import Atom, DisplayKind
from dither.question.row_limits import list_row_limits, name_unit
from dither.sql.key_codes import KeyEncoding
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import Scope


@dataclass(frozen=True)
class Key:
    """A key: what it means, how it is grouped by, and what its column should be called."""

    value: Expression
    encoding: KeyEncoding
    name: str
    is_public: bool = False


@dataclass(frozen=True)
class AtomMeasure:
    """What an atom is.

    A count, a sum, a number of distinct values or units, or a quantile of an expression.
    """

    kind: str
    of: Expression | None = None
    share: Fraction | None = None


@dataclass
class QuestionDraft:
    """What is collected while outputs, HAVING and ORDER BY are read. Equal atoms are one atom."""

    scope: Scope
    keys: list[Key] = field(default_factory=list)
    atoms: dict[AtomMeasure, Atom] = field(default_factory=dict)
    counted: set[Expression] = field(default_factory=set)
    counts_rows: bool = False
    notes: list[str] = field(default_factory=list)
    groups: int | None = None

    def note_atom(
        self,
        released: AtomMeasure,
        words: str,
        importance: Fraction = Fraction(1),
        clamped: str | None = None,
    ) -> Formula:
        """Return the formula of an atom, and note the atom at its first use.

        The largest importance counts. `clamped`: bounds in words.
        """
        atom = self.atoms.get(released)
        if atom is None:
            self.atoms[released] = self._describe(released, words, importance, clamped)
        elif importance > atom.importance:
            self.atoms[released] = Atom(
                atom.aggregate, atom.unit, atom.offset, atom.display, atom.limits, importance
            )
        return Noisy(list(self.atoms).index(released))

    def _describe(
        self, released: AtomMeasure, words: str, importance: Fraction, clamped: str | None
    ) -> Atom:
        """Describe a released number: its words, its unit, and what was done to the rows before."""
        limits = list(list_limits(self))
        unit: Fraction = Fraction(1)
        display: DisplayKind = "integer"
        if released.kind in ("sum", "quantile") and released.of is not None:
            domain = self.scope.domain(released.of)
            unit = domain.step
            display = choose_display(domain)
            if clamped is not None:
                limits.append(clamped)
            elif domain.kind == "number":
                name = words[words.find("(") + 1 : words.rfind(")")] if "(" in words else words
                low = domain.low * domain.step
                high = domain.high * domain.step
                limits.append(f"{name.split(',')[0]} clamped to [{float(low):g}, {float(high):g}]")
            if released.kind == "sum" and display in ("date", "timestamp", "boolean"):
                display = "integer"
        return Atom(words, unit, Fraction(0), display, tuple(limits), importance)

    def find_key(self, value: Expression) -> int | None:
        return next((index for index, key in enumerate(self.keys) if key.value == value), None)


def choose_display(domain: Domain) -> DisplayKind:
    """Choose how a value of a domain is shown: as an integer, a date, a text and so on."""
    match domain.kind:
        case "number":
            return "integer" if domain.step.denominator == 1 else "number"
        case "date" | "timestamp" | "boolean":
            return domain.kind
    return "text"


def list_limits(question: QuestionDraft) -> list[str]:
    """List in words what registration and the question limit per unit."""
    catalog = question.scope.context.catalog
    limits = list_row_limits(catalog, question.scope.relation.plan)
    if catalog.unit.kind == "row" or not question.groups:
        return limits
    return [*limits, f"at most {question.groups} groups per {name_unit(catalog)}"]


def check_owned(question: QuestionDraft, node: exp.Expr) -> None:
    """People can be counted only in rows that have an owner."""
    if not isinstance(
        question.scope.context.analyse(question.scope.relation.plan, node).node, Owned
    ):
        raise make_refusal("loose join", question.scope.context, node)
