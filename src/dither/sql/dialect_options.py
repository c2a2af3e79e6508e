"""The options of WITH DIFFERENTIAL_PRIVACY: those that are read, and why others are not."""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import exact
from dither.errors import ParameterError

OPTIONS = (
    "EPSILON",
    "DELTA",
    "MAX_GROUPS_CONTRIBUTED",
    "PRIVACY_UNIT_COLUMN",
    "GROUP_SELECTION_STRATEGY",
    "MIN_PRIVACY_UNITS_PER_GROUP",
)
NOT_OURS = {
    "AGGREGATION_THRESHOLD": (
        "WITH AGGREGATION_THRESHOLD is not differential privacy: it hides small groups and shows "
        "the others exactly, so two questions that differ in one person reveal that person. Leave "
        "it out and ask with epsilon=; groups without a list of keys are then shown by private key "
        "selection"
    ),
    "ANONYMIZATION": (
        "WITH ANONYMIZATION is the older form of WITH DIFFERENTIAL_PRIVACY, and its k_threshold "
        "has no guarantee by itself. Write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=..., "
        "privacy_unit_column=...), or plain SQL with epsilon="
    ),
}
UNKNOWN_OPTIONS = {
    "MAX_ROWS_CONTRIBUTED": "rows per person are limited at registration (rows_per_unit "
    "in the catalog)",
    "K_THRESHOLD": "the threshold follows from epsilon and delta",
    "KAPPA": "write max_groups_contributed",
}


def read_number(text: str | None) -> Fraction | None:
    """The number that an option states.

    Returns None where it states none, or one beyond the limits of numbers.
    """
    try:
        return exact(text or "", "an option")
    except ParameterError:
        return None
