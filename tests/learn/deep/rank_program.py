"""One rank of a run over two processes, for `test_ranks.py`: rank, store, mode; prints JSON."""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
import torch.distributed as distributed
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep import PrivateTrainer
from dither.learn.deep.noise import NoiseDrawer
from dither.learn.deep.rows import RowStore

UNITS = 30
ROWS_PER_UNIT = 2


def run(rank: int, store: str, mode: str) -> dict[str, object]:
    """Train on canaries, and say which units this rank saw and which weights it has."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    seen: list[list[int]] = []
    drawn = [0]
    honest_gather, honest_draw = RowStore.gather, NoiseDrawer.draw

    def gather(this, slots):
        seen.append([int(unit) for unit in slots if unit >= 0])
        return honest_gather(this, slots)

    def draw(this, sigma):
        drawn[0] += 1
        noise = honest_draw(this, sigma)
        return noise if mode == "noise" else np.zeros_like(noise)

    RowStore.gather, NoiseDrawer.draw = gather, draw
    layer = nn.Linear(UNITS, 1, bias=False)
    nn.init.constant_(layer.weight, float(rank))
    rows = torch.eye(UNITS).repeat_interleave(ROWS_PER_UNIT, 0) * 50
    if mode == "other rows" and rank:
        rows = rows + 1
    settings = {"noise": "banded"} if mode == "banded" else {}
    if mode == "adaptive":
        settings = {"clipping": "adaptive"}
    trainer = PrivateTrainer(
        layer,
        lambda outputs, _: -outputs[:, 0],
        n=UNITS,
        epsilon=2,
        delta="1e-5",
        epochs=2,
        batch=10,
        clip=1,
        rows_per_unit=ROWS_PER_UNIT,
        unit="person",
        optimizer=torch.optim.SGD(layer.parameters(), lr=1.0),
        process_group=distributed.group.WORLD,
        **settings,
    )
    try:
        data = (rows, torch.zeros(len(rows)))
        trainer.fit(data, owners=np.repeat(np.arange(UNITS), ROWS_PER_UNIT))
    except ParameterError as error:
        return {"refused": str(error)}
    return {
        "seen": seen,
        "weights": layer.weight[0].tolist(),
        "drawn": drawn[0],
        "clip": float(trainer.facts.clip),
        "epsilon": trainer.guarantee.epsilon,
        "sensitivity": trainer.facts.grid.sensitivity,
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), sys.argv[2], sys.argv[3])), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
