"""Software that tries to break its own promise: the tester, the zoo of planted bugs, leakage, the
naive oracle.

An auditor needs nothing of ours but this: `test` runs any Python function on two neighbours and
either refutes its claim, with a certificate, or says how far it got. docs/tutorial/first-audit.md.

>>> from dither import audit
>>> from dither.privacy.noise import discrete_laplace
>>> def answer(count, size):
...     return count + discrete_laplace(2, size)
>>> audit.test(answer, 10, 11, epsilon=0.5, budget=audit.Budget(runs=20_000)).outcome
'not refuted'
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Budget": "verdict",
    "Verdict": "verdict",
    "test": "black_box",
    "event": "events",
    "explore": "pairs",
    "one_run": "canaries",
    "audit_accountant": "accountant",
    "hockey_stick": "exact",
    "judge": "exact",
}
__all__ = [
    "Budget",
    "Verdict",
    "audit_accountant",
    "event",
    "explore",
    "hockey_stick",
    "judge",
    "one_run",
    "test",
]


def __getattr__(name: str) -> Any:
    """Names load when asked for: the oracle (`audit.naive`) shares nothing with the tester, not
    even its imports."""
    if name in _HOME:
        return getattr(import_module(f"dither.audit.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dither.audit' has no attribute {name!r}")
