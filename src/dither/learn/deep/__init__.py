"""Deep learning with differential privacy on PyTorch. Needs the extra `torch`.

`PrivateTrainer` trains a model that the caller holds on data that the caller holds, as a library
guarantee. Nothing here is imported with `dither` or `dither.learn`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dither.learn.deep.adapters import add_adapters, freeze_all_but
    from dither.learn.deep.repair import repair_model
    from dither.learn.deep.trainer import PrivateTrainer, compose_trials
    from dither.learn.deep.votes import VoteAggregator, plan_votes

_MODULES = {
    "PrivateTrainer": "trainer",
    "VoteAggregator": "votes",
    "add_adapters": "adapters",
    "compose_trials": "trainer",
    "freeze_all_but": "adapters",
    "plan_votes": "votes",
    "repair_model": "repair",
}
__all__ = [
    "PrivateTrainer",
    "VoteAggregator",
    "add_adapters",
    "compose_trials",
    "freeze_all_but",
    "plan_votes",
    "repair_model",
]


def __getattr__(name: str) -> Any:
    """Import torch when a name that needs it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dither.learn.deep' has no attribute {name!r}")
    return getattr(import_module(f"dither.learn.deep.{_MODULES[name]}"), name)
