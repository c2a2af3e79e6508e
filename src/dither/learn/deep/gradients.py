"""Per-unit gradients of a model: by closed forms where every layer has one, else by vmap.

Book-keeping: one forward pass, one backward pass to the outputs of layers (never to parameters),
then each unit's contribution from inputs and gradients. `torch.func.vmap` forms whole gradients for
models with other layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad, vmap

from dither.learn.deep.contributions import Contribution, EmbeddingRows, Formed, OuterProducts, join
from dither.learn.deep.forms import Forms
from dither.learn.deep.layers import CLOSED_FORMS, LayerCall

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""Outputs and targets of rows to one loss for each row."""
Contributions = dict[str, Contribution]


def list_trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name; a tied one once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def has_closed_forms(model: nn.Module) -> bool:
    """Whether every trained parameter belongs to layers with a closed form alone."""
    for layer in model.modules():
        direct = list(layer.parameters(recurse=False))
        if any(p.requires_grad for p in direct) and type(layer) not in CLOSED_FORMS:
            return False
        if type(layer) is nn.Embedding and (layer.max_norm is not None or layer.sparse):
            return False
    return not any(getattr(layer, "parametrizations", None) for layer in model.modules())


def lay_channels_last(rows: Tensor) -> Tensor:
    """Images in another order in memory, which layers keep; other rows as they are."""
    if rows.dim() != 4 or not rows.dtype.is_floating_point:
        return rows
    laid = torch.empty(
        rows.shape, dtype=rows.dtype, device=rows.device, memory_format=torch.channels_last
    )
    return laid.copy_(rows)


class BookKeeper:
    """Runs a model and keeps what closed forms need: inputs and outputs of layers."""

    def __init__(self, model: nn.Module, loss: LossFunction, forms: Forms | None = None) -> None:
        self._model = model
        self._loss = loss
        self._forms = Forms() if forms is None else forms
        self.trained = list_trained(model)
        self._names = {parameter: name for name, parameter in self.trained.items()}
        self._calls: list[tuple[nn.Module, Tensor, GradientEdge]] = []

    def find(self, rows: Tensor, targets: Tensor, row_weights: Tensor, units: int) -> Contributions:
        """Contributions of `units` units, whose rows lie side by side, for every parameter."""
        return self.find_with_losses(rows, targets, row_weights, units, keep_graph=False)[0]

    def find_with_losses(
        self,
        rows: Tensor,
        targets: Tensor,
        row_weights: Tensor,
        units: int,
        *,
        keep_graph: bool,
    ) -> tuple[Contributions, Tensor]:
        """Contributions, and the weighted loss of every row, to differentiate once more."""
        self._calls.clear()
        if self._forms.is_channels_last:
            rows = lay_channels_last(rows)
        with self._listening():
            losses = self._loss(self._model(rows), targets) * row_weights
        edges = [edge for _, _, edge in self._calls]
        gradients = torch.autograd.grad(
            losses.sum(), edges, allow_unused=True, retain_graph=keep_graph
        )
        uses: dict[str, list[OuterProducts | EmbeddingRows | Formed]] = {}
        with torch.no_grad(), torch.autocast(rows.device.type, enabled=False):
            for (layer, value, _), gradient in zip(self._calls, gradients, strict=True):
                if gradient is not None:
                    call = LayerCall(layer, _widen(value), _widen(gradient), units)
                    self._note(call, uses)
            self._calls.clear()
            is_formed = self._forms.is_formed
            joined = {name: join(several, is_formed.get(name)) for name, several in uses.items()}
            return joined, losses

    def _note(
        self, call: LayerCall, uses: dict[str, list[OuterProducts | EmbeddingRows | Formed]]
    ) -> None:
        for parameter, contribution in CLOSED_FORMS[type(call.layer)](call):
            uses.setdefault(self._names[parameter], []).append(contribution)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Hooks on all layers with trained parameters, for one forward pass."""
        with ExitStack() as hooks:
            for layer in self._model.modules():
                if any(p.requires_grad for p in layer.parameters(recurse=False)):
                    hooks.callback(layer.register_forward_hook(self._keep).remove)
            yield

    def _keep(self, layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        # the edge stays that of this output where a later layer works in place
        self._calls.append((layer, inputs[0].detach(), get_gradient_edge(output)))


class Vmapper:
    """Whole gradients of every unit, by vmap over the model."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        self._model = model
        self._loss = loss

    def find(self, rows: Tensor, targets: Tensor, row_weights: Tensor, units: int) -> Contributions:
        """Contributions of `units` units, whose rows lie side by side, for every parameter."""
        trained = {name: p.detach() for name, p in list_trained(self._model).items()}

        def measure(parameters: dict[str, Tensor], x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
            outputs = functional_call(self._model, parameters, (x,), tie_weights=True)
            return (self._loss(outputs, y) * weights).sum()

        split = [part.reshape(units, -1, *part.shape[1:]) for part in (rows, targets, row_weights)]
        gradients = vmap(grad(measure), (None, 0, 0, 0), randomness="different")(trained, *split)
        return {name: Formed(_widen(values)) for name, values in gradients.items()}


def _widen(values: Tensor) -> Tensor:
    """Half precisions as float32: sums of products are never taken in less."""
    is_half = values.dtype in (torch.float16, torch.bfloat16)
    return values.to(torch.float32) if is_half else values


def choose_method(model: nn.Module, loss: LossFunction) -> BookKeeper | Vmapper:
    """The book-keeper where it knows every layer, else vmap."""
    return BookKeeper(model, loss) if has_closed_forms(model) else Vmapper(model, loss)
