"""The zoo: named broken mechanisms, each from a real failure, each with the detector that must
catch it.

Nothing outside the audit imports this (an import contract): no broken mechanism can be reached from
the kernel.
"""

from __future__ import annotations

from dither.audit.zoo import accounts, counting, floats, laws, sparse, structures
from dither.audit.zoo.bug import ALPHA, Bug, Catch

__all__ = ["ALPHA", "BUGS", "Bug", "Catch"]

BUGS: dict[str, Bug] = {
    bug.name: bug
    for module in (floats, counting, sparse, laws, accounts, structures)
    for bug in module.bugs()
}
