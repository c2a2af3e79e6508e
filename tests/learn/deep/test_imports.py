"""What deep learning needs: PyTorch, and of dither's dependencies those of accountant and noise."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.all
PROGRAM = """
import sys
for name in ("duckdb", "sqlglot", "pyarrow", "yaml", "typer", "rich", "pandas", "sklearn"):
    sys.modules[name] = None  # an import of it fails
import torch
from dither.learn.deep import PrivateTrainer, add_adapters, plan_votes, repair_model
from dither.learn.deep.features import ScatteringFeatures
from dither.learn.deep.progress import PlanProgress

torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
trainer = PrivateTrainer(
    model, torch.nn.CrossEntropyLoss(), n=20, epsilon=1, delta=1e-5, epochs=1, batch=10
)
trainer.fit((torch.rand(20, 4), torch.arange(20) % 2))
assert trainer.guarantee.epsilon <= 1
assert "library guarantee" in trainer.write_model_card(purpose="a test")
"""


def test_training_needs_no_engine_and_no_other_extra() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
