"""Writes vectors.json: protocol documents, reports and what they tally to. Run once; the file is
the promise.

python -m tests.local.make_vectors
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dither import local
from dither.local import wire
from tests.local.seeded_words import SeededWords

PROTOCOLS: list[tuple[local.Protocol, list[object]]] = [
    (local.Direct(1, 300), [0, 1, 299]),
    (local.SymmetricUnary(1, 11), [0, 10]),
    (local.OptimisedUnary("0.5", 16), [3, 15]),
    (local.Subset(1, 12), [0, 11]),
    (local.OptimalHash(1, 1000), [0, 999]),
    (local.BinaryHash(2, 1 << 40), [12345678901]),
    (local.Hadamard(1, 100), [0, 99]),
    (local.Hadamard(3, 100), [7, 8]),
    (local.CountMeanSketch(4, 1 << 40, 8, 16, "emoji"), [77]),
    (local.HadamardSketch(4, 1 << 40, 8, 16, "emoji"), [77, 78]),
    (local.basic_rappor(9, f="1/2", p="1/2", q="3/4"), [8]),
    (
        local.bloom_rappor(bits=16, hashes=2, cohorts=64, f="1/2", p="1/2", q="3/4"),
        ["dark", "größe"],
    ),
    (local.OneBit(1, 0, 100), [25.0, 100.0]),
    (local.RepeatedOneBit(1, 0, 100, 25, "1/5"), [30, 99]),
    (local.Piecewise(2, 0, 1), [0.25]),
    (local.Hybrid(2, 0, 1), [0.25, 0.75, 0.5]),
    (local.SquareWave(1, 0, 1, 32), [0.1, 0.9]),
    (local.VectorMean(2, -1, 1, 300, 2), [[0.5] * 300]),
    (local.SparseMean(1, 1, 5, 100, 3), [{7: 4.0, 9: 1.0}, {}]),
    (local.Marginals(1, 10, 3), [0b1011001]),
    (local.Hierarchy(1, 64, 4), [63, 0]),
    (local.Haar(1, 64), [63, 0]),
    (local.PrefixSearch(4, 40, 10, 10), [2**39 + 5]),
    (local.BitFlip(1, 32, 4), [0, 31]),
    (local.FragmentPuzzle(4, bits=30, step=10), [123456789, 0, 2**30 - 1, 5]),
    (local.PlanarLaplace(2, side=10, radius=200), [[1200.0, 340.0], [-5.0, 0.0]]),
    (local.Degrees(1), [0, 17]),
    (local.Degrees(1, groups=3), [[4, 0, 9]]),
    (local.EdgeResponse(1, users=12), [(3, (True, False, True)), (0, ()), (11, (False,) * 11)]),
]


def main() -> None:
    found = []
    for number, (protocol, values) in enumerate(PROTOCOLS):
        given = values if isinstance(values[0], (str, dict, tuple)) else np.array(values)
        payloads = protocol.randomise(given, SeededWords(number))
        entry = {
            "document": protocol.document(),
            "digest": protocol.digest.hex(),
            "reports": [wire.seal(protocol, row.tobytes()).hex() for row in payloads],
        }
        if not protocol.keeps_reports and getattr(protocol, "domain", 0) < 1 << 24:
            entry["tally"] = [int(count) for count in protocol.tally(payloads)]
        found.append(entry)
    family = local.hashing.HashFamily(1 << 40, 16)
    seeds = family.public(2, "emoji")
    values = [0, 1, 2**30, 2**40 - 1]
    hashes = {
        "name": "emoji",
        "domain": 1 << 40,
        "size": 16,
        "seeds": seeds.tolist(),
        "values": values,
        "hashes": family.hash(seeds, np.array(values)).tolist(),
    }
    bloom = local.bloom_rappor(bits=16, hashes=2, cohorts=64, f="1/2", p="1/2", q="3/4")
    filters = {
        "texts": ["dark", "größe"],
        "cohort": 5,
        "bits": [sorted(bloom.hash_bits(t, 5)) for t in ("dark", "größe")],
    }
    path = Path(__file__).parent / "vectors.json"
    path.write_text(
        json.dumps({"format": 1, "protocols": found, "hash": hashes, "bloom": filters}, indent=1)
        + "\n"
    )


if __name__ == "__main__":
    main()
