"""Random sequences of open, reserve, commit, raise, incident and restart against a model of plain
sums."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dither.errors import BudgetError, DitherError, RefusedError
from dither.privacy.ledger import Reservation
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.losses import DiscreteLaplace
from tests.case_lists import mark_rest
from tests.ledger.ledger_place import HASH, TERMS, TIME, Place, fresh_url

amounts = st.builds(Fraction, st.integers(1, 8), st.sampled_from([3, 7, 10]))
names = st.sampled_from(["total", "second"])


class Model(RuleBasedStateMachine):
    """Pots are lists of charges; a charge fits if the list with it sums to at most the cap."""

    pending = Bundle("pending")
    finished = Bundle("finished")

    def __init__(self, url: Callable[[], str | None]) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.place = Place(self.folder, url())
        self.ledger = StewardLedger.create(self.place.location, self.place.head)
        self.caps: dict[str, Fraction] = {}
        self.ceilings: dict[str, Fraction] = {}
        self.charges: dict[str, list[Fraction]] = {}
        self.under_way: dict[int, tuple[list[str], Fraction]] = {}
        self.failed: list[str] = []
        self.entries = self.releases = 0

    def teardown(self) -> None:
        report = self.place.verify()
        assert report.ok, report
        assert (report.entries, report.releases) == (self.entries, self.releases)
        self.ledger.close()
        shutil.rmtree(self.folder)

    @rule(name=names, cap=amounts, ceiling=amounts)
    def open_pot(self, name: str, cap: Fraction, ceiling: Fraction) -> None:
        if name in self.caps or cap > ceiling:
            with pytest.raises(DitherError):
                self.ledger.open_pot(name, cap, ceiling, reissue=0, **TERMS)
            return
        place = {"max_incidents": 99} if name == "total" else {"inside": "total", "kind": "group"}
        if name != "total" and "total" not in self.caps:
            with pytest.raises(DitherError):
                self.ledger.open_pot(name, cap, ceiling, reissue=0, **TERMS, **place)
            return
        self.ledger.open_pot(name, cap, ceiling, reissue=0, **TERMS, **place)
        self.caps[name], self.ceilings[name], self.charges[name] = cap, ceiling, []
        self.entries += 1

    @rule(name=names, cap=amounts)
    def raise_cap(self, name: str, cap: Fraction) -> None:
        if name not in self.caps or not self.caps[name] < cap <= self.ceilings[name]:
            with pytest.raises(DitherError):
                self.ledger.raise_cap(name, cap, "the board asked for more")
            return
        self.ledger.raise_cap(name, cap, "the board asked for more")
        self.caps[name] = cap
        self.entries += 1

    @rule(
        target=pending,
        name=names,
        scale=st.fractions("0.5", 40, max_denominator=9),
        sensitivity=st.integers(1, 3),
    )
    def reserve(self, name: str, scale: Fraction, sensitivity: int) -> Reservation | None:
        loss, charge = DiscreteLaplace(scale, sensitivity, unit="person"), sensitivity / scale
        way = [name] if name == "total" else [name, "total"]
        if name in self.caps and not set(way).isdisjoint(self.failed):
            with pytest.raises(RefusedError, match="suspended"):
                self.ledger.reserve(name, loss, HASH, {})
            return None
        if name not in self.caps or any(
            sum(self.charges[pot]) + charge > self.caps[pot] for pot in way
        ):
            with pytest.raises(BudgetError):
                self.ledger.reserve(name, loss, HASH, {})
            return None
        settled = sum(self.charges[name]) - sum(
            taken for pots, taken in self.under_way.values() if name in pots
        )
        reservation = self.ledger.reserve(name, loss, HASH, {})
        self.under_way[reservation.seq] = (way, charge)
        for pot in way:
            self.charges[pot].append(charge)
        self.entries += 1
        assert (reservation.charge, reservation.spent_after) == (charge, settled + charge)
        return reservation

    @rule(target=finished, reservation=consumes(pending), content=st.binary(max_size=20))
    def commit(self, reservation: Reservation | None, content: bytes) -> Reservation | None:
        if reservation is None:
            return None
        if not set(self.under_way[reservation.seq][0]).isdisjoint(self.failed):
            with pytest.raises(RefusedError, match="suspended"):
                self.ledger.commit(reservation, content, {}, released_at=TIME)
            self._fail(reservation)
            return reservation
        self.ledger.commit(reservation, content, {}, released_at=TIME)
        del self.under_way[reservation.seq]
        self.entries += 1
        self.releases += 1
        return reservation

    @rule(target=finished, reservation=consumes(pending))
    def incident(self, reservation: Reservation | None) -> Reservation | None:
        if reservation is not None:
            self._fail(reservation)
        return reservation

    def _fail(self, reservation: Reservation) -> None:
        self.ledger.record_incident(reservation, "engine_failed")
        del self.under_way[reservation.seq]
        self.failed.append(reservation.pot)
        self.entries += 1

    @precondition(lambda self: self.failed)
    @rule()
    def clear(self) -> None:
        self.ledger.clear_incidents("the engine has more memory now")
        self.failed.clear()
        self.entries += 1

    @rule(reservation=finished)
    def commit_again(self, reservation: Reservation | None) -> None:
        if reservation is not None:
            with pytest.raises(RefusedError):
                self.ledger.commit(reservation, b"again", {}, released_at=TIME)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.ledger.close()
        self.ledger = self.place.open()

    @invariant()
    def agrees(self) -> None:
        pots = {pot.name: (pot.spent, pot.cap, pot.ceiling) for pot in self.ledger.pots()}
        assert pots == {
            name: (sum(self.charges[name]), self.caps[name], self.ceilings[name])
            for name in self.caps
        }
        assert len(self.ledger.incidents_open()) == len(self.failed)
        assert len(self.ledger.history()) == self.releases


@pytest.mark.parametrize(
    ("store", "examples"), mark_rest([("sqlite", 12), ("sqlite", 60), ("postgres", 8)], quick=1)
)
def test_the_ledger_is_its_model(store: str, examples: int, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("server") if store == "postgres" else None
    run_state_machine_as_test(
        lambda: Model(lambda: fresh_url(server) if server else None),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
