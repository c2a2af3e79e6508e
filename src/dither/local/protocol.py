"""What every local protocol is: public facts, a randomiser for the device, a tally and an estimate
for the collector.

A protocol is a frozen dataclass. Both halves build it from the same public document (`to_json`),
whose digest every report carries. Nothing here holds a value of a person longer than one call.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.canonical import dumps, fraction_text, quote
from dither.errors import ParameterError
from dither.local.coins import Coins
from dither.local.estimate import Estimate
from dither.local.values import one_row
from dither.local.wire import Payloads
from dither.privacy.losses import Loss, Pure
from dither.privacy.noise import Words
from dither.stored import stored, stored_items, stored_keys

_TYPES: dict[str, type[Protocol]] = {}
UNIT = "user"
_LONGEST_NAME = 1000
UNPROTECTED = (
    "who reported, when and how often",
    "the protocol, its parameters and this device's public draws (hash seeds, cohort, sampled "
    "coordinate)",
    "for memoised reports: when the answer changed and when it returned (a rounded value: when the "
    "rounding changed)",
    "that a device fell silent because its lifetime budget was spent, or its value had no place in "
    "the domain",
)


@stored(epsilon="epsilon")
@dataclass(frozen=True)
class Protocol(ABC):
    """Base of all protocols. `epsilon` is a certified bound on the loss of one permanent report,
    unit user, replace."""

    type: ClassVar[str]
    version: ClassVar[int] = 1
    epsilon: Fraction

    def __post_init__(self) -> None:
        for name, number in read_field_kinds(self).items():
            object.__setattr__(self, name, number)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "type" in cls.__dict__:
            _TYPES.setdefault(cls.type, cls)

    # --- public facts
    # ------------------------------------------------------------------------------------------
    @property
    def unit(self) -> str:
        """Name what two neighbouring inputs differ in: all data of one user, or less."""
        return UNIT

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """Size of every payload."""

    @property
    def memo_bytes(self) -> int:
        """Size of every memoised answer."""
        return self.payload_bytes

    def derived(self) -> dict[str, Any]:
        """Facts that follow from the fields, written out for clients in other languages."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """Write the public document of the protocol."""
        tree: dict[str, Any] = {"protocol": self.type, "v": self.version}
        for key, value in stored_items(self):
            tree[key] = _to_plain(value)
        tree["derived"] = {name: _to_plain(value) for name, value in self.derived().items()}
        tree["payload_bytes"] = self.payload_bytes
        return tree

    def document(self) -> str:
        """The public document as canonical JSON: the text to publish, whose sha256 is the
        digest."""
        return dumps(self.to_json())

    @cached_property
    def digest(self) -> bytes:
        """sha256 of the document."""
        return hashlib.sha256(self.document().encode()).digest()

    def loss(self) -> Loss:
        """Return what one permanent report costs its user.

        Repeats of a memoised report are free; a change of value is not.
        """
        return Pure(self.epsilon, neighbours="replace", unit=self.unit)

    # --- the device
    # --------------------------------------------------------------------------------------------
    def enrol(self, source: Words) -> int:
        """Draw what a device keeps for ever, such as a cohort or a rounding offset.

        It is public, or harmless by itself.
        """
        return 0

    def memo_key(self, value: Any, device: int) -> str:
        """Return the key under which a client keeps its report; equal keys share one report."""
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return str(int(value)) if is_integer else repr(value)

    @abstractmethod
    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw one permanent report for each value: what a client memoises.

        This draw alone makes reports private; everything after it is post-processing.
        """

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        """One permanent report of one value: the law of `permanent`, written for one device where
        that is faster."""
        report: bytes = self.permanent(
            one_row(value), coins.source(), np.array([device], np.int64)
        )[0].tobytes()
        return report

    def instant(self, memos: Payloads, source: Words) -> Payloads:
        """Return what leaves the device for each memoised report.

        That is the report itself, or a second randomisation of it.
        """
        return memos

    def randomise(self, values: Any, source: Words) -> Payloads:
        """One report for each value (each from a device of its own)."""
        return self.instant(self.permanent(values, source), source)

    @abstractmethod
    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        A payload is what `permanent` draws. Audits of small domains sum over all of them.
        """

    @abstractmethod
    def inputs(self) -> list[Any]:
        """List all values that a user may hold, or enough of them to have every extreme law."""

    def neighbours(self) -> list[list[Any]]:
        """List groups of inputs; any two inputs of one group are neighbours.

        There is one group of all inputs, unless the unit is less than a user.
        """
        return [self.inputs()]

    # --- the collector
    # -----------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def tally_size(self) -> int: ...

    @property
    def keeps_reports(self) -> bool:
        """Whether no tally of bounded size exists, so that the collector keeps the payloads
        (searches do)."""
        return False

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        """Which payloads some client could have sent; the others are counted and left out."""
        return np.ones(len(payloads), np.bool_)

    @abstractmethod
    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        """Sum reports up to the numbers that estimates need; tallies of batches add up."""

    def accumulate(self, tally: NDArray[np.int64], payloads: Payloads) -> None:
        """Add the tally of some reports to `tally`, in place."""
        tally += self.tally(payloads)

    @abstractmethod
    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """Unbiased totals from a tally: in floats, or exactly where the tally holds Fractions
        (dtype object)."""

    def target(self, value: Any) -> NDArray[Any]:
        """Compute what `debias` of one report estimates: by default 1 at the value, else 0."""
        inputs = self.inputs()
        return np.array([Fraction(int(candidate == value)) for candidate in inputs], object)

    @abstractmethod
    def user_variance(self, value: Any) -> NDArray[Any]:
        """Exact variance of each entry of `debias` of one report of a user who holds `value`, by
        formula."""

    @abstractmethod
    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Totals with their variances."""

    @property
    def keeps_squares(self) -> bool:
        """Whether the collector also keeps the sum of squared answers, to estimate the variance."""
        return False

    def sum_squares(self, payloads: Payloads) -> int:
        """The sum of squared answers of some reports, for protocols that keep it."""
        raise ParameterError(f"{self.type} has no sum of squares")

    def estimate_from(
        self, tally: NDArray[np.int64], reports: int, squares: int | None
    ) -> Estimate:
        """`estimate`, with the variance that the squares show where they are kept."""
        return self.estimate(tally, reports)


def from_json(tree: dict[str, Any]) -> Protocol:
    """Read the protocol of a document.

    Raises ParameterError for unknown types and versions, and for derived facts that do not follow.

    >>> from dither import local
    >>> local.from_json(local.Direct(1, domain=4).to_json())
    Direct(epsilon=Fraction(1, 1), domain=4)
    """
    name = tree.get("protocol") if isinstance(tree, dict) else None
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ParameterError(
            f"no local protocol {name!r}: a document names one that this version knows"
        )
    if tree.get("v") != kind.version:
        raise ParameterError(
            f"protocol {kind.type} version {tree.get('v')} is not known here: it needs a newer "
            f"dither"
        )
    fields: dict[str, Any] = {
        attribute: tree.get(key) for key, attribute in stored_keys(kind).items()
    }
    make: Any = kind
    try:
        protocol: Protocol = make(
            **{name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
        )
        follows = dumps(protocol.to_json()) == dumps(tree)
    except ParameterError:
        raise
    except (TypeError, AttributeError, ValueError, ArithmeticError):
        raise ParameterError(
            f"the document of protocol {kind.type} has fields of the wrong kind"
        ) from None
    if not follows:
        raise ParameterError(
            f"the document of protocol {kind.type} states facts that do not follow from its fields"
        )
    return protocol


def _to_plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return fraction_text(value)
    return [_to_plain(element) for element in value] if isinstance(value, tuple) else value


def read_field_kinds(protocol: Protocol) -> dict[str, int]:
    """Return the integer fields as Python integers; refuse fields of the wrong kind.

    A truth value is no number here: `1 == True`, but their documents have different digests.
    """
    numbers = {}
    for field in fields(protocol):
        value = getattr(protocol, field.name)
        if field.type == "int":
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise ParameterError(f"{field.name} must be a whole number, got {quote(value)}")
            numbers[field.name] = int(value)
        elif field.type == "bool" and not isinstance(value, bool):
            raise ParameterError(f"{field.name} must be True or False, got {quote(value)}")
        elif field.type == "str":
            read_name(value, field.name)
    return numbers


def read_name(value: Any, name: str) -> str:
    """Read a public name: text of at most 1,000 characters that has a UTF-8 form.

    Raises ParameterError for any other.
    """
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise ParameterError(
            f"{name} must be a text of at most {_LONGEST_NAME:,} characters: it is part of the "
            f"public document"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ParameterError(
            f"{name} holds half of a surrogate pair, which has no UTF-8: write whole characters"
        ) from None
    return value


def read_domain(domain: Any, largest: int) -> int:
    """Read a domain size from 2 to `largest`. Raises ParameterError for any other."""
    if (
        isinstance(domain, bool)
        or not isinstance(domain, (int, np.integer))
        or not 2 <= domain <= largest
    ):
        raise ParameterError(
            f"domain must be an integer between 2 and {largest}, got {quote(domain)}"
        )
    return int(domain)


def is_exact(tally: NDArray[Any]) -> bool:
    """Whether arithmetic on this tally is to be done in Fractions."""
    return tally.dtype == object
