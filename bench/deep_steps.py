"""Models that `bench/deep.py` times, and a step of each kind: stock PyTorch, our own code without
privacy (the fair baseline), the private trainer, and Opacus where it is installed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import nn

from dither.learn.deep import PrivateTrainer
from dither.learn.deep.gradients import BookKeeper
from dither.learn.deep.losses import read_loss
from dither.learn.deep.plan import SamplePlan
from dither.learn.deep.rehearsal import choose_forms
from dither.learn.deep.stage import StepShapes

ROWS = 60_000
LOSS = nn.CrossEntropyLoss()
PLAN = {"n": ROWS, "epsilon": 3, "delta": 1e-5, "epochs": 100}
Step = Callable[[], None]


def make_mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 1000),
        nn.ReLU(),
        nn.Linear(1000, 1000),
        nn.ReLU(),
        nn.Linear(1000, 10),
    )


def make_cnn() -> nn.Module:
    """The small network of Tramer and Boneh: 26,010 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


MODELS = {"MLP": make_mlp, "CNN": make_cnn}


class Attention(nn.Module):
    """Attention through linear layers, over all positions or those before."""

    def __init__(self, width: int, heads: int, *, is_causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.is_causal = is_causal
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.mixed(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*split, is_causal=self.is_causal)
        return self.out(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer block, normalised before."""

    def __init__(self, width: int, heads: int, *, is_causal: bool) -> None:
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.attention = Attention(width, heads, is_causal=is_causal)
        self.second = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))


class Transformer(nn.Module):
    """Blocks on patches of an image or on tokens, and a linear layer on their mean or the last.

    Positions are an embedding, so that every parameter has a closed form.
    """

    def __init__(self, enter: nn.Module, width: int, heads: int, length: int, classes: int) -> None:
        super().__init__()
        self.enter = enter
        is_causal = isinstance(enter, nn.Embedding)
        self.positions = nn.Embedding(length, width)
        blocks = (Block(width, heads, is_causal=is_causal) for _ in range(12))
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        if not self.is_causal:
            x = x.flatten(2).mT
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        x = self.last(self.blocks(x + self.positions(places)))
        return self.head(x[:, -1] if self.is_causal else x.mean(1))


def make_vit() -> nn.Module:
    """21M parameters: width 384, 6 heads, 12 blocks, 49 patches of 4 x 4."""
    return Transformer(nn.Conv2d(1, 384, 4, 4), 384, 6, 49, 10)


def make_decoder() -> nn.Module:
    """124M parameters: width 768, 12 heads, 12 blocks, 50,257 tokens, 128 positions; it classifies
    by the last position (a tied output layer would have to form its vectors)."""
    return Transformer(nn.Embedding(50_257, 768), 768, 12, 128, 10)


LARGE = {
    "ViT 21M": (make_vit, (2048, 8192), 512),
    "decoder 124M": (make_decoder, (1024, 4096), 128),
}
"""A model, its batches, and how many rows run at a time."""


def make_stock(make_model, data, batch: int, physical: int | None = None) -> Step:
    """A step of plain PyTorch, so many rows at a time."""
    model = make_model().to(data[0].device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return make_plain(model, optimizer, LOSS, data, batch, physical)


def make_plain(model, optimizer, loss, data, batch: int, physical: int | None = None) -> Step:
    """A step of a training loop as PyTorch writes it."""

    def step() -> None:
        chosen = torch.randint(0, len(data[0]), (batch,), device=data[0].device)
        optimizer.zero_grad()
        for rows in chosen.split(physical or batch):
            loss(model(data[0][rows]), data[1][rows]).backward()
        optimizer.step()

    return step


def make_keeper(model: nn.Module, data, slots: int) -> BookKeeper:
    """Our code for gradients, with the forms that it chooses for so many rows."""
    stage = StepShapes(
        inputs=torch.zeros_like(data[0][:1]),
        targets=torch.zeros_like(data[1][:1]),
        slots=slots,
        runs=1,
        sum_block=slots,
        rows_per_unit=1,
        augmentations=1,
        augment=None,
        precision=None,
        is_proved=False,
    )
    loss = read_loss(LOSS)
    return BookKeeper(model, loss, choose_forms(model, loss, stage))


def make_fair(make_model, data, batch: int, physical: int | None = None) -> Step:
    """A step of our own code without clipping, noise and padding, so many rows at a time."""
    model = make_model().to(data[0].device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keeper = make_keeper(model, data, physical or batch)
    ones = torch.ones(physical or batch, device=data[0].device)

    def step() -> None:
        chosen = torch.randint(0, len(data[0]), (batch,), device=data[0].device)
        optimizer.zero_grad()
        for rows in chosen.split(len(ones)):
            weights = ones[: len(rows)]
            contributions = keeper.find(data[0][rows], data[1][rows], weights, len(rows))
            with torch.no_grad():
                for name, parameter in keeper.trained.items():
                    total = contributions[name].add_weighted(weights, weights.bool(), len(rows))
                    total.div_(batch)
                    parameter.grad = total if parameter.grad is None else parameter.grad.add_(total)
        optimizer.step()

    return step


def make_recorded(make_model, data, batch: int) -> Step:
    """The fair step with its gradients as one CUDA graph, as ours has them."""
    model = make_model().to(data[0].device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keeper = make_keeper(model, data, batch)
    ones = torch.ones(batch, device=data[0].device)

    def find_means(inputs, targets) -> list[torch.Tensor]:
        contributions = keeper.find(inputs, targets, ones, batch)
        with torch.no_grad():
            return [
                contributions[name].add_weighted(ones, ones.bool(), batch).div_(batch)
                for name in keeper.trained
            ]

    inputs, targets = data[0][:batch].clone(), data[1][:batch].clone()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            find_means(inputs, targets)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        means = find_means(inputs, targets)

    def step() -> None:
        chosen = torch.randint(0, len(data[0]), (batch,), device=data[0].device)
        torch.index_select(data[0], 0, chosen, out=inputs)
        torch.index_select(data[1], 0, chosen, out=targets)
        graph.replay()
        for parameter, mean in zip(keeper.trained.values(), means, strict=True):
            parameter.grad = mean
        optimizer.step()

    return step


def make_ours(make_model, data, batch: int, **settings) -> Step:
    """A step of the private trainer."""
    model = make_model().to(data[0].device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = PrivateTrainer(
        model,
        LOSS,
        batch=batch,
        optimizer=optimizer,
        **PLAN,
        **settings,
    )
    tokens = trainer.batches(data)
    return lambda: trainer.step(next(tokens))


def make_float(make_model, data, batch: int, **settings) -> Step:
    """A step of the private trainer with float noise and sums, which are not proved."""
    return make_ours(make_model, data, batch, noise="float", sums="float", **settings)


def plan_capacity(batch: int) -> int:
    """How many slots a step of ours has."""
    return plan_steps(batch).capacity


@lru_cache(maxsize=16)
def plan_steps(batch: int) -> SamplePlan:
    """The plan that all trainers of this bench have."""
    trainer = PrivateTrainer(nn.Linear(1, 1), LOSS, batch=batch, **PLAN)
    return trainer.plan


def find_obstacle(peer: str, make_model, data, batch: int) -> str | None:
    """Why a step of Opacus cannot be timed here, or None. Hooks keep the gradients of all examples,
    and a clipped copy of the largest layer's."""
    if importlib.util.find_spec("opacus") is None:
        return "skipped, Opacus is not installed"
    if peer == "ghost":
        return None
    if data[0].device.type == "cuda":
        free = torch.cuda.mem_get_info()[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = 2 * 4 * batch * sum(parameter.numel() for parameter in make_model().parameters())
    if needed <= free:
        return None
    return f"skipped, it needs about {needed / 2**30:.0f} GiB and {free / 2**30:.0f} are free"


def make_opacus(make_model, data, batch: int) -> Step:
    """A step of Opacus with ghost clipping, on batches of the mean size."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    model = GradSampleModuleFastGradientClipping(
        make_model().to(data[0].device), max_grad_norm=1.0, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=0.1),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=batch,
    )
    loss = DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss())
    return make_plain(model, optimizer, loss, data, batch)


def make_hooks(make_model, data, batch: int) -> Step:
    """A step of Opacus with hooks, which form every example's gradient."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(make_model().to(data[0].device))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=batch,
    )
    return make_plain(model, optimizer, LOSS, data, batch)
