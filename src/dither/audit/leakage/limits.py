"""Bounds between Bayes risk and epsilon, both directions (book, theorems 15.5 to 15.11).

>>> round(local_risk(10, 1.0), 6), round(local_epsilon(10, 0.768031), 5), round(central_risk(3,
...     1.0), 6)
(0.768031, 1.0, 0.609288)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dither.audit.confidence import upper


def graph_entropy(distances: Sequence[int], epsilon: float) -> float:
    """Theorem 15.5: H(S|O) >= ln sum of n_d e^(-eps d), on a graph that looks alike from every
    node; n_0 = 1."""
    return math.log(math.fsum(n * math.exp(-epsilon * d) for d, n in enumerate(distances)))


def graph_risk(distances: Sequence[int], epsilon: float) -> float:
    """The Bayes risk is at least this for a uniform prior on such a graph."""
    return 1 - math.exp(-graph_entropy(distances, epsilon))


def local_risk(secrets: int, epsilon: float, random_guess: float | None = None) -> float:
    """Theorems 15.6 and 15.9: under local DP the Bayes risk is at least this (uniform prior by
    default)."""
    guess = 1 - 1 / secrets if random_guess is None else random_guess
    return 1 - (1 - guess) * secrets * math.exp(epsilon) / (math.exp(epsilon) + secrets - 1)


def local_epsilon(secrets: int, risk: float, random_guess: float | None = None) -> float:
    """Compute the least epsilon with which a Bayes risk of at most `risk` is possible.

    (Proposition 15.8, and 15.9 for other priors.)
    """
    guess = 1 - 1 / secrets if random_guess is None else random_guess
    gain = (1 - risk) / (1 - guess)
    if gain <= 1:
        return 0.0
    return math.inf if gain >= secrets else math.log(gain * (secrets - 1) / (secrets - gain))


def central_leakage(records: int, epsilon: float) -> float:
    """Theorem 15.10: leakage about a database of at most n records is at most n ln(2 e^eps / (1 +
    e^eps))."""
    return records * math.log(2 * math.exp(epsilon) / (1 + math.exp(epsilon)))


def central_risk(records: int, epsilon: float, random_guess: float | None = None) -> float:
    """Theorem 15.11: the Bayes risk of guessing which of n people are present is at least this."""
    guess = 1 - 0.5**records if random_guess is None else random_guess
    return 1 - (1 - guess) * (2 * math.exp(epsilon) / (1 + math.exp(epsilon))) ** records


def central_epsilon(records: int, risk: float, random_guess: float | None = None) -> float:
    """Compute the least epsilon with which a Bayes risk of at most `risk` is possible."""
    guess = 1 - 0.5**records if random_guess is None else random_guess
    gain = ((1 - risk) / (1 - guess)) ** (1 / records)
    if gain <= 1:
        return 0.0
    return math.inf if gain >= 2 else math.log(gain / (2 - gain))


def certified_epsilon(
    secrets: int,
    errors: int,
    held_out: int,
    alpha: float = 0.05,
    *,
    classifiers: int = 1,
    prior_counts: Sequence[int] | None = None,
) -> float:
    """Compute a lower bound on epsilon with confidence 1 - alpha, from errors on held-out pairs.

    The errors are those of the best of some classifiers. A classifier's risk is at least the Bayes
    risk, and its upper confidence limit is at least the risk. Which of them errs least is known
    after the fact, so each has an equal share of alpha. Secrets are uniform by design unless
    `prior_counts` says how often each came: then the limit of the most frequent one has a share of
    alpha too, and theorem 15.9 takes the place of 15.8. docs/proofs/audit.md#leakage.

    >>> # k-ary response at epsilon 1, a perfect classifier
    >>> round(certified_epsilon(10, 19_201, 25_000), 3)
    0.975
    """
    share = alpha / (classifiers + (prior_counts is not None))
    guess = None
    if prior_counts is not None:
        pairs = sum(prior_counts)
        guess = 1 - max(upper(count, pairs, share / secrets) for count in prior_counts)
    return local_epsilon(secrets, upper(errors, held_out, share), guess)


def advantage(epsilon: float, delta: float = 0.0) -> dict[str, float]:
    """Compute what a claim allows an attacker who guesses one of two neighbours (book, theorem
    5.7).

    >>> {name: round(value, 6) for name, value in advantage(1.0).items()}
    {'accuracy': 0.731059, 'advantage': 0.462117, 'roc_area': 0.731059}
    """
    grow = math.exp(epsilon)
    share = (grow + delta) / (1 + grow)
    return {
        "accuracy": share,
        "advantage": 2 * share - 1,
        "roc_area": grow / (1 + grow) if delta == 0 else math.nan,
    }
