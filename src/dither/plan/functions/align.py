"""Values of a kind on one grid: what a comparison or a choice needs before it can be made."""

from __future__ import annotations

from dataclasses import replace

from dither.plan.domain import Domain, hull
from dither.plan.functions.table import Arguments


def align_arguments(a: Arguments) -> Arguments:
    """Bring all arguments to one kind on one grid: numbers on their common step, labels as codes.

    Raises RefusedError where they have no common kind.
    """
    kinds = {domain.kind for domain in a.domains}
    if kinds == {"number"}:
        step, factors = a.common()
        domains = tuple(
            d  # most are on this grid already, and a copy takes long
            if f == 1 and d.keys is None
            else replace(d, low=d.low * f, high=d.high * f, step=step, keys=None)
            for d, f in zip(a.domains, factors, strict=True)
        )
        return replace(a, domains=domains)
    if kinds == {"category", "text"}:
        return _align_labels(a)
    if kinds == {"timestamp"}:  # a constant has no zone of its own
        zones = [
            domain.offset
            for domain, constant in zip(a.domains, a.constants, strict=True)
            if constant is None
        ]
        offset = zones[0] if zones else 0
        a = replace(
            a,
            domains=tuple(
                domain if constant is None else replace(domain, offset=offset)
                for domain, constant in zip(a.domains, a.constants, strict=True)
            ),
        )
    hull(a.domains, a.function)
    return a


def _align_labels(a: Arguments) -> Arguments:
    """Replace constant texts by the codes of the category's labels.

    Raises RefusedError for a text that is no label.
    """
    labels = next(domain.labels for domain in a.domains if domain.kind == "category")
    domains = []
    for position, domain in enumerate(a.domains):
        if domain.kind == "text":
            if a.constants[position] not in labels:
                raise a.refuse(
                    f"a category is compared with one of its labels ({', '.join(labels[:20])})"
                )
            code = labels.index(a.text(position))
            domain = Domain("category", False, code, code, labels=labels)
        elif domain.labels != labels:
            raise a.refuse("two categories with different labels")
        domains.append(domain)
    return replace(a, domains=tuple(domains))
