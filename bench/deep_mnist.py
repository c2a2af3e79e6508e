"""Accuracy of private models on MNIST: a linear model on scattering features.

    python bench/deep_mnist.py --mnist FOLDER [--gpu] [--json]

One run at each epsilon on the CPU (one core, minutes), five on CUDA, with the model card of the
last. FOLDER holds the four gzipped IDX files; the environment's DITHER_MNIST does as well. Settings
were not chosen on the test images: they are those that their author remembered of Tramer and Boneh
(2021), fixed before the first run.
"""

from __future__ import annotations

import gzip
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from common import line, options, report
from torch import nn

from dither.learn.deep import PrivateTrainer
from dither.learn.deep.features import ScatteringFeatures
from dither.learn.deep.progress import PlanProgress

ACCURACY = {1: 0.977, 3: 0.983}
BATCH = 4096
CHANNEL_GROUPS = 27


def read_idx(path: Path) -> np.ndarray:
    """An array of the IDX format, gzipped."""
    content = gzip.decompress(path.read_bytes())
    sizes = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def read_mnist(folder: str, device: str) -> tuple[torch.Tensor, ...]:
    """Images and labels for training and for testing."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    arrays = [read_idx(Path(folder) / f"{name}-ubyte.gz") for name in names]
    tensors = [torch.tensor(array.copy(), device=device) for array in arrays]
    return tensors[0] / 255, tensors[1].long(), tensors[2] / 255, tensors[3].long()


def make_features(images: torch.Tensor) -> torch.Tensor:
    """Scattering features of every image, normalised within it in groups of channels."""
    scattering = ScatteringFeatures(*images.shape[1:]).to(images.device)

    def show(done: int) -> None:
        if done % 8_000 == 0 or done == len(images):
            print(f"features of {done:,} of {len(images):,} images", file=sys.stderr, flush=True)

    features = scattering(images, show)
    return nn.functional.group_norm(features, CHANNEL_GROUPS).flatten(1)


def measure_mnist(folder: str, device: str, runs: int) -> list[dict[str, object]]:
    """Accuracy of a private linear model on scattering features, by epsilon."""
    images, labels, test_images, test_labels = read_mnist(folder, device)
    start = time.process_time()
    train = make_features(images), labels
    test = make_features(test_images)
    print(f"features: {time.process_time() - start:.0f} CPU seconds", flush=True)
    lines: list[dict[str, object]] = []
    for epsilon, target in ACCURACY.items():
        start = time.process_time()
        scores = []
        for _ in range(runs):
            trainer = train_linear(train, epsilon)
            with torch.no_grad():
                is_right = trainer.model(test).argmax(1) == test_labels
            scores.append(float(is_right.float().mean()))
        taken = time.process_time() - start
        entry = line(f"MNIST accuracy, epsilon {epsilon}", statistics.fmean(scores), target, 1)
        lines.append(entry | {"unit": "", "ok": statistics.fmean(scores) >= target})
        rounded = [round(score, 4) for score in scores]
        print(f"epsilon {epsilon}: {rounded}, {taken:.0f} CPU seconds", flush=True)
    print(trainer.write_model_card(purpose="Read handwritten digits"), flush=True)
    return lines


def train_linear(train: tuple[torch.Tensor, torch.Tensor], epsilon: int) -> PrivateTrainer:
    """One private fit: clip 0.1, 25 or 40 epochs, momentum 0.9."""
    rows, width = train[0].shape
    model = nn.Linear(width, 10).to(train[0].device)
    trainer = PrivateTrainer(
        model,
        nn.CrossEntropyLoss(),
        n=rows,
        epsilon=epsilon,
        delta=1e-5,
        epochs=40 if epsilon > 1 else 25,
        batch=BATCH,
        clip=0.1,
        optimizer=torch.optim.SGD(model.parameters(), lr=4.0 if epsilon > 1 else 2.0, momentum=0.9),
    )
    return trainer.fit(train, progress=PlanProgress(trainer, steps=trainer.plan.steps))


def pin_to_one_core() -> None:
    """Compute on one core, with one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)


def main() -> None:
    chosen = options("deep learning with DP on MNIST", "gpu", folder="mnist")
    folder = chosen.mnist or os.environ["DITHER_MNIST"]
    if chosen.gpu:
        lines = measure_mnist(folder, "cuda", 5)
    else:
        pin_to_one_core()
        lines = measure_mnist(folder, "cpu", 1)
    report("deep_mnist", lines, ("torch", "numpy"), as_json=chosen.json)


if __name__ == "__main__":
    main()
