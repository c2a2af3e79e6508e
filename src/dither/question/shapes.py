"""What a formula looks like to an interval: affine in the atoms, a ratio of two such, monotone
around another, or else.

>>> affine(Apply("subtract", (Noisy(0), Apply("multiply", (Constant(Fraction(2)), Noisy(1))))))
Affine(weights=((0, Fraction(1, 1)), (1, Fraction(-2, 1))), constant=Fraction(0, 1))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dither.question.expressions import Apply, Constant, Formula, Noisy

_ZERO = Fraction(0)


@dataclass(frozen=True)
class Affine:
    """A constant plus a weighted sum of atoms."""

    weights: tuple[tuple[int, Fraction], ...]
    constant: Fraction

    def times(self, factor: Fraction) -> Affine:
        return Affine(
            tuple((atom, weight * factor) for atom, weight in self.weights), self.constant * factor
        )

    def plus(self, addend: Affine) -> Affine:
        """Add two affine expressions; atoms whose weights cancel are left out."""
        weights = dict(self.weights)
        for atom, weight in addend.weights:
            weights[atom] = weights.get(atom, _ZERO) + weight
        nonzero = tuple(sorted((atom, weight) for atom, weight in weights.items() if weight))
        return Affine(nonzero, self.constant + addend.constant)


@lru_cache(maxsize=1024)
def affine(formula: Formula) -> Affine | None:
    """Read a formula as an affine function of atoms: constant + sum of weight * atom.

    None if it is none, or reads keys.
    """
    match formula:
        case Noisy(atom):
            return Affine(((atom, Fraction(1)),), _ZERO)
        case Constant(value) if isinstance(value, Fraction):
            return Affine((), value)
        case Apply("negate", (inner,)):
            return _scale(inner, Fraction(-1))
        case Apply("add", arguments):
            return _add_terms([affine(argument) for argument in arguments])
        case Apply("subtract", (left, right)):
            return _add_terms([affine(left), _scale(right, Fraction(-1))])
        case Apply("multiply", arguments):
            return _multiply_terms([affine(argument) for argument in arguments])
        case Apply("divide", (above, below)):
            divisor = affine(below)
            if divisor is not None and not divisor.weights and divisor.constant:
                return _scale(above, 1 / divisor.constant)
    return None


def _scale(formula: Formula, factor: Fraction) -> Affine | None:
    scaled = affine(formula)
    return None if scaled is None else scaled.times(factor)


def _add_terms(terms: list[Affine | None]) -> Affine | None:
    """Add affine terms; None if one of them is not affine."""
    total = Affine((), _ZERO)
    for term in terms:
        if term is None:
            return None
        total = total.plus(term)
    return total


def _multiply_terms(factors: list[Affine | None]) -> Affine | None:
    """Multiply affine factors; None if the product is not affine (two factors with atoms)."""
    product = Affine((), Fraction(1))
    for factor in factors:
        if factor is None or (factor.weights and product.weights):
            return None
        product = (
            factor.times(product.constant)
            if not product.weights
            else product.times(factor.constant)
        )
    return product


@lru_cache(maxsize=1024)
def ratio(formula: Formula) -> tuple[Affine, Affine] | None:
    """Read a formula as a ratio: return numerator and denominator, both affine, the latter noisy.

    None if the formula is no such ratio.
    """
    match formula:
        case Apply("divide", (above, below)):
            top = _find_fraction(above)
            bottom = _find_fraction(below)
            if top is not None and bottom is not None:
                above_top, above_bottom = top
                below_top, below_bottom = bottom
                upper = _multiply_terms([above_top, below_bottom])
                lower = _multiply_terms([above_bottom, below_top])
                return (
                    None if upper is None or lower is None or not lower.weights else (upper, lower)
                )
        case Apply("multiply", factors):
            fraction = _find_fraction(formula) if len(factors) == 2 else None
            return fraction if fraction is not None and fraction[1].weights else None
    return None


def _find_fraction(formula: Formula) -> tuple[Affine, Affine] | None:
    """Write a formula as (upper, lower), both affine with the formula = upper / lower, or None."""
    whole = affine(formula)
    if whole is not None:
        return whole, Affine((), Fraction(1))
    match formula:
        case Apply("divide", _):
            return ratio(formula)
        case Apply("nullif", (inner, Constant(value))) if value == 0:
            # Below a fraction it changes nothing.
            return _find_fraction(inner)
        case Apply("multiply", (left, right)):
            pair = _find_fraction(left), _find_fraction(right)
            if pair[0] is not None and pair[1] is not None:
                upper = _multiply_terms([pair[0][0], pair[1][0]])
                lower = _multiply_terms([pair[0][1], pair[1][1]])
                return None if upper is None or lower is None else (upper, lower)
    return None


def atoms_of(formula: Formula | None) -> tuple[int, ...]:
    """List the atoms that a formula reads, in order: the indices of released numbers."""
    match formula:
        case Noisy(atom):
            return (atom,)
        case Apply():
            return formula.atoms
    return ()
