"""Models made fit for private training: layers that mix examples or have no closed form are
replaced.

`repair_model` copies a model. Batch norm becomes group norm, which is another function (train it
anew); attention, LSTM and GRU become the same function made of linear layers, with their weights.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from dither.errors import ParameterError

_LARGEST_GROUP_COUNT = 32


def repair_model(model: nn.Module) -> nn.Module:
    """A copy of a model with layers that can be trained privately."""
    repaired = copy.deepcopy(model)
    for parent in list(repaired.modules()):
        for name, layer in list(parent.named_children()):
            replacement = _replace(layer)
            if replacement is not None:
                replacement.train(layer.training)
                setattr(parent, name, replacement)
    whole = _replace(repaired)
    return repaired if whole is None else whole


def _replace(layer: nn.Module) -> nn.Module | None:
    """What stands for a layer; None where it may stay."""
    if isinstance(layer, _BatchNorm):
        return _make_group_norm(layer)
    if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats:
        return type(layer)(layer.num_features, layer.eps, affine=layer.affine)
    if type(layer) is nn.MultiheadAttention:
        return SplitAttention(layer)
    if type(layer) in (nn.LSTM, nn.GRU):
        return SplitRecurrence(layer)
    return None


def _make_group_norm(layer: Any) -> nn.GroupNorm:
    """Group norm over the same channels, with as many groups as divide them, at most 32."""
    channels = layer.num_features
    groups = math.gcd(channels, _LARGEST_GROUP_COUNT)
    replacement = nn.GroupNorm(groups, channels, layer.eps, affine=layer.affine)
    if layer.affine:
        replacement.load_state_dict({"weight": layer.weight.detach(), "bias": layer.bias.detach()})
    return replacement


def _make_linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer with these weights, frozen where they are."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.to(weight.device, weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    layer.weight.requires_grad_(weight.requires_grad)
    return layer


class SplitAttention(nn.Module):
    """`nn.MultiheadAttention` by four linear layers, for query, key, value and output."""

    _qkv_same_embed_dim = False  # torch's encoder layer then takes no short cut past the layers
    in_proj_bias = None

    def __init__(self, layer: nn.MultiheadAttention) -> None:
        super().__init__()
        if layer.bias_k is not None or layer.add_zero_attn:
            raise ParameterError("attention with added keys has no replacement: leave them out")
        if layer.in_proj_weight is not None:
            weights = layer.in_proj_weight.chunk(3)
        else:
            weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        biases = (None,) * 3 if layer.in_proj_bias is None else layer.in_proj_bias.chunk(3)
        self.query, self.key, self.value = map(_make_linear, weights, biases)
        self.output = _make_linear(layer.out_proj.weight, layer.out_proj.bias)
        self.heads = layer.num_heads
        self.dropout = layer.dropout
        self.batch_first = layer.batch_first

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """Attend; weights of attention are not given back."""
        if not self.batch_first:
            query, key, value = (values.transpose(0, 1) for values in (query, key, value))
        mask = _read_mask(attn_mask, query.dtype)
        if key_padding_mask is not None:
            padding = _read_mask(key_padding_mask, query.dtype)[:, None, None, :]
            mask = padding if mask is None else mask + padding
        heads = (
            self._split(self.query(query)),
            self._split(self.key(key)),
            self._split(self.value(value)),
        )
        share = self.dropout if self.training else 0.0
        is_causal = is_causal and mask is None
        mixed = functional.scaled_dot_product_attention(*heads, mask, share, is_causal)
        output = self.output(mixed.transpose(1, 2).flatten(2))
        return (output if self.batch_first else output.transpose(0, 1)), None

    def _split(self, values: Tensor) -> Tensor:
        return values.unflatten(2, (self.heads, -1)).transpose(1, 2)


def _read_mask(mask: Tensor | None, dtype: torch.dtype) -> Any:
    """A mask as numbers to add: minus infinity where a boolean one forbids."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


class SplitRecurrence(nn.Module):
    """`nn.LSTM` or `nn.GRU` by linear layers: one for inputs and one for the state of each layer
    and direction."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        if getattr(layer, "proj_size", 0):
            raise ParameterError("an LSTM with proj_size has no replacement: project by a linear")
        self.is_lstm = type(layer) is nn.LSTM
        self.batch_first = layer.batch_first
        self.hidden_size = layer.hidden_size
        self.dropout = layer.dropout
        self.directions = 2 if layer.bidirectional else 1
        self.of_inputs = nn.ModuleList()
        self.of_states = nn.ModuleList()
        for depth in range(layer.num_layers):
            for suffix in ("", "_reverse")[: self.directions]:
                for kind, layers in (("ih", self.of_inputs), ("hh", self.of_states)):
                    weight = getattr(layer, f"weight_{kind}_l{depth}{suffix}")
                    bias = getattr(layer, f"bias_{kind}_l{depth}{suffix}", None)
                    layers.append(_make_linear(weight, bias))

    def forward(self, values: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Outputs of all times, and the last state, as torch's own layer gives them."""
        sequence = values if self.batch_first else values.transpose(0, 1)
        memory = self._begin(sequence, state)
        finals = []
        for depth in range(0, len(self.of_inputs), self.directions):
            if depth and self.dropout:
                sequence = functional.dropout(sequence, self.dropout, self.training)
            runs = []
            for index in range(depth, depth + self.directions):
                outputs, final = self._run(index, sequence, [part[index] for part in memory])
                runs.append(outputs)
                finals.append(final)
            sequence = torch.cat(runs, 2)
        last = tuple(torch.stack(part) for part in zip(*finals, strict=True))
        output = sequence if self.batch_first else sequence.transpose(0, 1)
        return output, (last if self.is_lstm else last[0])

    def _begin(self, sequence: Tensor, state: Any) -> tuple[Tensor, ...]:
        if state is not None:
            return state if self.is_lstm else (state,)
        zeros = sequence.new_zeros(len(self.of_inputs), len(sequence), self.hidden_size)
        return (zeros, zeros) if self.is_lstm else (zeros,)

    def _run(
        self, index: int, sequence: Tensor, state: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """One layer in one direction."""
        is_reverse = index % self.directions == 1
        gates = self.of_inputs[index](sequence)
        outputs = []
        times = range(sequence.shape[1])
        for time in reversed(times) if is_reverse else times:
            step = self._step_lstm if self.is_lstm else self._step_gru
            state = step(gates[:, time], self.of_states[index](state[0]), state)
            outputs.append(state[0])
        if is_reverse:
            outputs.reverse()
        return torch.stack(outputs, 1), state

    def _step_lstm(self, of_input: Tensor, of_state: Tensor, state: list[Tensor]) -> list[Tensor]:
        entry, forget, cell, exit_gate = (of_input + of_state).chunk(4, 1)
        memory = forget.sigmoid() * state[1] + entry.sigmoid() * cell.tanh()
        return [exit_gate.sigmoid() * memory.tanh(), memory]

    def _step_gru(self, of_input: Tensor, of_state: Tensor, state: list[Tensor]) -> list[Tensor]:
        reset_x, update_x, new_x = of_input.chunk(3, 1)
        reset_h, update_h, new_h = of_state.chunk(3, 1)
        update = (update_x + update_h).sigmoid()
        new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
        return [(1 - update) * new + update * state[0]]
