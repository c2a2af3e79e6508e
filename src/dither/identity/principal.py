"""A principal: who asks, of which dataset, in which role and from which pots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dither.protocol.errors import AccessError

Role = Literal["analyst", "auditor", "steward", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
NOT_GRANTED = (
    "this is not granted: the dataset or the budget does not exist, or you have no role there that "
    "allows it. Ask the data steward of the dataset for a grant"
)
"""One refusal for all that is missing, so that it tells of no dataset, pot or account."""


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
        is_payer = pot in self.pots and self.role != "auditor"
        return is_payer or self.role == "steward"

    @property
    def sees_all_pots(self) -> bool:
        """Whether the balances of all pots are shown: to everybody but analysts."""
        return self.role != "analyst"

    def check_dataset(self, dataset: str) -> None:
        """Refuse another dataset than the principal's. One that does not exist reads the same."""
        if dataset != self.dataset:
            raise AccessError(NOT_GRANTED)

    def check_pot(self, pot: str) -> None:
        """Refuse a question of an auditor, or from a pot that is not granted."""
        if self.role == "auditor":
            raise AccessError("an auditor reads and does not ask: ask with an analyst's token")
        self._check_own_pot(pot)

    def check_reading(self, pot: str) -> None:
        """Refuse to show what a pot paid for to an analyst who has no grant for it."""
        if self.role == "analyst":
            self._check_own_pot(pot)

    def _check_own_pot(self, pot: str) -> None:
        if pot not in self.pots:
            raise AccessError(NOT_GRANTED)

    def check_certificate(self, pot: str) -> None:
        """Refuse the certificate of a release to all but auditors and those whose pot asks."""
        if self.role != "auditor":
            self._check_own_pot(pot)

    def check_values(self, pot: str) -> None:
        """Refuse the values of releases to those whose own pot did not pay for them."""
        if pot not in self.pots or self.role == "auditor":
            raise AccessError(NOT_GRANTED)

    def check_log(self) -> None:
        """Refuse the access log to all but auditors and stewards."""
        if self.role not in ("auditor", "steward"):
            raise AccessError(NOT_GRANTED)

    def check_limits(self) -> None:
        """Refuse to prepare acts on limits to analysts; moving a limit needs a signature too."""
        if self.role == "analyst":
            raise AccessError(NOT_GRANTED)
