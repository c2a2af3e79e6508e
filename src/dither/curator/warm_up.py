"""Does once, before a curator listens, what else its first question would have to wait for.

Libraries are loaded, the registered copy is opened, a statement is compiled and noise is drawn on
invented rows. A first question that did all this would outlast its slot: a miss, which lengthens
the slots of everybody for ever and is counted as a bit of the data.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

from dither.embedded import EmbeddedCurator
from dither.errors import DitherError
from dither.plan.algebra import Cells, Count, Scan
from dither.privacy.kernel.request import Price, Request, Step


def warm_up(curator: EmbeddedCurator) -> None:
    """Prepare and rehearse a count of a private table; nothing is measured or charged."""
    for pot in curator.list_pots():
        for table in curator.kernel.catalog.private_tables:
            query = Cells(Scan(table.name), (), (Count(),))
            request = Request((Step(query, "laplace", Fraction(1)),), Price(Fraction(1)), pot.name)
            # a budget that cannot ask, such as one that keeps groups apart: the next one may
            with suppress(DitherError):
                curator.kernel.prepare(curator.kernel.price(request)).close()
                curator.rehearse(request)
                return
