"""Noise on a device: the cipher by its RFC, the law by its distribution function and by the exact
sampler, the kernel by its twin, and no block of the cipher used twice."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from scipy.special import ndtr

from dither.errors import ParameterError
from dither.learn.deep import device_law
from dither.learn.deep.cipher import chacha_blocks
from dither.learn.deep.device_law import (
    CELLS,
    COIN_BITS,
    FLAG,
    LANES,
    MARGIN,
    OFFSET_BITS,
    STREAMS,
    ProposalFields,
    decide,
    draw_twin,
    locate,
    numpy_arrays,
    plan_device_law,
    read_fields,
    settle,
)
from dither.learn.deep.device_noise import (
    MOST_NUMBERS,
    DeviceNoiseDrawer,
    add_noise,
    torch_arrays,
)
from dither.privacy.noise import SystemSource
from dither.privacy.noise.rounded import accept_exactly
from tests.evidence import assert_counts

pytestmark = pytest.mark.all
CPU = torch.device("cpu")
KEY = [(number * 0x9E3779B1 + 1) & 0xFFFFFFFF for number in range(8)]
SIGMAS = (Fraction(3), Fraction(700), Fraction(1_300_007), Fraction(2**37 + 1))


def test_blocks_are_those_of_the_rfc_and_of_openssl() -> None:
    """RFC 8439, 2.3.2: the whole block; and 64 blocks of OpenSSL with another key and nonce."""
    key = [int.from_bytes(bytes(range(4 * i, 4 * i + 4)), "little") for i in range(8)]
    block = chacha_blocks(key, np.ones(1, np.int64), (0x09000000, 0x4A000000, 0))
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert b"".join(int(word[0]).to_bytes(4, "little") for word in block).hex() == expected
    nonce = (5, 1 << 31, 7)
    counters = torch.arange(64) + (1 << 32) - 70
    ours = torch.stack(chacha_blocks(KEY, counters, nonce), 1).numpy().astype("<u4").tobytes()
    start = int(counters[0]).to_bytes(4, "little")
    started = start + b"".join(n.to_bytes(4, "little") for n in nonce)
    secret = b"".join(word.to_bytes(4, "little") for word in KEY)
    stream = Cipher(ChaCha20(secret, started), None).encryptor()
    assert ours == stream.update(bytes(64 * 64))


def test_no_two_positions_share_bits_of_the_cipher() -> None:
    positions = np.arange(10 * STREAMS * LANES + 5)
    counters, streams = locate(positions)
    assert len(set(zip(counters.tolist(), streams.tolist(), strict=True))) == len(positions)
    assert streams.min() == 0 and streams.max() == STREAMS - 1 and STREAMS * 5 <= 16
    seen: dict[str, int] = {"word": 0, "sign": 0, "offset": 0, "coin": 0}
    for word in range(5):
        for bit in range(32):
            words = [np.zeros(1, np.int64) for _ in range(5)]
            base = read_fields(words)
            words[word] = words[word] + (1 << bit)
            changed = read_fields(words)
            moved = [name for name in seen if getattr(base, name)[0] != getattr(changed, name)[0]]
            assert len(moved) <= 1  # fields are made of disjoint bits
            for name in moved:
                seen[name] += 1
    assert seen == {"word": 64, "sign": 1, "offset": OFFSET_BITS, "coin": COIN_BITS}


def assert_law(draws: np.ndarray, sigma: float) -> None:
    """Counts of 40 intervals are those of rounded Gaussian numbers."""
    ends = np.unique(np.round(np.linspace(-3, 3, 39) * sigma)).astype(np.int64)
    chances = np.diff(np.r_[0, ndtr((ends + 0.5) / sigma), 1])
    counts = np.bincount(np.searchsorted(ends, draws), minlength=len(chances))
    names = [str(number) for number in range(len(chances))]
    assert_counts(
        dict(zip(names, counts.tolist(), strict=True)),
        len(draws),
        dict(zip(names, chances.tolist(), strict=True)),
    )


@pytest.mark.parametrize("sigma", SIGMAS[1:3])
def test_the_twin_has_the_law_of_rounded_noise(sigma) -> None:
    """Counts of 40 intervals against the distribution function of scipy; the first draws by two
    libraries are the same."""
    law = plan_device_law(sigma)
    count = 200_000
    key = [int(word) for word in SystemSource().words(4).view(np.uint32)]
    draws = draw_twin(law, key, 3, np.arange(count), numpy_arrays(law))[0]
    few = draw_twin(law, key, 3, torch.arange(1000), torch_arrays(law, CPU))[0]
    assert draws[:1000].tolist() == few.tolist()
    assert_law(draws, float(sigma))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_thresholds_are_the_exact_counts_and_cells_are_narrow(sigma) -> None:
    law = plan_device_law(sigma)
    counts = np.diff(np.r_[-(2**63), law.thresholds[: law.cells].astype(object)])
    assert tuple(counts) == law.plan.table.counts
    near = sigma * Fraction(2) ** law.fine
    assert CELLS <= near < 2 * CELLS and law.depth == len(law.thresholds).bit_length()
    assert len(law.thresholds) == 2**law.depth - 1


@pytest.mark.parametrize("sigma", SIGMAS)
def test_what_is_not_flagged_is_decided_as_the_exact_sampler_decides(sigma) -> None:
    """Coins at, above and below the threshold of acceptance, in all cells: floats decide only what
    fractions decide the same way, and what lies within the margin is flagged."""
    law = plan_device_law(sigma)
    arrays = numpy_arrays(law)
    starts = np.r_[-(2**63), law.thresholds[: law.cells - 1].astype(object)]
    source = SystemSource()
    for cell in range(0, law.cells, law.cells // 25):
        for away in (0, 1 << 39, (1 << 40) - 1):
            middle = Fraction(2 * away + 1, 2 << OFFSET_BITS)
            chance = float(np.exp(-float(law.plan.exponent(cell, middle))))
            for shift in (-(2**-38), -MARGIN / 4, MARGIN / 4, 2**-38):
                coin = round((chance + shift) * 2**COIN_BITS)
                if not 0 <= coin < 2**COIN_BITS:
                    continue
                ints = (np.array([int(number)], np.int64) for number in (starts[cell], 0, away))
                word, sign, offset = ints
                fields = ProposalFields(word, sign, offset, np.array([coin], np.int64))
                _, is_accepted, is_unsure = decide(law, fields, arrays.find_cells, arrays.to_double)
                assert bool(is_unsure[0]) == (abs(shift) < MARGIN)
                if not is_unsure[0]:
                    exact = accept_exactly(law.plan, cell, away, coin, source)
                    assert bool(is_accepted[0]) == exact


@pytest.mark.parametrize("sigma", SIGMAS)
def test_values_are_those_that_the_exact_sampler_rounds_to(sigma) -> None:
    law = plan_device_law(sigma)
    cells = np.arange(-law.cells, law.cells)
    for offset in (0, 1, 1 << 39, (1 << 40) - 1, 0x5555555555):
        offsets = np.full(len(cells), offset, np.uint64)
        expected = law.plan.round_cells(cells, offsets)
        ours = device_law.round_signed(law, cells, offsets.astype(np.int64))
        assert ours.tolist() == expected.tolist()


def test_flagged_positions_are_settled_on_the_host(monkeypatch) -> None:
    """With a margin that flags a fifth of all draws the law must stay what it is."""
    monkeypatch.setattr(device_law, "MARGIN", 0.2)
    sigma = 700
    drawer = DeviceNoiseDrawer(20_000, CPU)
    law = plan_device_law(Fraction(sigma))
    raw = drawer._fill_by_twin(law, 0)
    assert 3_000 < int((raw < FLAG // 2).sum()) < 5_000
    draws = drawer.draw(sigma).numpy()
    assert draws.min() > -8 * sigma
    assert_law(draws, sigma)


def test_a_flag_is_settled_by_its_own_bits() -> None:
    """A position that the twin decides is decided the same way exactly."""
    law = plan_device_law(Fraction(1_300_007))
    draws, _ = draw_twin(law, KEY, 9, np.arange(300), numpy_arrays(law))
    again = [settle(law, KEY, 9, place, 0, SystemSource()) for place in range(300)]
    assert np.mean(draws == np.array(again)) > 0.98  # but for the few that need a second attempt


def test_every_draw_is_of_its_own_and_none_is_copied() -> None:
    drawer = DeviceNoiseDrawer(512, CPU)
    first = drawer.draw(5000).clone()
    drawer.begin(5000)
    drawer.begin(5000)  # one draw ahead, not two
    assert drawer._draws == 2
    second = drawer.draw(5000).clone()
    third = drawer.draw(6000).clone()
    other = DeviceNoiseDrawer(512, CPU)
    fourth = other.draw(5000)
    draws = [first, second, third, fourth]
    for index, one in enumerate(draws):
        for two in draws[index + 1 :]:
            assert float((one == two).double().mean()) < 0.1
    drawer.begin(5000)
    drawer.draw(7000)  # what was drawn ahead for another sigma is thrown away, with its number
    assert drawer._draws == 5 and drawer._key != other._key
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copying(drawer)


def test_more_numbers_than_the_cipher_counts_are_refused() -> None:
    counters, _ = locate(np.array([MOST_NUMBERS - 1]))
    assert int(counters[0]) < 1 << 32
    with pytest.raises(ParameterError):
        DeviceNoiseDrawer(MOST_NUMBERS + 1, CPU)


def test_a_forked_process_has_a_key_of_its_own() -> None:
    drawer = DeviceNoiseDrawer(64, CPU)
    drawer.begin(5000)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, drawer.draw(5000).numpy().tobytes())
        os._exit(0)
    ours = drawer.draw(5000)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 64 * 8), np.int64)
    assert np.mean(ours.numpy() == theirs) < 0.1


def test_planted_mistakes_are_caught() -> None:
    """Fewer rounds, a counter that repeats, and a table in floats."""
    law = plan_device_law(Fraction(700))
    positions = np.arange(4 * STREAMS * LANES)
    draws, _ = draw_twin(law, KEY, 0, positions, numpy_arrays(law))
    repeated, _ = draw_twin(law, KEY, 0, positions % (STREAMS * LANES), numpy_arrays(law))
    assert len(np.unique(repeated)) < len(np.unique(draws)) / 2
    floats = law.thresholds[: law.cells].astype(np.float64).astype(object)
    counts = np.diff(np.r_[-(2**63), [int(end) for end in floats]])
    assert tuple(counts) != law.plan.table.counts


def test_sums_are_rounded_before_noise_is_added() -> None:
    sums = [torch.tensor([[0.3, -1.26]]), torch.tensor([5.0])]
    noise = torch.tensor([1, -2, 3])
    means = add_noise(sums, noise, -2, 0.5)
    assert [mean.tolist() for mean in means] == [[[1.0, -3.5]], [11.5]]
    assert [mean.shape for mean in means] == [total.shape for total in sums]


if find_spec("triton") is not None:

    def test_the_kernel_gives_the_numbers_of_its_twin() -> None:
        """The kernel's own code, by Triton's interpreter."""
        program = (
            "import numpy as np, torch\n"
            "from fractions import Fraction\n"
            "from dither.learn.deep import device_law as d, triton_noise as t\n"
            "key = list(range(100, 108))\n"
            "for sigma in (3, 1_300_007):\n"
            "    law = d.plan_device_law(Fraction(sigma))\n"
            "    values = torch.zeros(900, dtype=torch.int64)\n"
            "    flagged = torch.zeros(1, dtype=torch.int32)\n"
            "    numbers = torch.tensor([law.rate, *law.coefficients], dtype=torch.float64)\n"
            "    t.launch_draw(values, flagged, torch.tensor(key, dtype=torch.int32),\n"
            "        torch.from_numpy(law.thresholds), numbers, 11, fine=law.fine,\n"
            "        cells=law.cells, depth=law.depth, degree=len(law.coefficients) - 1)\n"
            "    twin = d.draw_twin(law, key, 11, np.arange(900), d.numpy_arrays(law))[0]\n"
            "    assert values.tolist() == twin.tolist() and int(flagged) == 0\n"
        )
        environment = os.environ | {"TRITON_INTERPRET": "1"}
        subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=300)


if torch.cuda.is_available():

    @pytest.mark.parametrize("sigma", [700, 1_300_007, 2**37 + 1])
    def test_the_kernel_gives_the_numbers_of_its_twin_on_a_device(sigma) -> None:
        drawer = DeviceNoiseDrawer(1_000_003, torch.device("cuda"))
        drawn = drawer.draw(sigma).clone()
        assert drawer._has_kernels
        twin = drawer._fill_by_twin(plan_device_law(Fraction(sigma)), 1)  # 0 was tried
        assert torch.equal(drawn, twin)
        drawer.begin(sigma)
        assert torch.equal(
            drawer.draw(sigma), drawer._fill_by_twin(plan_device_law(Fraction(sigma)), 2)
        )
