"""From a loss tree to its events: every multiset of elementary losses that one unit may meet."""

from __future__ import annotations

from itertools import combinations

from dither.accounting.events import Events
from dither.errors import RefusedError
from dither.privacy import losses as ls
from dither.rules import PrivacyRule

_MOST_ALTERNATIVES = 256
_COMPOUND = (ls.Composed, ls.Repeated, ls.Parallel, ls.PoissonSampled)


def _split_repetition(loss: ls.Loss) -> tuple[ls.Loss, int]:
    """Split a loss into one event and how often it happens; the result is kept on the loss.

    A loss that is neither one event nor its repetition gets a count of 0.
    """
    event_and_count: tuple[ls.Loss, int] | None = loss.__dict__.get("_accounting_event")
    if event_and_count is None:
        event_and_count = (loss.loss, loss.count) if isinstance(loss, ls.Repeated) else (loss, 1)
        event_and_count = merge_rates(event_and_count[0]), event_and_count[1]
        if isinstance(event_and_count[0], _COMPOUND) and not (
            isinstance(event_and_count[0], ls.PoissonSampled) and event_and_count[0].q < 1
        ):
            event_and_count = loss, 0
        loss.__dict__["_accounting_event"] = event_and_count
    return event_and_count


def merge_rates(loss: ls.Loss) -> ls.Loss:
    """A Poisson sample of a Poisson sample is one at the product of the rates; others as they are.

    >>> merge_rates(ls.PoissonSampled("1/2", ls.PoissonSampled("1/3", ls.Pure(1))))
    PoissonSampled(q=1/6, loss=Pure(epsilon=1), neighbours='add_remove', unit='unit')
    """
    while isinstance(loss, ls.PoissonSampled) and isinstance(loss.loss, ls.PoissonSampled):
        loss = ls.PoissonSampled(loss.q * loss.loss.q, loss.loss.loss)
    return loss


def alternatives(loss: ls.Loss) -> list[Events]:
    """List every multiset of elementary events that one unit may meet.

    There is more than one only below `Parallel`. Raises RefusedError where there are too many.
    """
    if isinstance(loss, ls.Composed):
        multisets = [Events()]
        for component in loss.losses:
            event, count = _split_repetition(component)
            if count:
                for events in multisets:
                    events.add(event, count)
                continue
            choices = alternatives(component)
            if len(choices) == 1:
                for events in multisets:
                    for event, count in choices[0].items():
                        events.add(event, count)
                continue
            multisets = [first + second for first in multisets for second in choices]
            if len(multisets) > _MOST_ALTERNATIVES:
                raise _too_many()
        return multisets
    if isinstance(loss, ls.Repeated):
        inner = alternatives(loss.loss)
        if len(inner) > 1:
            raise RefusedError(
                "a repeated Parallel does not say whether the parts are the same each time: "
                "write Parallel of the repeated losses if they are, or compose the Parallels one "
                "by one",
                rule=PrivacyRule.PARTS,
            )
        return [Events((event, count * loss.count) for event, count in inner[0].items())]
    if isinstance(loss, ls.Parallel):
        options = [choice for component in loss.losses for choice in alternatives(component)]
        if loss.neighbours == "replace" and len(loss.losses) > 1:
            groups = [alternatives(component) for component in loss.losses]
            options = [
                left + right for a, b in combinations(groups, 2) for left in a for right in b
            ]
        unique = list({option.identity(): option for option in options}.values())
        if len(unique) > _MOST_ALTERNATIVES:
            raise _too_many()
        return unique
    if isinstance(loss, ls.PoissonSampled) and loss.q == 1:
        return alternatives(loss.loss)
    return [Events([(merge_rates(loss), 1)])]


def _too_many() -> RefusedError:
    """Make the refusal of a loss with more alternatives than are looked at."""
    return RefusedError(
        f"more than {_MOST_ALTERNATIVES} ways in which one unit can lie in the parts: account the "
        f"parts apart, "
        "and take the largest",
        rule=PrivacyRule.BOUNDED_WORK,
    )
