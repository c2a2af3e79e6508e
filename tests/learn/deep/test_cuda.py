"""The trainer on a CUDA device, where there is one: the same sums as on the CPU, recorded steps,
noise there, and kernels that add in an order of their own refused."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep.clipping import find_weights
from dither.learn.deep.contributions import CANCELLATION, OuterProducts
from dither.learn.deep.device_noise import DeviceNoiseDrawer
from dither.learn.deep.float_error import bound_roundings
from dither.learn.deep.integer_sums import can_add_integers
from dither.learn.deep.precision import wide_sums
from tests.learn.deep.runs import find_distance, make_trainer, sum_slots
from tests.learn.deep.test_audit import audit, make_linear

pytestmark = pytest.mark.all
CUDA = torch.device("cuda")


def make_models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(1)
    tokens = torch.randint(0, 9, (40, 12))
    wide = nn.Sequential(nn.Unflatten(1, (6, 2)), nn.Linear(2, 150), nn.Tanh(), nn.Linear(150, 90))
    return {
        "mlp": (nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(40, 12)),
        "conv": (
            nn.Sequential(
                nn.Conv2d(1, 4, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
            ),
            torch.randn(40, 1, 8, 8),
        ),
        "tokens": (nn.Sequential(nn.Embedding(9, 5), nn.Flatten(), nn.Linear(60, 3)), tokens),
        "positions": (nn.Sequential(wide, nn.Flatten(), nn.Linear(540, 3)), torch.randn(40, 12)),
    }


if torch.cuda.is_available():

    @pytest.mark.parametrize("name", make_models())
    def test_sums_are_those_of_the_cpu_but_for_rounding(name: str) -> None:
        model, rows = make_models()[name]
        targets = torch.arange(40) % 3
        units = list(range(10))
        on_cpu = sum_slots(make_trainer(deepcopy(model)), (rows, targets), units)
        there = make_trainer(deepcopy(model).to(CUDA))
        on_cuda = sum_slots(there, (rows, targets), units)
        for sums in (on_cpu, on_cuda):
            sums["steps"] = {key: value.cpu() for key, value in sums["steps"].items()}
        limit = 0.02 * on_cpu["grid"].sensitivity
        assert find_distance(on_cpu, on_cuda) < limit

    @pytest.mark.parametrize("name", make_models())
    def test_a_whole_run_trains_with_noise_of_the_device(name: str) -> None:
        model, rows = make_models()[name]
        model = model.to(CUDA)
        before = [p.detach().clone() for p in model.parameters()]
        trainer = make_trainer(model)
        tokens = trainer.batches((rows, torch.arange(40) % 3))
        trainer.step(next(tokens))
        run = trainer._run
        assert isinstance(run.release._drawer, DeviceNoiseDrawer)
        assert run.release._drawer._has_kernels
        assert run._graph is not None
        for token in tokens:
            trainer.step(token)
        assert all(
            not torch.equal(a, b) and bool(torch.isfinite(b).all())
            for a, b in zip(before, model.parameters(), strict=True)
        )
        assert trainer.guarantee.epsilon <= 2

    @pytest.mark.parametrize("settings", [{}, {"clipping": "adaptive"}, {"copies": 3}])
    def test_the_audit_of_a_run_there_stays_below_its_claim(settings) -> None:
        assert not audit(make_model=lambda: make_linear().to(CUDA), **settings).refutes(2)

    def test_the_audit_catches_a_run_there_whose_noise_is_a_hundredth(monkeypatch) -> None:
        honest_draw = DeviceNoiseDrawer.draw
        monkeypatch.setattr(
            DeviceNoiseDrawer, "draw", lambda this, sigma: honest_draw(this, sigma // 100)
        )
        assert audit(make_model=lambda: make_linear().to(CUDA)).refutes(2)

    def test_wide_layers_add_up_in_integers() -> None:
        """Kernels give the twins' numbers, and a unit with numbers that are none adds nothing."""
        assert can_add_integers(CUDA)
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randn((30, 49, 90), generator=generator)
        gradients = torch.randn((30, 49, 60), generator=generator)
        gradients[4, 5, 6] = float("nan")
        outer = OuterProducts(inputs.to(CUDA), gradients.to(CUDA), (60, 90))
        lengths = outer.lengths()
        weights = find_weights(lengths, 1.0)
        with wide_sums(CANCELLATION * 1.0):
            total = outer.add_weighted(weights, lengths.is_sane, 30).cpu()
        gradients[4] = 0
        exact = torch.einsum("u,uto,uti->oi", weights.cpu(), gradients.double(), inputs.double())
        assert not bool(lengths.is_sane[4]) and int(lengths.is_sane.sum()) == 29
        limit = 30 * float(bound_roundings([49 * 150], CANCELLATION))
        assert 0 < float((total - exact).norm()) <= limit
        formed = torch.einsum("uto,uti->uoi", gradients.double(), inputs.double())
        assert bool(
            (lengths.squares.cpu() >= formed.square().sum((1, 2)))[lengths.is_sane.cpu()].all()
        )

    def test_virtual_batches_of_a_recorded_step_add_up() -> None:
        """Without noise, every unit of a step pushes its own weight, in whatever block it is."""
        layer = nn.Linear(40, 1, bias=False).to(CUDA)
        nn.init.zeros_(layer.weight)
        trainer = make_trainer(
            layer,
            lambda outputs, _: -outputs[:, 0],
            physical_batch=7,
            batch=40,
            epochs=1,
            optimizer=torch.optim.SGD(layer.parameters(), lr=1.0),
        )
        tokens = trainer.batches((torch.eye(40), torch.zeros(40)))
        run = None
        for token in tokens:
            run = trainer._run
            honest = run.release._drawer.draw
            run.release._drawer.draw = lambda sigma, draw=honest: draw(sigma).zero_()
            trainer.step(token)
        assert run._graph is not None
        assert torch.allclose(layer.weight.cpu(), torch.full((1, 40), 1 / 40), atol=1e-4)

    def test_kernels_without_a_fixed_order_are_refused_where_proved() -> None:
        model = nn.Sequential(nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(9, 3))
        model = nn.Sequential(nn.Conv2d(1, 1, 3), model).to(CUDA)
        data = (torch.randn(40, 1, 8, 8), torch.arange(40) % 3)
        with pytest.raises(ParameterError, match="order of its own"):
            make_trainer(model).fit(data)
        make_trainer(model, sums="float").fit(data)

    def test_dropout_and_code_that_cannot_be_recorded_still_train() -> None:
        class Waiting(nn.Module):
            def forward(self, x):
                return x * (1.0 if float(x.sum().cpu()) >= -1e9 else 2.0)

        data = (torch.randn(40, 12), torch.arange(40) % 3)
        for extra in (nn.Dropout(0.5), Waiting()):
            model = nn.Sequential(nn.Linear(12, 8), extra, nn.ReLU(), nn.Linear(8, 3)).to(CUDA)
            trainer = make_trainer(model)
            trainer.fit(data)
            assert trainer.steps_done == trainer.plan.steps

    def test_correlated_noise_on_the_device() -> None:
        model, rows = make_models()["mlp"]
        for noise in ("tree", "banded"):
            trainer = make_trainer(deepcopy(model).to(CUDA), noise=noise)
            trainer.fit((rows, torch.arange(40) % 3))
            assert trainer.guarantee.epsilon <= 2
