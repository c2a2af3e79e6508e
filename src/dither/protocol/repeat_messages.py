"""Messages for repeats: is the answer that a gateway kept still the stored one?"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from dither.protocol.act_messages import StrictModel

PotName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ReleaseId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
ExactNumber = Annotated[str, StringConstraints(max_length=8_200, pattern=r"^-?[0-9]+/[0-9]+$")]


class RepeatStored(StrictModel):
    """Whether a release is still the stored answer under a key, free to a pot. It never charges.

    A gateway that kept the answer asks this for every repeat: token and grants are verified, and
    the access log notes who is handed the answer again. Where another answer is stored now, or
    asking would cost something, it is refused.
    """

    kind: Literal["repeat"] = "repeat"
    pot: PotName
    key: Digest
    release_id: ReleaseId


class StillStored(StrictModel):
    """The answer may be handed out again; with the newest version and the pot's balances."""

    kind: Literal["repeat"] = "repeat"
    version: int
    spent_after: ExactNumber
    cap: ExactNumber
