"""Private learning on tables: estimators with the conventions of scikit-learn.

`fit(X, y)` trains on arrays that the caller holds, as a library guarantee. Training sees noisy sums
over people and nothing else. Needs the extra `learn`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dither.learn.additive import AdditiveClassifier
    from dither.learn.after_fit import measure_classifier
    from dither.learn.boosting import GradientBoosting
    from dither.learn.bought_bins import buy_bins
    from dither.learn.decision_tree import DecisionTree
    from dither.learn.kmeans import KMeans
    from dither.learn.lasso import Lasso
    from dither.learn.linear_classifiers import SVC, LogisticRegression
    from dither.learn.model_files import (
        read_model,
        write_model,
        write_model_card,
        write_model_certificate,
    )
    from dither.learn.naive_bayes import NaiveBayes
    from dither.learn.networks import NetworkClassifier
    from dither.learn.pca import PCA
    from dither.learn.regressors import LinearRegression, PoissonRegression, Ridge
    from dither.learn.search import PrivateSearchCV
    from dither.learn.streams import StreamClassifier

_MODULES = {
    "PCA": "pca",
    "SVC": "linear_classifiers",
    "AdditiveClassifier": "additive",
    "DecisionTree": "decision_tree",
    "GradientBoosting": "boosting",
    "KMeans": "kmeans",
    "Lasso": "lasso",
    "LinearRegression": "regressors",
    "LogisticRegression": "linear_classifiers",
    "NaiveBayes": "naive_bayes",
    "NetworkClassifier": "networks",
    "PoissonRegression": "regressors",
    "Ridge": "regressors",
    "StreamClassifier": "streams",
}
_FUNCTIONS = {
    "PrivateSearchCV": "search",
    "buy_bins": "bought_bins",
    "measure_classifier": "after_fit",
    "read_model": "model_files",
    "write_model": "model_files",
    "write_model_card": "model_files",
    "write_model_certificate": "model_files",
}

__all__ = [
    "PCA",
    "SVC",
    "AdditiveClassifier",
    "DecisionTree",
    "GradientBoosting",
    "KMeans",
    "Lasso",
    "LinearRegression",
    "LogisticRegression",
    "NaiveBayes",
    "NetworkClassifier",
    "PoissonRegression",
    "PrivateSearchCV",
    "Ridge",
    "StreamClassifier",
    "buy_bins",
    "measure_classifier",
    "read_model",
    "write_model",
    "write_model_card",
    "write_model_certificate",
]


def __getattr__(name: str) -> Any:
    """Import an estimator, and scikit-learn with it, when it is asked for by name."""
    module = _MODULES.get(name) or _FUNCTIONS.get(name)
    if module is not None:
        return getattr(import_module(f"dither.learn.{module}"), name)
    raise AttributeError(f"module 'dither.learn' has no attribute {name!r}")
