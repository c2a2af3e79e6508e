"""The half that lives on a device: values in, reports out, and a budget that lasts as long as the
device.

A client charges its protocol's epsilon for every *new* report and refuses when the lifetime budget
is spent; nothing renews by itself. With memoisation (the default) a value that was reported before
is answered by the report it had before, free of charge, so that averaging repeated reports learns
nothing more about it. What that covers is counted: `changes_covered`. What it does not cover:
*when* a value changed or came back shows in the reports.

>>> from dither import local
>>> client = local.Client(local.OptimisedUnary(1, domain=8), lifetime_epsilon=2)
>>> client.report(3) == client.report(3), client.spent
(True, Fraction(1, 1))
>>> client.changes_covered
2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.local import wire
from dither.local.coins import Coins
from dither.local.device import DeviceBudget, Renewal
from dither.local.protocol import UNPROTECTED, Protocol, from_json
from dither.privacy.losses import Loss, Pure


def _check_memos(protocol: Protocol, memos: list[bytes]) -> None:
    """Refuse memoised answers that no device of this protocol can have drawn."""
    if any(len(memo) != protocol.memo_bytes for memo in memos):
        raise ParameterError(
            "a memoised answer of the stored client has another size than its protocol's"
        )
    payloads = np.frombuffer(b"".join(memos), np.uint8).reshape(len(memos), protocol.memo_bytes)
    if memos and not protocol.valid(payloads).all():
        raise ParameterError(
            "a memoised answer of the stored client is none that its protocol gives: restore the "
            "state that to_json wrote"
        )


class Client:
    """One user's device.

    `save` is called with the new state *before* a new answer leaves: if it fails, nothing leaves.
    The state holds the memoised answers, so it is as private as the value, and stays on the device.
    `otherwise` is the public value that is reported for whatever has no place in the domain
    (unknown, missing, nan): with it a device never falls silent because of its value. With `labels`
    that hold "other", that is it.

    A client holds no random state: every report draws its bits from the operating system when it is
    made.
    """

    def __init__(
        self,
        protocol: Protocol,
        *,
        lifetime_epsilon: Number | None = None,
        budget: DeviceBudget | None = None,
        memoise: bool = True,
        labels: Sequence[str] | None = None,
        otherwise: Any = None,
        save: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Make the client of one device that reports by `protocol`.

        Give `lifetime_epsilon`, or a `budget` that all clients of the device share.
        `labels` are texts for the values 0, 1, ...; without `memoise` every report is drawn
        and paid anew. Refuse a budget that counts another unit than the protocol protects,
        one that does not pay a single report, and labels that the protocol cannot report.
        """
        if (budget is None) == (lifetime_epsilon is None):
            raise ParameterError(
                "give lifetime_epsilon, or the DeviceBudget that all clients of this device share"
            )
        self.protocol = protocol
        self.budget = (
            budget
            if budget is not None
            else DeviceBudget(lifetime_epsilon or 0, unit=protocol.unit)
        )
        if self.budget.unit != protocol.unit:
            raise ParameterError(
                f"this protocol protects one {protocol.unit}, the budget counts losses of one "
                f"{self.budget.unit}: "
                "they do not add; give it a DeviceBudget(..., unit=protocol.unit) of its own"
            )
        if self.lifetime_epsilon < protocol.epsilon:
            raise ParameterError(
                f"a lifetime budget of {float(self.lifetime_epsilon):g} does not pay one report "
                f"at {float(protocol.epsilon):g}: raise it, or choose a protocol with a smaller "
                f"epsilon"
            )
        self.memoise = memoise
        self.labels = tuple(labels) if labels is not None else None
        self._label_codes = {label: code for code, label in enumerate(self.labels or ())}
        if len(self._label_codes) != len(self.labels or ()):
            raise ParameterError("labels must be different from each other")
        if len(self._label_codes) > getattr(protocol, "domain", len(self._label_codes)):
            raise ParameterError(
                "there are more labels than values in the protocol's domain: some could not be "
                "reported"
            )
        plain = (
            otherwise.tolist() if isinstance(otherwise, (np.ndarray, np.generic)) else otherwise
        )  # for JSON
        self.otherwise = plain if plain is not None else self._label_codes.get("other")
        self._device = protocol.enrol(Coins().source())
        self._memos: dict[str, bytes] = {}
        self._save = save
        self._unsaved = False
        self._header = wire.seal(protocol, b"")
        self._instant = type(protocol).instant is not Protocol.instant
        if self.otherwise is not None:
            self._try_otherwise(self.otherwise)

    # --- reporting
    # ---------------------------------------------------------------------------------------------
    def report(self, value: Any) -> bytes:
        """Make one report, ready to send; raises BudgetError instead of passing the lifetime
        budget.

        A new answer is charged and stored before anything leaves.
        """
        try:
            memo = self._get_answer(self._encode_value(value))
        except (TypeError, ValueError, OverflowError) as problem:  # ParameterError is a ValueError
            if self.otherwise is None:
                if isinstance(problem, ParameterError):
                    raise
                raise ParameterError(
                    "the value is of another kind than this protocol's values"
                ) from None
            memo = self._get_answer(self.otherwise)
        if self._unsaved:
            self._store_state()
        if not self._instant:
            return self._header + memo
        row = np.frombuffer(memo, np.uint8).reshape(1, -1)
        sent: bytes = self.protocol.instant(row, Coins().source())[0].tobytes()
        return self._header + sent

    def _get_answer(self, held: Any) -> bytes:
        """Return the memoised answer, or a new one: charged, and stored, before anything leaves."""
        protocol = self.protocol
        key = protocol.memo_key(held, self._device) if self.memoise else ""
        memo = self._memos.get(key) if self.memoise else None
        if memo is None:
            self.budget.require(protocol.epsilon)
            memo = protocol.permanent_one(held, Coins(), self._device)
            self.budget.charge(self._name, protocol.epsilon)
            if self.memoise:
                self._memos[key] = memo
            self._unsaved = True
        return memo

    def _try_otherwise(self, value: Any) -> None:
        """Refuse, when the client is made, an `otherwise` that the protocol would refuse later."""
        self.protocol.memo_key(value, self._device)
        self.protocol.permanent_one(value, Coins(), self._device)

    def _store_state(self) -> None:
        if self._unsaved and self._save is not None:
            self._save(self.to_json())
        self._unsaved = False

    def _encode_value(self, value: Any) -> Any:
        """Turn a label into its code; without labels the value stays as it is."""
        if self.labels is None:
            return value
        if isinstance(value, str) and value in self._label_codes:
            return self._label_codes[value]
        raise ParameterError(
            "the value has no label: add a label 'other' for everything unforeseen"
        )

    # --- the device's ledger
    # -----------------------------------------------------------------------------------
    @property
    def lifetime_epsilon(self) -> Fraction:
        return self.budget.lifetime_epsilon

    @property
    def spent(self) -> Fraction:
        """What the whole device has spent, all protocols together."""
        return self.budget.spent

    @property
    def left(self) -> Fraction:
        return self.budget.left

    @property
    def renewals(self) -> tuple[Renewal, ...]:
        return self.budget.renewals

    @cached_property
    def _name(self) -> str:
        return f"{self.protocol.digest[:4].hex()} {self.protocol.type}"

    @property
    def changes_covered(self) -> int:
        """How many different answers (with memoisation: distinct values) the lifetime budget pays
        for, if alone."""
        return int(self.lifetime_epsilon / self.protocol.epsilon)

    def renew(self, epsilon: Number, *, because: str) -> None:
        """Add to the device's lifetime budget, with a reason that stays on record."""
        self.budget.renew(epsilon, because=because)
        self._unsaved = True
        self._store_state()

    def loss(self) -> Loss:
        """Everything this device has lost so far, renewals included.

        With memoisation it holds between histories whose *memoised answers* (for rounded numbers:
        whose rounded values) change and return at the same times: those times are not protected.
        Without, between any two histories of as many reports.
        """
        return Pure(self.spent, neighbours="replace", unit=self.protocol.unit)

    def statement(self) -> str:
        """Write what the user may be told: the loss of an answer, what is spent, what is not
        protected."""
        lines = [
            f"Each new answer loses at most epsilon = {float(self.protocol.epsilon):g}, delta 0 "
            f"(replace, unit: one "
            f"{self.protocol.unit}).",
            f"Spent {float(self.spent):g} of {float(self.lifetime_epsilon):g} for the lifetime of "
            f"this device.",
        ]
        if self.memoise:
            lines.append(
                f"Answers are memoised: {self.changes_covered} distinct values are covered, "
                f"repeats are free; "
                f"{len(self._memos)} used."
            )
        else:
            lines.append(f"Answers are not memoised: {self.changes_covered} reports are covered.")
        lines += [f"Renewed by {float(r.epsilon):g}: {r.because}." for r in self.renewals]
        lines.append("Not protected: " + "; ".join(UNPROTECTED) + ".")
        return "\n".join(lines)

    # --- storage on the device
    # ---------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        """Write the state to keep on the device (secret: it holds the memoised answers)."""
        return {
            "dither_local_client": 1,
            "protocol": self.protocol.to_json(),
            "budget": self.budget.to_json(),
            "memoise": self.memoise,
            "labels": list(self.labels) if self.labels is not None else None,
            "otherwise": self.otherwise,
            "device": self._device,
            "memos": {key: memo.hex() for key, memo in self._memos.items()},
        }

    @classmethod
    def from_json(
        cls,
        state: dict[str, Any],
        *,
        budget: DeviceBudget | None = None,
        known_answers: int = 0,
        save: Callable[[dict[str, Any]], None] | None = None,
    ) -> Client:
        """Read the client that `to_json` wrote: same budget (or the shared one given), same
        answers.

        `known_answers` is how many new answers the device is known to have given, from a counter
        outside this state: an older state is refused, because it would give, and spend, them again.
        """
        if state.get("dither_local_client") != 1:
            raise ParameterError("not the state of a local client in format 1")
        stored = DeviceBudget.from_json(
            state["budget"], known_answers=known_answers if budget is None else 0
        )
        if budget is not None and (
            budget.answers < known_answers or not budget.includes(state["budget"])
        ):
            raise ParameterError(
                "the shared budget is older than this client's state: it lacks charges made before"
            )
        client = cls(
            from_json(state["protocol"]),
            budget=budget if budget is not None else stored,
            memoise=state["memoise"],
            labels=state["labels"],
            otherwise=state["otherwise"],
            save=save,
        )
        client._device = state["device"]
        client._memos = {key: bytes.fromhex(memo) for key, memo in state["memos"].items()}
        _check_memos(client.protocol, list(client._memos.values()))
        return client

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError(
            "a client cannot be copied: each copy would spend the device's budget. Move it with "
            "to_json"
        )

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = (
        _refuse_copy
    )
