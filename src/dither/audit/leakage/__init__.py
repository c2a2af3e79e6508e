"""Leakage of a system about a secret: Bayes risk, min-entropy leakage, and what they say of epsilon
(book, chapter 15).

`channel` is exact where the channel is known; `estimate` works from pairs (secret, output);
`limits` links Bayes risk and epsilon both ways; `systems` and `tables` reproduce the book's
experiments.
"""
