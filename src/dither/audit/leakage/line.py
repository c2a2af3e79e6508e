"""Classifiers of all outputs 0 .. m - 1 of a finite line at once: what the book's experiments ask a
thousand times.

The same rules as `estimate.Trained` (all ties vote; a group that straddles the k-th place is filled
by its most frequent secret), a hundred times faster: on a line the k nearest examples of o are
those of outputs in [o - r, o + r], so r is found by bisection on cumulative counts, and at most k -
1 examples lie strictly inside.
"""

from __future__ import annotations

import numpy as np

from dither.audit.leakage.estimate import Integers, Method, most_frequent, neighbours


class LineClassifier:
    """Examples (secret, output) with outputs in 0 .. size - 1.

    >>> import numpy as np
    >>> classifier = LineClassifier(np.array([2, 2, 1]), np.array([5, 5, 9]), kinds=3, size=12)
    >>> classifier.guess("frequentist").tolist()[5:10], classifier.guess("nn").tolist()[5:10]
    ([2, 2, 2, 2, 1], [2, 2, 2, 1, 1])
    """

    def __init__(self, secrets: Integers, outputs: Integers, kinds: int, size: int) -> None:
        """Sort and count the examples (secret, output) by output.

        Secrets are below `kinds` and outputs below `size`.
        """
        self.examples = len(secrets)
        self.kinds = kinds
        self.size = size
        codes = np.sort(np.asarray(outputs, np.int64) * kinds + np.asarray(secrets, np.int64))
        first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        self._counts = np.diff(np.append(first, len(codes)))  # of each (output, secret) that occurs
        self._entry_outputs, self._labels = np.divmod(codes[first], kinds)
        self._rows = np.searchsorted(self._entry_outputs, np.arange(size + 1))
        self._secrets = codes % kinds  # of all examples, by output
        self._below = np.searchsorted(
            codes, np.arange(size + 1) * kinds
        )  # examples of outputs before this one
        self._common = int(np.bincount(secrets, minlength=kinds).argmax())
        self._best = most_frequent(
            self._entry_outputs, self._labels, self._counts, size, kinds, self._common
        )

    def guess(self, method: Method) -> Integers:
        """Guess by one of the four methods, for every output."""
        return (
            self._best
            if method == "frequentist"
            else self.nearest(neighbours(method, self.examples))
        )

    def nearest(self, k: int) -> Integers:
        """Guess by the vote of the k nearest examples, for every output."""
        k = min(k, self.examples)
        every = np.arange(self.size)
        radius = self._find_radius(every, k)
        low, high = np.maximum(every - radius + 1, 0), np.minimum(every + radius, self.size)
        is_wide = radius > 0  # examples start .. stop - 1 lie strictly inside the radius
        start = np.where(is_wide, self._below[low], 0)
        stop = np.where(is_wide, self._below[high], 0)
        winner = self._find_edge_winner(every, radius)
        guesses = winner.copy()
        voting_outputs = np.flatnonzero(stop > start)
        if len(voting_outputs):
            guesses[voting_outputs] = self._vote(
                start[voting_outputs], stop[voting_outputs], winner[voting_outputs], k
            )
        return guesses

    def _find_radius(self, every: Integers, k: int) -> Integers:
        """Find the least r for which outputs at most r away hold k examples."""
        low, high = np.full(self.size, -1), np.full(self.size, self.size - 1)
        while (high - low > 1).any():
            middle = (low + high) // 2
            many = (
                self._below[np.minimum(every + middle + 1, self.size)]
                - self._below[np.maximum(every - middle, 0)]
                >= k
            )
            low, high = np.where(many, low, middle), np.where(many, middle, high)
        return np.asarray(high, np.int64)

    def _find_edge_winner(self, every: Integers, radius: Integers) -> Integers:
        """Find the most frequent secret of the (at most two) outputs at the radius."""
        left = every - radius
        right = every + radius
        there = np.append(np.diff(self._below) > 0, False)
        has_left = (left >= 0) & there[np.maximum(left, -1)]
        has_right = (right < self.size) & there[np.minimum(right, self.size)]
        guesses = np.where(
            has_left, self._best[np.maximum(left, 0)], self._best[np.minimum(right, self.size - 1)]
        )
        both_sides = np.flatnonzero(has_left & has_right & (radius > 0))
        if len(both_sides):
            sides = [self._list_entries(both_sides, side[both_sides]) for side in (left, right)]
            row, entry = (np.concatenate(arrays) for arrays in zip(*sides, strict=True))
            codes, inverse = np.unique(row * self.kinds + self._labels[entry], return_inverse=True)
            counts = np.bincount(inverse, weights=self._counts[entry]).astype(np.int64)
            outputs, labels = np.divmod(codes, self.kinds)
            guesses[both_sides] = most_frequent(outputs, labels, counts, self.size, self.kinds, 0)[
                both_sides
            ]
        return np.asarray(guesses, np.int64)

    def _list_entries(self, rows: Integers, outputs: Integers) -> tuple[Integers, Integers]:
        """List for every row the entries of an output: the rows repeated, and the entries."""
        start = self._rows[outputs]
        stop = self._rows[outputs + 1]
        lengths = stop - start
        before = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        entries = np.arange(int(lengths.sum())) - np.repeat(before - start, lengths)
        return np.repeat(rows, lengths), entries

    def _vote(self, start: Integers, stop: Integers, winner: Integers, k: int) -> Integers:
        """Elect a secret for every output by k votes.

        Examples start .. stop - 1 have one vote each; the winner of the group at the edge
        has the rest.
        """
        steps = start[:, None] + np.arange(int((stop - start).max()))
        inside = np.where(
            steps < stop[:, None], self._secrets[np.minimum(steps, self.examples - 1)], -1
        )
        names = np.concatenate([inside, winner[:, None]], axis=1).astype(np.int32)
        voices = np.zeros(names.shape, np.int32)
        for column in range(inside.shape[1]):
            voices += names == names[:, column : column + 1]
        voices += (names == names[:, -1:]) * (k - (stop - start)).astype(np.int32)[:, None]
        voices[names < 0] = -1
        largest = voices.max(axis=1, keepdims=True)
        return np.asarray(np.where(voices == largest, names, self.kinds).min(axis=1), np.int64)
