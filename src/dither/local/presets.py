"""Deployments, with every parameter and where it comes from; what is not public is said to be
unknown.

Presets rebuild the *statistics* of a deployment on dither's wire format and hashes; they do not
speak the vendors' wire formats. `parameters` maps each name to (value, source); a value of None is
not public.

>>> RAPPOR.protocol().epsilon_one < RAPPOR.protocol().epsilon
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dither.errors import ParameterError
from dither.local.bitflip import BitFlip
from dither.local.bloom import BloomRappor, bloom_rappor
from dither.local.onebit import RepeatedOneBit
from dither.local.protocol import Protocol
from dither.local.puzzle import FragmentPuzzle
from dither.local.sketch import CountMeanSketch, HadamardSketch


@dataclass(frozen=True)
class Preset:
    """A named deployment."""

    name: str
    parameters: dict[str, tuple[Any, str]]
    make: Callable[..., Protocol]
    notes: tuple[str, ...]

    def protocol(self, **stated: Any) -> Any:
        """Make the protocol.

        Raises ParameterError unless the caller states the parameters that are not public.
        """
        published = {
            name: value for name, (value, _) in self.parameters.items() if value is not None
        }
        missing = {name for name, (value, _) in self.parameters.items() if value is None} - set(
            stated
        )
        if missing:
            raise ParameterError(
                f"{self.name}: {sorted(missing)} are not public; state them: protocol(epsilon=...)"
            )
        return self.make(**(published | stated))

    def explain(self) -> str:
        """Every parameter with its source."""
        lines = [self.name]
        for name, (value, source) in self.parameters.items():
            lines.append(f"  {name} = {'not public' if value is None else value}  ({source})")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


_CLIENT = "google/rappor, client/python/rappor.py, class Params"
_CHROMIUM = "Chromium source, components/rappor"


def _make_bloom(**parameters: Any) -> BloomRappor:
    return bloom_rappor(**parameters)


RAPPOR = Preset(
    "RAPPOR client defaults",
    {
        "bits": (16, _CLIENT),
        "hashes": (2, _CLIENT),
        "cohorts": (64, _CLIENT),
        "f": ("1/2", _CLIENT),
        "p": ("1/2", _CLIENT),
        "q": ("3/4", _CLIENT),
    },
    _make_bloom,
    ("the Bloom hash is SHA-256 here; the client's is SHA-1 or MD5, by version",),
)
CHROMIUM = Preset(
    "Chromium RAPPOR, normal noise, strings",
    {
        "bits": (32, _CHROMIUM),
        "hashes": (2, _CHROMIUM),
        "cohorts": (128, _CHROMIUM),
        "f": ("1/2", _CHROMIUM),
        "p": ("1/4", _CHROMIUM),
        "q": ("3/4", _CHROMIUM),
    },
    _make_bloom,
    (
        "128 bits for domain names (eTLD+1), 8 for Safe Browsing; sparse noise has f = 1/4",
        "retired from Chrome",
    ),
)


def _make_cms(**parameters: Any) -> CountMeanSketch:
    return CountMeanSketch(**parameters)


def _make_hcms(**parameters: Any) -> HadamardSketch:
    return HadamardSketch(**parameters)


_DUMP = "unauthenticated dumps of device records, plausible"
_FREE = "dither's own: any public name and domain of hashed texts"
APPLE_CMS = Preset(
    "Apple count-mean sketch",
    {
        "epsilon": (8, _DUMP),
        "rows": (65536, _DUMP),
        "width": (1024, _DUMP),
        "domain": (1 << 60, _FREE),
        "name": ("apple-cms", _FREE),
    },
    _make_cms,
    (
        "Apple's white paper names the mechanism; parameters per use case beyond the dumps are not "
        "public",
        "Tang et al. 2017: up to 16 a day on macOS 10.12, renewed daily; 30 days are 480 (rule: "
        "dither never renews)",
        "hash functions of Apple's devices are not public; 65,536 rows of 1,024 need 512 MiB of "
        "tally",
    ),
)
APPLE_HCMS = Preset(
    "Apple Hadamard count-mean sketch",
    {
        "epsilon": (4, _DUMP),
        "rows": (1024, _DUMP),
        "width": (32768, _DUMP),
        "domain": (1 << 60, _FREE),
        "name": ("apple-hcms", _FREE),
    },
    _make_hcms,
    ("hash functions of Apple's devices are not public",),
)


def _make_puzzle(**parameters: Any) -> FragmentPuzzle:
    return FragmentPuzzle(**parameters)


_WORDS = "not public; Apple's white paper (2017) describes the algorithm"
APPLE_PUZZLE = Preset(
    "Apple sequence fragment puzzle (new words)",
    {
        "epsilon": (None, _WORDS),
        "bits": (None, "dither's own: letters times bits of a letter"),
        "step": (None, "dither's own: bits of a fragment, two letters in the published example"),
        "tag_bits": (8, "the implementation in pure-LDP"),
        "name": ("apple-puzzle", _FREE),
    },
    _make_puzzle,
    (
        "state epsilon, bits and step yourself",
        "Apple splits epsilon between fragment and word and uses count-mean sketches; here the "
        "users are split",
    ),
)


def _make_one_bit(**parameters: Any) -> RepeatedOneBit:
    return RepeatedOneBit(**parameters)


_PAPER = "Ding, Kulkarni, Yekhanin 2017 describes the mechanism; the deployed value is not public"
MICROSOFT = Preset(
    "Microsoft telemetry, 1BitMean with rounding memoisation",
    {
        "epsilon": (None, _PAPER),
        "low": (0, "the paper's [0, m]"),
        "high": (None, _PAPER),
        "step": (None, _PAPER),
        "flip": (None, _PAPER),
    },
    _make_one_bit,
    ("state epsilon, high, step (a divisor of high) and flip yourself",),
)


def _make_bit_flip(**parameters: Any) -> BitFlip:
    return BitFlip(**parameters)


MICROSOFT_HISTOGRAM = Preset(
    "Microsoft telemetry, dBitFlip",
    {"epsilon": (None, _PAPER), "domain": (None, _PAPER), "sampled": (None, _PAPER)},
    _make_bit_flip,
    (
        "state epsilon, the number of buckets and how many of them a device reports yourself",
        "the paper fixes a device's buckets for life; here each new answer draws them anew",
    ),
)
PRESETS = {
    "rappor": RAPPOR,
    "chromium": CHROMIUM,
    "apple-cms": APPLE_CMS,
    "apple-hcms": APPLE_HCMS,
    "apple-puzzle": APPLE_PUZZLE,
    "microsoft": MICROSOFT,
    "microsoft-histogram": MICROSOFT_HISTOGRAM,
}
