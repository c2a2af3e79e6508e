"""Where random bits come from: fresh for every release, never repeated, never seeded."""

from __future__ import annotations

import ast
import copy
import inspect
import multiprocessing
import os
import pickle
import random
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dither import ParameterError
from dither.privacy import noise
from dither.privacy.noise import SystemSource, Words
from dither.privacy.noise import source as source_module
from tests.sources import TestSource

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "dither").rglob("*.py"))


def words_of(source: Words) -> list[int]:
    return [int(word) for word in source.words(4)]


def test_a_forked_child_and_its_parent_never_share_words():
    source = SystemSource()
    source.words(3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(write, np.array(words_of(source), np.uint64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 1000), np.uint64).tolist()
    assert len(theirs) == 4
    assert not set(theirs) & {*words_of(source), *words_of(source)}


def _send_words(source: Words | None, pipe) -> None:
    pipe.send(words_of(source or SystemSource()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_never_repeats_words(method):
    context = multiprocessing.get_context(method)
    source = (
        SystemSource() if method == "fork" else None
    )  # spawn pickles its arguments, which is refused
    seen: list[int] = []
    for _ in range(2):
        here, there = context.Pipe()
        worker = context.Process(target=_send_words, args=(source, there))
        worker.start()
        seen += here.recv()
        worker.join()
    if source:
        seen += words_of(source)
    assert len(set(seen)) == len(seen)


def test_a_source_cannot_be_handed_to_a_spawned_process():
    with pytest.raises(TypeError, match="copied, pickled"):
        multiprocessing.get_context("spawn").Process(
            target=_send_words, args=(SystemSource(), None)
        ).start()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_source_cannot_be_pickled(protocol):
    with pytest.raises(TypeError):
        pickle.dumps(SystemSource(), protocol)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda s: s.__reduce__(), lambda s: s.__getstate__()]
)
def test_a_source_cannot_be_copied(duplicate):
    with pytest.raises(TypeError):
        duplicate(SystemSource())


def test_a_source_cannot_be_restored_or_extended():
    with pytest.raises(TypeError):
        SystemSource().__setstate__({})
    with pytest.raises(TypeError):
        type("Mine", (SystemSource,), {})
    with pytest.raises(AttributeError):
        SystemSource().seed = 1


def test_every_release_draws_a_fresh_key_from_the_operating_system(monkeypatch):
    keys: list[bytes] = []

    def recorded(count: int) -> bytes:
        keys.append(os_urandom(count))
        return keys[-1]

    os_urandom = os.urandom
    monkeypatch.setattr(source_module.os, "urandom", recorded)
    for draw in (
        lambda: noise.discrete_laplace(10),
        lambda: noise.discrete_gaussian(10, 5),
        lambda: noise.geometric(3),
        lambda: noise.bernoulli(1),
        lambda: noise.bernoulli_exp(1),
        lambda: noise.uniform_below(6),
        lambda: noise.argmax_gumbel([1, 2], 1),
    ):
        before = len(keys)
        draw()
        draw()
        assert len(keys) == before + 2
    assert len(set(keys)) == len(keys) and all(len(key) == 32 for key in keys)


def test_two_releases_never_share_words():
    first = {int(SystemSource().words(1)[0]) for _ in range(2000)}
    assert len(first) == 2000  # a repeat among 2000 words of 64 bits has probability 1.1e-13


@pytest.mark.parametrize("width", [1, 7, 63, 64])
def test_words_have_the_width_asked_for_and_use_all_of_it(width):
    words = SystemSource().words(400, width)
    assert words.dtype == np.uint64 and len(words) == 400
    assert all(int(word) < 1 << width for word in words)
    assert any(int(word) >> (width - 1) for word in words)  # fails with probability 2**-400


# Mersenne Twister: statistics cannot see it, so its type is refused and its weakness shown


class Twister(Words):
    """What must never be a source: 64-bit words of Python's Mersenne Twister."""

    def __init__(self) -> None:
        self.twister = random.Random(2026)

    def words(self, count: int, width: int = 64) -> np.ndarray:
        return np.array([self.twister.getrandbits(64) for _ in range(count)], np.uint64)


def untemper(y: int) -> int:
    """The state word behind one 32-bit output of MT19937."""
    y ^= y >> 18
    y ^= (y << 15) & 0xEFC60000
    x = y
    for _ in range(5):
        x = y ^ ((x << 7) & 0x9D2C5680)
    y = x & 0xFFFFFFFF
    x = y
    for _ in range(3):
        x = y ^ (x >> 11)
    return x


def predicts_next_word(source: Words) -> bool:
    """Whether the state of a Mersenne Twister, recovered from 624 outputs, foretells the next
    word."""
    outputs = [
        half for word in source.words(312) for half in (int(word) & 0xFFFFFFFF, int(word) >> 32)
    ]
    clone = random.Random()
    clone.setstate((3, (*map(untemper, outputs), 624), None))
    return clone.getrandbits(64) == int(source.words(1)[0])


def test_a_mersenne_twister_is_foretold_from_624_words_and_our_source_is_not():
    assert predicts_next_word(Twister())
    assert not predicts_next_word(SystemSource())


@pytest.mark.parametrize(
    "generator",
    [
        np.random.default_rng(),
        np.random.RandomState(),
        random.Random(),
        random.SystemRandom(),
        7,
        "os",
    ],
)
def test_generators_of_other_libraries_and_seeds_are_refused_by_type(generator):
    for draw in (
        noise.discrete_laplace,
        noise.discrete_gaussian,
        noise.geometric,
        noise.bernoulli_exp,
    ):
        with pytest.raises(ParameterError, match="source must be left out"):
            draw(1, 3, source=generator)
    with pytest.raises(ParameterError, match="source must be left out"):
        noise.uniform_below(5, source=generator)
    with pytest.raises(ParameterError, match="source must be left out"):
        noise.argmax_gumbel([1, 2], 1, source=generator)


def test_the_default_source_is_the_systems(monkeypatch):
    assert type(source_module.check_source(None)) is SystemSource
    fed = TestSource([1])
    assert source_module.check_source(fed) is fed


# structure: no seed anywhere, no other generator, nothing of the tests in the wheel


@cache
def list_nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def test_no_function_of_the_library_has_a_seed_parameter():
    for path in SOURCES:
        for node in list_nodes(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                arguments = node.args.args + node.args.kwonlyargs + node.args.posonlyargs
                assert not [a.arg for a in arguments if "seed" in a.arg.lower()], path
            if isinstance(node, ast.keyword):
                assert node.arg != "seed", path


def test_no_module_of_the_library_imports_another_source_of_randomness():
    for path in SOURCES:
        if path == Path(source_module.__file__).resolve():
            continue
        names = {node.id for node in list_nodes(path) if isinstance(node, ast.Name)}
        imported = set()
        for node in list_nodes(path):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                imported |= {
                    f"{node.module}",
                    *(f"{node.module}.{alias.name}" for alias in node.names),
                }
            if isinstance(node, ast.Attribute):
                imported.add(ast.unparse(node))
        for banned in (
            "numpy.random",
            "np.random",
            "random",
            "secrets",
            "os.urandom",
            "uuid",
            "os.getrandom",
        ):
            assert banned not in imported, (path, banned)
        assert "TestSource" not in names | imported, path


def test_the_test_source_is_outside_the_wheel():
    assert Path(inspect.getfile(TestSource)).parent == ROOT / "tests"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/dither"]}
    assert not [path for path in SOURCES if "TestSource" in path.read_text()]
