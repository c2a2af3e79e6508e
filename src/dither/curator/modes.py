"""What a certificate of a served dataset does not promise."""

from __future__ import annotations

from dither.curator.schedule import MOST_MISSES, Schedule
from dither.publish.certificate import CertificateMode

_ONE_USER = (
    "curator and gateway ran as one user of the computer: the gateway could read the data, the "
    "ledger and the signing key"
)
_NO_SCHEDULE = "how long answers take tells of the data: no schedule of response times is kept"
_TOLD = (
    "the text of the question, its limits, post-processing and the commitment to the table are as "
    "told by the gateway; plan, mechanisms, loss and charges are the curator's own",
    "whoever controls the gateway can ask with any token that passes through it: the dataset's "
    "total is promised, the pots inside it are not",
)


def make_mode(schedule: Schedule, *, is_one_user: bool) -> CertificateMode:
    """The mode of a dataset as it is served now."""
    times = _describe_schedule(schedule) if schedule.is_kept else _NO_SCHEDULE
    if is_one_user:
        return CertificateMode("split, one user", (_ONE_USER, times, *_TOLD))
    return CertificateMode("split", (times, *_TOLD))


def _describe_schedule(schedule: Schedule) -> str:
    return (
        f"answers leave at slots of {schedule.slot_s:g} seconds; each of the {schedule.misses} "
        f"misses so far, of {MOST_MISSES} that lengthen slots, told one bit of the data"
    )
