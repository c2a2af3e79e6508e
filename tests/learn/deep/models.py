"""Small models: one for each layer with a closed form, and combinations."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from dither.learn.deep import repair_model
from dither.learn.deep.private_layers import StandardisedConv2d, TemperedSigmoid


class Tied(nn.Module):
    """One linear layer that is used three times."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.linear(x))
        return self.head(x)


class TiedWeight(nn.Module):
    """Two layers with one weight, which is the table of tokens too."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 6)
        self.middle = nn.Linear(6, 6)
        self.output = nn.Linear(6, 7, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, x):
        return self.output(torch.tanh(self.middle(self.tokens(x)))).mean(1)


class OutsideUse(nn.Module):
    """A weight that is also used without its layer: closed forms do not see that use."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return functional.linear(torch.tanh(self.linear(x)), self.linear.weight)[:, :3]


class OwnParameter(nn.Module):
    """A parameter of no known layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x):
        return self.linear(x * self.scale)


class Last(nn.Module):
    """The last output of a recurrent layer, to three numbers."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Attention(nn.Module):
    """Attention of a sequence to itself, then a mean."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True, **options)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.norm(x + self.attention(x, x, x)[0]).mean(1))


class SeveralInputs(nn.Module):
    """Embedded tokens, a position table, an encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 8, padding_idx=0)
        self.places = nn.Embedding(5, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = repair_model(layer)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device).expand_as(x)
        return self.head(self.encoder(self.tokens(x) + self.places(places)).mean(1))


def flat(*layers: nn.Module, width: int) -> nn.Sequential:
    """Layers, then three numbers."""
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, 3))


def freeze(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


VECTOR, SEQUENCE, IMAGE, TOKENS = (6,), (5, 6), (4, 8, 8), (5,)
CLOSED = {
    "linear": (lambda: nn.Linear(6, 3), VECTOR),
    "linear without bias": (lambda: nn.Linear(6, 3, bias=False), VECTOR),
    "linear on a sequence": (lambda: flat(nn.Linear(6, 4), nn.Tanh(), width=20), SEQUENCE),
    "wide linear on a sequence": (
        lambda: flat(nn.Linear(6, 99), nn.Tanh(), nn.Linear(99, 99), width=495),
        SEQUENCE,
    ),
    "in place": (
        lambda: nn.Sequential(nn.Linear(6, 9), nn.ReLU(inplace=True), nn.Linear(9, 3)),
        VECTOR,
    ),
    "conv": (lambda: flat(nn.Conv2d(4, 6, 3), nn.ReLU(), width=216), IMAGE),
    "conv with stride and padding": (
        lambda: flat(nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 2)), width=144),
        IMAGE,
    ),
    "conv with dilation": (lambda: flat(nn.Conv2d(4, 6, 3, dilation=2), width=96), IMAGE),
    "conv with groups": (lambda: flat(nn.Conv2d(4, 6, 3, groups=2), width=216), IMAGE),
    "depthwise conv": (lambda: flat(nn.Conv2d(4, 4, 3, groups=4, bias=False), width=144), IMAGE),
    "conv that reflects": (
        lambda: flat(nn.Conv2d(4, 5, 3, padding=1, padding_mode="reflect"), width=320),
        IMAGE,
    ),
    "conv with padding same": (lambda: flat(nn.Conv2d(4, 5, 4, padding="same"), width=320), IMAGE),
    "conv with few places": (
        lambda: flat(nn.MaxPool2d(2), nn.Conv2d(4, 40, 3), nn.Conv2d(40, 80, 2), width=80),
        IMAGE,
    ),
    "conv of a sequence": (
        lambda: flat(nn.Conv1d(5, 7, 3, stride=2, padding=1, dilation=2), nn.Tanh(), width=14),
        SEQUENCE,
    ),
    "embedding": (lambda: flat(nn.Embedding(4, 6), width=30), TOKENS),
    "embedding with padding": (lambda: flat(nn.Embedding(4, 6, padding_idx=1), width=30), TOKENS),
    "layer norm": (lambda: flat(nn.LayerNorm(6), width=30), SEQUENCE),
    "layer norm of two dimensions": (lambda: flat(nn.LayerNorm((5, 6)), width=30), SEQUENCE),
    "rms norm": (lambda: flat(nn.RMSNorm(6), width=30), SEQUENCE),
    "group norm": (lambda: flat(nn.GroupNorm(2, 4), width=256), IMAGE),
    "group norm of vectors": (lambda: flat(nn.GroupNorm(2, 6), width=6), VECTOR),
    "instance norm": (lambda: flat(nn.InstanceNorm2d(4, affine=True), width=256), IMAGE),
    "several layers": (
        lambda: flat(
            nn.Conv2d(4, 8, 3),
            nn.GroupNorm(4, 8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3),
            nn.Tanh(),
            width=16,
        ),
        IMAGE,
    ),
    "tied": (Tied, VECTOR),
    "tied weight": (TiedWeight, TOKENS),
    "live bias": (
        lambda: freeze(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)), "0.weight"),
        VECTOR,
    ),
    "live weight": (
        lambda: freeze(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)), "0.bias"),
        VECTOR,
    ),
    "live bias of a conv": (
        lambda: freeze(flat(nn.Conv2d(4, 6, 3), nn.ReLU(), width=216), "0.weight"),
        IMAGE,
    ),
    "attention": (lambda: repair_model(Attention()), SEQUENCE),
    "attention with other keys": (lambda: repair_model(Attention(kdim=6, bias=False)), SEQUENCE),
    "lstm": (lambda: repair_model(Last(nn.LSTM(6, 4, batch_first=True), 4)), SEQUENCE),
    "deep lstm in two directions": (
        lambda: repair_model(
            Last(nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True), 8)
        ),
        SEQUENCE,
    ),
    "gru": (lambda: repair_model(Last(nn.GRU(6, 4, batch_first=True), 4)), SEQUENCE),
    "encoder": (SeveralInputs, TOKENS),
}
"""Models that the book-keeper must know, with the shape of an input."""
OTHERS = {
    "outside use": (OutsideUse, VECTOR),
    "own parameter": (OwnParameter, VECTOR),
    "transposed conv": (lambda: flat(nn.ConvTranspose2d(4, 3, 3, stride=2), width=867), IMAGE),
    "prelu": (lambda: nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3)), VECTOR),
    "attention of torch": (Attention, SEQUENCE),
    "standardised conv": (
        lambda: flat(StandardisedConv2d(4, 6, 3), TemperedSigmoid(1.5), width=216),
        IMAGE,
    ),
}
"""Models for which vmap must step in."""


def make_rows(shape: tuple[int, ...], rows: int, seed: int = 3):
    """Inputs of very different sizes, so that some gradients are clipped and some are not."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 3, (rows,), generator=generator)
    if shape == TOKENS:
        return torch.randint(0, 4, (rows, *shape), generator=generator), targets
    sizes = 10.0 ** torch.linspace(-2, 0.5, rows)
    inputs = torch.randn((rows, *shape), generator=generator)
    return inputs * sizes.reshape(-1, *[1] * len(shape)), targets
