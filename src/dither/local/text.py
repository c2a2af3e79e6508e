"""Words and n-grams as integers whose prefixes are prefixes of the text, ready for any oracle or
prefix search.

>>> letters = Alphabet("abcdefghijklmnopqrstuvwxyz")
>>> letters.decode(letters.encode("apples", 6), 6), letters.bits
('apples', 5)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.privacy.noise import SystemSource, Words, uniform_below


@dataclass(frozen=True)
class Alphabet:
    """Letters in a public order; code 0 means the end of the text, unknown letters become the last
    letter + 1."""

    letters: str

    @property
    def bits(self) -> int:
        """Count the bits of a letter's code: codes for the end, each letter and unknown ones."""
        return (len(self.letters) + 1).bit_length()

    def encode(self, text: str, length: int) -> int:
        """Encode the first `length` letters, first letter in the highest bits.

        Raises ParameterError where they do not fit 60 bits.
        """
        if length * self.bits > 60:
            raise ParameterError(
                f"{length} letters of {self.bits} bits do not fit 60 bits: shorten the text"
            )
        encoded = 0
        for position in range(length):
            code = 0 if position >= len(text) else self._code(text[position])
            encoded = encoded << self.bits | code
        return encoded

    def _code(self, letter: str) -> int:
        return self.letters.find(letter) + 1 or len(self.letters) + 1

    def decode(self, value: int, length: int) -> str:
        """Decode a number to its text; an unknown letter is shown as '?'."""
        codes = [
            value >> (self.bits * (length - 1 - position)) & ((1 << self.bits) - 1)
            for position in range(length)
        ]
        alphabet = self.letters + "?"
        return "".join(
            alphabet[code - 1] if code <= len(alphabet) else "?" for code in codes if code
        )


def one_ngram(
    texts: list[list[str]] | list[str], n: int, *, source: Words | None = None
) -> list[tuple[str, ...]]:
    """Draw one n-gram of each user's text, uniformly, on the device.

    A text is a string of letters or a list of words. Each user counts once however much it writes,
    so the oracle that reports the n-gram protects the *whole* text. A text shorter than n is padded
    with "".
    """
    words = source or SystemSource()
    ngrams = []
    for text in texts:
        tokens = list(text) + [""] * max(0, n - len(text))
        start = uniform_below(len(tokens) - n + 1, source=words)
        ngrams.append(tuple(tokens[start : start + n]))
    return ngrams


def vocabulary(
    ngrams: list[tuple[str, ...]], public_ngrams: list[tuple[str, ...]]
) -> NDArray[np.int64]:
    """Find the position of each n-gram in a public list; one that is not listed gets
    `len(public_ngrams)`."""
    position_of = {ngram: i for i, ngram in enumerate(public_ngrams)}
    return np.array([position_of.get(ngram, len(public_ngrams)) for ngram in ngrams], np.int64)
