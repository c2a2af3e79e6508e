"""A multiset of elementary losses: the events of a workload, equal ones counted together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import fields
from fractions import Fraction

from dither.privacy import losses as ls


class Events:
    """A multiset of elementary losses; equal ones are counted together (by a key far cheaper than
    canonical JSON)."""

    def __init__(self, pairs: Iterable[tuple[ls.Loss, int]] = ()) -> None:
        self._counts: dict[Hashable, tuple[ls.Loss, int]] = {}
        for loss, count in pairs:
            self.add(loss, count)

    def add(self, loss: ls.Loss, count: int) -> None:
        key = _key(loss)
        earlier = self._counts.get(key)
        self._counts[key] = (loss, count) if earlier is None else (earlier[0], count + earlier[1])

    def items(self) -> Iterable[tuple[ls.Loss, int]]:
        return self._counts.values()

    def __iter__(self) -> Iterator[ls.Loss]:
        return (loss for loss, _ in self._counts.values())

    def __len__(self) -> int:
        return len(self._counts)

    def __add__(self, other: Events) -> Events:
        return Events((*self.items(), *other.items()))

    def identity(self) -> Hashable:
        return frozenset((key, count) for key, (_, count) in self._counts.items())


_NAMES: dict[str, tuple[str, ...]] = {}


def _names(loss: ls.Loss) -> tuple[str, ...]:
    if loss.type not in _NAMES:
        _NAMES[loss.type] = tuple(entry.name for entry in fields(loss))
    return _NAMES[loss.type]


def _key(loss: ls.Loss) -> Hashable:
    """What makes two events equal; remembered on the (frozen) loss, since workloads grow by
    appending to old ones."""
    key: Hashable = loss.__dict__.get("_accounting_key")
    if key is None:
        key = loss.__dict__["_accounting_key"] = _build_key(loss)
    return key


def _build_key(loss: ls.Loss) -> Hashable:
    """Make a hashable key of a loss: its type and parameters, with inner losses as their keys."""
    values: list[Hashable] = [loss.type]
    for name in _names(loss):
        value = getattr(loss, name)
        if isinstance(value, ls.Loss):
            values.append(_key(value))
        elif isinstance(value, tuple):
            values.append(tuple(sorted((_key(component) for component in value), key=repr)))
        elif isinstance(value, Fraction):
            values.append((value.numerator, value.denominator))
        else:
            values.append(value)
    return tuple(values)
