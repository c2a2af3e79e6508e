"""The half that lives on a device: values in, reports out, and a budget that lasts as long as the device.

A client charges its protocol's epsilon for every *new* report and refuses when the lifetime budget is spent; nothing
renews by itself. With memoisation (the default) a value that was reported before is answered by the report it had
before, free of charge, so that averaging repeated reports learns nothing more about it. What that covers is counted:
`changes_covered`. What it does not cover: *when* a value changed or came back shows in the reports.

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
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.local import wire
from dither.local.device import DeviceBudget, Renewal
from dither.local.protocol import UNIT, UNPROTECTED, Protocol, from_json
from dither.privacy.losses import Loss, Pure
from dither.privacy.noise import SystemSource


class Client:
    """One user's device.

    `save` is called with the new state *before* a new answer leaves: if it fails, nothing leaves. The state holds the
    memoised answers, so it is as private as the value, and stays on the device.
    """

    def __init__(
        self,
        protocol: Protocol,
        *,
        lifetime_epsilon: Number | None = None,
        budget: DeviceBudget | None = None,
        memoise: bool = True,
        labels: Sequence[str] | None = None,
        save: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        if (budget is None) == (lifetime_epsilon is None):
            raise ParameterError("give lifetime_epsilon, or the DeviceBudget that all clients of this device share")
        self.protocol = protocol
        self.budget = budget if budget is not None else DeviceBudget(lifetime_epsilon or 0)
        if self.lifetime_epsilon < protocol.epsilon:
            raise ParameterError(
                f"a lifetime budget of {float(self.lifetime_epsilon):g} does not pay one report "
                f"at {float(protocol.epsilon):g}: raise it, or choose a protocol with a smaller epsilon"
            )
        self.memoise = memoise
        self.labels = tuple(labels) if labels is not None else None
        self._source = SystemSource()
        self._device = protocol.enrol(self._source)
        self._memos: dict[str, bytes] = {}
        self._save = save
        self._unsaved = False

    # --- reporting ----------------------------------------------------------------------------------------------
    def report(self, value: Any) -> bytes:
        """One report, ready to send; raises BudgetError instead of exceeding the lifetime budget."""
        held = self._index(value)
        key = self.protocol.memo_key(held, self._device)
        memo = self._memos.get(key) if self.memoise else None
        if memo is None:
            self.budget.require(self.protocol.epsilon)
            devices = np.array([self._device], np.int64)
            fresh = self.protocol.permanent(_one(held), self._source, devices)
            self.budget.charge(self._name, self.protocol.epsilon)  # charged, and stored, before anything leaves
            memo = fresh[0].tobytes()
            if self.memoise:
                self._memos[key] = memo
            self._unsaved = True
        self._keep()
        row = np.frombuffer(memo, np.uint8).reshape(1, -1)
        return wire.seal(self.protocol, self.protocol.instant(row, self._source)[0].tobytes())

    def _keep(self) -> None:
        if self._unsaved and self._save is not None:
            self._save(self.to_json())
        self._unsaved = False

    def _index(self, value: Any) -> Any:
        if self.labels is None:
            return value
        if value in self.labels:
            return self.labels.index(value)
        if "other" in self.labels:
            return self.labels.index("other")
        raise ParameterError("the value has no label: add a label 'other' for everything unforeseen")

    # --- the device's ledger ------------------------------------------------------------------------------------
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

    @property
    def _name(self) -> str:
        return f"{self.protocol.digest[:4].hex()} {self.protocol.type}"

    @property
    def changes_covered(self) -> int:
        """How many different answers (with memoisation: distinct values) the lifetime budget pays for, if alone."""
        return int(self.lifetime_epsilon / self.protocol.epsilon)

    def renew(self, epsilon: Number, *, because: str) -> None:
        """Add to the device's lifetime budget, with a reason that stays on record."""
        self.budget.renew(epsilon, because=because)
        self._unsaved = True
        self._keep()

    def loss(self) -> Loss:
        """Everything this device has lost so far, renewals included.

        With memoisation it holds between histories whose values change and return at the same times: those times are
        not protected. Without, it holds between any two histories of as many reports.
        """
        return Pure(self.spent, neighbours="replace", unit=UNIT)

    def statement(self) -> str:
        """What the user may be told."""
        lines = [
            f"Each new answer loses at most epsilon = {float(self.protocol.epsilon):g} (replace, unit {UNIT}).",
            f"Spent {float(self.spent):g} of {float(self.lifetime_epsilon):g} for the lifetime of this device.",
        ]
        if self.memoise:
            lines.append(
                f"Answers are memoised: {self.changes_covered} distinct values are covered, repeats are free; "
                f"{len(self._memos)} used."
            )
        else:
            lines.append(f"Answers are not memoised: {self.changes_covered} reports are covered.")
        lines += [f"Renewed by {float(r.epsilon):g}: {r.because}." for r in self.renewals]
        lines.append("Not protected: " + "; ".join(UNPROTECTED) + ".")
        return "\n".join(lines)

    # --- storage on the device ----------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        """The state to keep on the device (secret: it holds the memoised answers)."""
        return {
            "dither_local_client": 1,
            "protocol": self.protocol.to_json(),
            "budget": self.budget.to_json(),
            "memoise": self.memoise,
            "labels": list(self.labels) if self.labels is not None else None,
            "device": self._device,
            "memos": {key: memo.hex() for key, memo in self._memos.items()},
        }

    @classmethod
    def from_json(
        cls,
        state: dict[str, Any],
        *,
        budget: DeviceBudget | None = None,
        save: Callable[[dict[str, Any]], None] | None = None,
    ) -> Client:
        """The client that `to_json` wrote: same budget (or the shared one given), same memoised answers."""
        if state.get("dither_local_client") != 1:
            raise ParameterError("not the state of a local client in format 1")
        client = cls(
            from_json(state["protocol"]),
            budget=budget if budget is not None else DeviceBudget.from_json(state["budget"]),
            memoise=state["memoise"],
            labels=state["labels"],
            save=save,
        )
        client._device = state["device"]
        client._memos = {key: bytes.fromhex(memo) for key, memo in state["memos"].items()}
        return client


def _one(value: Any) -> Any:
    """A batch of one."""
    if isinstance(value, str):
        return [value]
    return np.asarray(value)[None] if not isinstance(value, dict) else [value]
