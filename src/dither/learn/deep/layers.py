"""Closed forms of layers: from the input of a call and the gradient of its output, what every unit
adds to the gradient of each parameter.

Each function takes the call and returns pairs (parameter, contribution). Rows of one unit lie side
by side and are its first positions, so that augmentations and the examples of one person are added
up before anything is clipped. Proof: docs/proofs/deep-learning.md#layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dither.learn.deep.contributions import EmbeddingRows, Formed, OuterProducts

Use = tuple[nn.Parameter, OuterProducts | EmbeddingRows | Formed]


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer: its input, and the gradient of the summed loss by its output."""

    layer: nn.Module
    value: Tensor
    gradient: Tensor
    units: int

    def positions(self, values: Tensor) -> Tensor:
        """Values as (units, positions, width): all dimensions between are positions."""
        return values.reshape(self.units, -1, values.shape[-1])


def is_trained(parameter: nn.Parameter | None) -> bool:
    """Whether a parameter is there and not frozen."""
    return parameter is not None and parameter.requires_grad


def linear(call: LayerCall) -> Iterator[Use]:
    """y = x W' + b: products of inputs and gradients, and sums of gradients."""
    layer = call.layer
    assert isinstance(layer, nn.Linear)
    gradients = call.positions(call.gradient)
    if is_trained(layer.weight):
        inputs = call.positions(call.value)
        yield layer.weight, OuterProducts(inputs, gradients, tuple(layer.weight.shape))
    if is_trained(layer.bias):
        yield layer.bias, Formed(gradients.sum(1))


def embedding(call: LayerCall) -> Iterator[Use]:
    """Rows of a table; the padding row learns nothing."""
    layer = call.layer
    assert isinstance(layer, nn.Embedding)
    places = call.value.reshape(call.units, -1)
    gradients = call.gradient.reshape(call.units, -1, call.gradient.shape[-1])
    if layer.padding_idx is not None:
        is_padding = (places == layer.padding_idx)[..., None]
        gradients = gradients.masked_fill(is_padding, 0)
    if is_trained(layer.weight):
        yield layer.weight, EmbeddingRows(places, gradients, tuple(layer.weight.shape)).merge()


def convolution(call: LayerCall) -> Iterator[Use]:
    """A convolution is a linear layer on patches: every place of the output is a position."""
    layer = call.layer
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))
    gradients = call.gradient.flatten(2)
    if is_trained(layer.bias):
        assert layer.bias is not None
        sums = gradients.sum(2).reshape(call.units, -1, gradients.shape[1])
        yield layer.bias, Formed(sums.sum(1))
    if is_trained(layer.weight):
        padded = _pad(layer, call.value)
        if has_last_channels(layer, padded):
            yield layer.weight, _multiply_last(call, layer, padded, gradients.mT)
        else:
            patches = _unfold(layer, padded)
            yield layer.weight, _multiply_patches(call, layer, patches, gradients.mT)


def _pad(layer: nn.Conv1d | nn.Conv2d, value: Tensor) -> Tensor:
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return functional.pad(value, layer._reversed_padding_repeated_twice, mode=mode)


def has_last_channels(layer: nn.Conv1d | nn.Conv2d, padded: Tensor) -> bool:
    """Whether channels lie last in memory, so that patches are copied in long runs."""
    return (
        isinstance(layer, nn.Conv2d)
        and layer.groups == 1
        and padded.shape[1] > 1
        and padded.is_contiguous(memory_format=torch.channels_last)
    )


def _multiply_last(
    call: LayerCall, layer: nn.Conv1d | nn.Conv2d, padded: Tensor, gradients: Tensor
) -> OuterProducts:
    """Products of gradients with patches whose channels lie last."""
    sizes = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    patches = padded.permute(0, 2, 3, 1)
    for axis, (kernel, stride, dilation) in enumerate(sizes, 1):
        patches = patches.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    flat = patches.permute(0, 1, 2, 4, 5, 3).flatten(3).flatten(1, 2)
    out, channels, height, width = layer.weight.shape
    shape = (out, height, width, channels)
    return OuterProducts(call.positions(flat), call.positions(gradients), shape, (0, 3, 1, 2))


def _unfold(layer: nn.Conv1d | nn.Conv2d, padded: Tensor) -> Tensor:
    """Patches (rows, places, channels * kernel) of a padded input."""
    if isinstance(layer, nn.Conv1d):
        padded = padded[:, :, None]
    kernel, stride, dilation = (
        (1,) * (2 - len(numbers)) + tuple(numbers)
        for numbers in (layer.kernel_size, layer.stride, layer.dilation)
    )
    if dilation != (1, 1):
        return functional.unfold(padded, kernel, dilation=dilation, stride=stride).mT
    patches = padded.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1])
    return patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)  # faster than unfold


def _multiply_patches(
    call: LayerCall, layer: nn.Conv1d | nn.Conv2d, patches: Tensor, gradients: Tensor
) -> OuterProducts | Formed:
    """Products of patches and gradients; with groups, each group of channels by itself."""
    shape = tuple(layer.weight.shape)
    if layer.groups == 1:
        return OuterProducts(call.positions(patches), call.positions(gradients), shape)
    formed = []
    for few_patches, few_gradients in zip(
        patches.chunk(layer.groups, 2), gradients.chunk(layer.groups, 2), strict=True
    ):
        outer = OuterProducts(
            call.positions(few_patches),
            call.positions(few_gradients),
            (shape[0] // layer.groups, *shape[1:]),
        )
        formed.append(outer.form().values)
    return Formed(torch.cat(formed, 1))


def layer_norm(call: LayerCall) -> Iterator[Use]:
    """Scale and shift of normalised inputs, over the last dimensions."""
    layer = call.layer
    assert isinstance(layer, nn.LayerNorm)
    normal = functional.layer_norm(call.value, layer.normalized_shape, None, None, layer.eps)
    yield from _scale_and_shift(call, layer.weight, layer.bias, normal * call.gradient)


def rms_norm(call: LayerCall) -> Iterator[Use]:
    """Scale of inputs over their root mean square."""
    layer = call.layer
    assert isinstance(layer, nn.RMSNorm)
    normal = functional.rms_norm(call.value, layer.normalized_shape, None, layer.eps)
    yield from _scale_and_shift(call, layer.weight, None, normal * call.gradient)


def _scale_and_shift(
    call: LayerCall, weight: nn.Parameter | None, bias: nn.Parameter | None, product: Tensor
) -> Iterator[Use]:
    """Contributions of parameters that are multiplied and added elementwise in last dimensions."""
    if weight is not None and is_trained(weight):
        yield weight, Formed(product.reshape(call.units, -1, *weight.shape).sum(1))
    if bias is not None and is_trained(bias):
        yield bias, Formed(call.gradient.reshape(call.units, -1, *bias.shape).sum(1))


def group_norm(call: LayerCall) -> Iterator[Use]:
    """Scale and shift of channels."""
    layer = call.layer
    assert isinstance(layer, nn.GroupNorm)
    normal = functional.group_norm(call.value, layer.num_groups, None, None, layer.eps)
    yield from _scale_channels(call, layer.weight, layer.bias, normal)


def instance_norm(call: LayerCall) -> Iterator[Use]:
    """Scale and shift of channels that are normalised one by one."""
    layer = call.layer
    assert isinstance(layer, (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d))
    normal = functional.instance_norm(call.value, eps=layer.eps)
    yield from _scale_channels(call, layer.weight, layer.bias, normal)


def _scale_channels(
    call: LayerCall, weight: nn.Parameter | None, bias: nn.Parameter | None, normal: Tensor
) -> Iterator[Use]:
    """Contributions of parameters that hold one number for each channel."""
    for parameter, product in ((weight, normal * call.gradient), (bias, call.gradient)):
        if parameter is not None and is_trained(parameter):
            sums = product.flatten(2).sum(2) if product.dim() > 2 else product
            yield parameter, Formed(sums.reshape(call.units, -1, len(parameter)).sum(1))


CLOSED_FORMS: dict[type[nn.Module], Callable[[LayerCall], Iterator[Use]]] = {
    nn.Linear: linear,
    nn.Embedding: embedding,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
    nn.InstanceNorm1d: instance_norm,
    nn.InstanceNorm2d: instance_norm,
    nn.InstanceNorm3d: instance_norm,
}
"""By exact type: a subclass may compute anything."""
