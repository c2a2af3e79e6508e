"""A small protocol of every kind: few enough inputs and reports to play out or try them all."""

from __future__ import annotations

from dither import local

EVERY: list[local.Protocol] = [
    local.Direct(1, 3),
    local.Direct("0.1", 2),
    local.SymmetricUnary(1, 3),
    local.OptimisedUnary(1, 3),
    local.LocalHash(1, 4, 2, 2),
    local.LocalHash(1, 4, 3, 3),
    local.Hadamard(1, 5, 1),
    local.Hadamard(3, 9),
    local.Hadamard(2, 4, 4),
    local.BitFlip(1, 4, 2),
    local.CountMeanSketch(1, 5, 2, 4, "x", 3),
    local.HadamardSketch(1, 5, 3, 4, "x", 3),
    local.basic_rappor(2, f="1/2", p="1/4", q="3/4"),
    local.bloom_rappor(bits=3, hashes=2, cohorts=2, f="1/2", p="1/2", q="3/4"),
    local.OneBit(1),
    local.RepeatedOneBit(1, 0, 10, 5, "1/5"),
    local.Piecewise(1, cells=8),
    local.Hybrid(1, cells=5),
    local.SquareWave(1, 0, 1, 6),
    local.VectorMean(1, -1, 1, 3, 2),
    local.VectorMean(2, -1, 1, 2, 2),
    local.SparseMean(1, 1, 5, 3, 2),
    local.Marginals(1, 3, 2),
    local.Hierarchy(1, 4, 2),
    local.Haar(1, 8),
    local.PrefixSearch(1, 2, 1, 1, 3),
    local.FragmentPuzzle(1, bits=2, step=1, tag_bits=1, prime_bits=3),
    local.EdgeResponse(1, users=3),
]


IDS = [f"{p.type}-{i}" for i, p in enumerate(EVERY)]
