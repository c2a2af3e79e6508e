"""Earlier releases as replies of a curator: from which an asker may compute an answer at no loss.

They are releases that were asked from the asker's own pot, so that nothing is shown here that
`values` of the protocol would not show.
"""

from __future__ import annotations

from collections.abc import Sequence

from dither.errors import ParameterError
from dither.plan.algebra import Plan
from dither.privacy.kernel.kernel import Release
from dither.protocol import documents, messages

MOST_NUMBERS = 200_000
"""Of all releases of one reply together; larger ones are left out."""


def read_source_rows(call: messages.ReadSources | messages.CertifySources) -> Plan:
    """The rows that a call names; ParameterError where they are none."""
    return documents.read_rows(call.rows)


def limit_sources(sources: Sequence[Release]) -> tuple[Release, ...]:
    """The newest releases whose numbers fit one reply."""
    chosen: list[Release] = []
    numbers = 0
    for source in sources:
        size = sum(map(len, source.values))
        if numbers + size <= MOST_NUMBERS:
            numbers += size
            chosen.append(source)
    return tuple(chosen)


def write_sources(sources: Sequence[Release]) -> messages.EarlierReleases:
    """Releases with their requests, as a reply."""
    return messages.EarlierReleases(
        sources=[
            messages.SourceDocument(
                key=source.priced.key,
                request=documents.write_request(source.priced.request),
                release=documents.write_release(source),
            )
            for source in sources
        ]
    )


def choose_sources(sources: Sequence[Release], names: Sequence[str]) -> tuple[Release, ...]:
    """The releases of these names, in their order; ParameterError where one is not among them."""
    by_name = {source.release_id: source for source in sources}
    if missing := [name for name in names if name not in by_name]:
        raise ParameterError(
            f"no release {', '.join(missing)} of this budget answers for these rows: ask again"
        )
    return tuple(by_name[name] for name in names)
