"""Writes conformance.json: for a document of every protocol, values that every client takes and
values that every client refuses. Run once; the file is the promise.

python -m tests.local.make_conformance

Values are JSON texts, as a command line or a web page has them. The clients in Python, JavaScript
and C are all run against this one file (tests/local/test_conformance.py).
"""

from __future__ import annotations

import json
from pathlib import Path

from dither import local

NOT_INTEGERS = ["3.0", "1e0", "true", "false", "null", '"3"', '""', "[3]", "{}", "[]"]
NOT_NUMBERS = ["true", "null", '"0.5"', "[0.5]", "{}", "[]"]
HUGE = "1" + 40 * "0"


def refuse_outside(size: int) -> list[str]:
    """Integers next to the domain, and those that wrap around in 8, 16, 32 or 64 bits."""
    beyond = [size, size + 1, -1, -size, 2**32 + 1, 2**63, 2**64, 2**64 + 1, -(2**64) + 1]
    outside = [str(value) for value in beyond if not 0 <= value < size]
    return [*outside, HUGE, *NOT_INTEGERS]


def indexed(protocol: local.Protocol, size: int) -> tuple[local.Protocol, list[str], list[str]]:
    """A protocol whose values are the integers below `size`."""
    return protocol, ["0", "1", str(size - 1)], refuse_outside(size)


def numeric(protocol: local.Protocol) -> tuple[local.Protocol, list[str], list[str]]:
    """A protocol of one number, which is clamped."""
    return protocol, ["0", "0.25", "-7", "1e300", "-1e400", HUGE], NOT_NUMBERS


CASES: list[tuple[local.Protocol, list[str], list[str]]] = [
    indexed(local.Direct(1, 8), 8),
    indexed(local.Direct(2, 300), 300),
    indexed(local.SymmetricUnary(1, 11), 11),
    indexed(local.OptimisedUnary(1, 9), 9),
    indexed(local.Subset(1, 12), 12),
    indexed(local.OptimalHash(1, 1000), 1000),
    indexed(local.LocalHash(1, 4, 3, 3), 4),
    indexed(local.LocalHash(2, 1 << 40, 4, 17), 1 << 40),
    indexed(local.Hadamard(3, 100), 100),
    indexed(local.CountMeanSketch(4, 1 << 20, 8, 16, "emoji", 13), 1 << 20),
    indexed(local.HadamardSketch(4, 1 << 40, 8, 16, "emoji", 7), 1 << 40),
    indexed(local.BitFlip(1, 32, 4), 32),
    indexed(local.basic_rappor(9, f="1/2", p="1/2", q="3/4"), 9),
    indexed(local.Marginals(1, 10, 3), 1 << 10),
    indexed(local.Hierarchy(1, 64, 4), 64),
    indexed(local.Haar(1, 64), 64),
    indexed(local.PrefixSearch(4, 40, 10, 10), 1 << 40),
    indexed(local.PrefixSearch(2, 12, 4, 4, 19), 1 << 12),
    indexed(local.FragmentPuzzle(4, bits=30, step=10), 1 << 30),
    indexed(local.FragmentPuzzle(4, bits=30, step=10, prime_bits=13), 1 << 30),
    numeric(local.OneBit(1, 0, 1)),
    numeric(local.Piecewise(2, 0, 1)),
    numeric(local.Hybrid(2, 0, 1)),
    numeric(local.SquareWave(1, 0, 1, 32)),
    (local.RepeatedOneBit(1, 0, 100, 25, "1/5"), ["0", "30", "-5", HUGE, "-" + HUGE], NOT_INTEGERS),
    (
        local.VectorMean(2, -1, 1, 3, 1),
        ["[0.5, -1, 9]", "[0, 1e400, -0.25]"],
        [
            "[]",
            "[0.5, 1]",
            "[0, 0, 0, 0]",
            "[0, 0, null]",
            "[0, true, 0]",
            '[0, "1", 0]',
            "[[0, 0, 0]]",
            "0.5",
            "null",
        ],
    ),
    (
        local.SparseMean(1, 1, 5, 100, 3),
        ["{}", '{"7": 4.0, "99": 1}', '{"0": 900}', '{"1": 1, "2": 2, "3": 3, "4": 4}'],
        [
            '{"100": 4}',
            '{"-1": 4}',
            '{"7.0": 4}',
            '{"07": 4}',
            '{" 7": 4}',
            '{"x": 4}',
            '{"": 4}',
            '{"7": null}',
            '{"7": "4"}',
            '{"7": true}',
            '{"7": [4]}',
            '{"18446744073709551616": 4}',
            "[]",
            "7",
            "null",
            '[["7", 4.0]]',
        ],
    ),
    (
        local.bloom_rappor(bits=16, hashes=2, cohorts=64, f="1/2", p="1/2", q="3/4"),
        ['""', '"dark"', '"größe"', '"\\ud83d\\ude00"'],
        ["5", "true", "null", "[]", '["dark"]', '"\\ud800"', '"a\\udc00b"'],
    ),
    (
        local.Degrees(1),
        ["0", "17", "[17]", "-3", HUGE],
        ["3.0", "1e3", "true", "null", '"3"', "[]", "[1, 2]", "[3.5]", "[true]"],
    ),
    (
        local.Degrees(1, groups=3),
        ["[4, 0, 9]", "[-1, 0, 99999999999999999999]"],
        ["4", "[4, 0]", "[4, 0, 9, 1]", "[4, 0, 1.5]", "[4, 0, true]", '[4, 0, "1"]', "null"],
    ),
    (
        local.EdgeResponse(1, users=12),
        ["[0, []]", "[3, [true, false, true]]", "[2, [1, 0]]"],
        [
            "[12, []]",
            "[-1, []]",
            "[3, [true, false]]",
            "[2, [1, 2]]",
            '[1, ["x"]]',
            "[1, [null]]",
            "[1, [0.5]]",
            "[true, [1]]",
            "[1.5, [1]]",
            '["1", [1]]',
            "[1]",
            "3",
            "null",
        ],
    ),
    (
        local.PlanarLaplace(2, side=10, radius=200),
        ["[1200.0, 340.0]", "[-5, 0]", "[1e300, -1e400]"],
        ["[1200]", "[1, 2, 3]", '["1", 2]', "[true, 2]", "[null, 0]", "5", "null", "{}"],
    ),
]


def main() -> None:
    cases = [
        {"document": protocol.document(), "good": good, "bad": bad} for protocol, good, bad in CASES
    ]
    path = Path(__file__).parent / "conformance.json"
    path.write_text(json.dumps({"format": 1, "cases": cases}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
