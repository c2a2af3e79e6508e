"""Private learning on tables: estimators with the conventions of scikit-learn.

`fit(X, y)` trains on arrays that the caller holds, as a library guarantee. Training sees noisy sums
over people and nothing else. Needs the extra `learn`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dither.learn.linear_classifiers import SVC, LogisticRegression
    from dither.learn.naive_bayes import NaiveBayes
    from dither.learn.pca import PCA
    from dither.learn.regressors import LinearRegression, PoissonRegression, Ridge

_MODULES = {
    "PCA": "pca",
    "SVC": "linear_classifiers",
    "LinearRegression": "regressors",
    "LogisticRegression": "linear_classifiers",
    "NaiveBayes": "naive_bayes",
    "PoissonRegression": "regressors",
    "Ridge": "regressors",
}

__all__ = [
    "PCA",
    "SVC",
    "LinearRegression",
    "LogisticRegression",
    "NaiveBayes",
    "PoissonRegression",
    "Ridge",
]


def __getattr__(name: str) -> Any:
    """Import an estimator, and scikit-learn with it, when it is asked for by name."""
    if name in _MODULES:
        return getattr(import_module(f"dither.learn.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'dither.learn' has no attribute {name!r}")
