"""A principal: who asks, of which dataset, in which role and from which pots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dither.protocol.errors import AccessError

Role = Literal["analyst", "auditor", "steward", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Principal:
    """The curator's own view of an asker; nothing of it comes from a gateway."""

    name: str
    dataset: str
    role: Role
    pots: tuple[str, ...]
    token_id: str

    def may_read_texts(self, pot: str) -> bool:
        """Whether the texts of questions are shown: to those whose pot paid, and the steward."""
        return pot in self.pots or self.role == "steward"

    @property
    def sees_all_pots(self) -> bool:
        """Whether the balances of all pots are shown: to everybody but analysts."""
        return self.role != "analyst"

    def check_dataset(self, dataset: str) -> None:
        """Refuse another dataset than the token's. One that does not exist reads the same."""
        if dataset != self.dataset:
            raise AccessError("this token is not for that dataset: ask its data steward for one")

    def check_pot(self, pot: str) -> None:
        """Refuse a question of an auditor, or from a pot that the token is not for."""
        if self.role == "auditor":
            raise AccessError("an auditor reads and does not ask: ask with an analyst's token")
        self._check_own_pot(pot)

    def check_reading(self, pot: str) -> None:
        """Refuse to show what a pot paid for to an analyst whose token is not for it."""
        if self.role == "analyst":
            self._check_own_pot(pot)

    def _check_own_pot(self, pot: str) -> None:
        if pot not in self.pots:
            raise AccessError(
                f"this token is not for that pot: it asks from {', '.join(self.pots) or 'none'}"
            )

    def check_values(self, pot: str) -> None:
        """Refuse the values of releases to those whose own pot did not pay for them."""
        if pot not in self.pots:
            raise AccessError("values are shown to those whose own pot paid for them")
