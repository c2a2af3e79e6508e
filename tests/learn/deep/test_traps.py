"""Mistakes that void a guarantee, each tried here: refused, or shown to be harmless."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction as F
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, TensorDataset

from dither import accounting
from dither.errors import ParameterError
from dither.learn.deep import PrivateTrainer, compose_trials, repair_model
from dither.learn.deep.noise import NoiseDrawer
from dither.learn.deep.trainer import StepToken
from tests.learn.deep.models import CLOSED, VECTOR, flat, make_rows
from tests.learn.deep.runs import COMMON, Recorder, find_distance, make_trainer, sum_slots

pytestmark = pytest.mark.all
DATA = make_rows(VECTOR, 40)


def linear() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))


class Cached(nn.Module):
    """A layer that keeps tensors which are no buffers, as layers with rotating positions do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.angles = torch.ones(6)
        self.by_length = {6: torch.ones(6)}

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.linear(rows * self.angles * self.by_length[6])


@pytest.mark.parametrize("name", ["angles", "by_length"])
def test_a_cache_that_is_made_anew_ends_a_recorded_graph(name: str) -> None:
    """The graph would read the old one's memory, whatever lies there by then. Planted: only
    parameters and buffers are looked at."""
    trainer = make_trainer(Cached())
    run = trainer._begin(DATA, None)

    class Graph:
        def sum_units(self, store, slots):
            raise AssertionError("the graph was used")

    run._graph = Graph()
    slots = np.arange(run._stage.slots)
    with pytest.raises(AssertionError, match="used"):
        run._sum_slots(slots)
    kept = getattr(trainer.model, name)
    anew = {6: torch.ones(6)} if isinstance(kept, dict) else torch.ones(6)
    setattr(trainer.model, name, anew)
    assert run._sum_slots(slots).sums.keys() == {"linear.weight", "linear.bias"}
    assert run._graph is None
    run.close()


class MeanCentred(nn.Module):
    """A layer of the user's own that subtracts the mean of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x):
        hidden = self.linear(x)
        return hidden - hidden.mean(0)


class Remembering(nn.Module):
    """Keeps a running mean of its inputs, which would leave with the state of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0).detach(), alpha=0.1)
        return self.linear(x)


@pytest.mark.parametrize(
    "make_model",
    [
        lambda: flat(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), width=216),
        lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
        lambda: flat(nn.InstanceNorm2d(4, affine=True, track_running_stats=True), width=256),
    ],
)
def test_layers_that_mix_examples_are_refused_and_repaired(make_model) -> None:
    model = make_model()
    with pytest.raises(ParameterError, match="repair_model"):
        make_trainer(model)
    make_trainer(repair_model(model))


@pytest.mark.parametrize("model", [MeanCentred(), Remembering()])
def test_mixing_that_no_list_names_is_refused_before_a_row_is_used(model) -> None:
    trainer = make_trainer(model)
    with pytest.raises(ParameterError, match="mixes them|keep values of examples"):
        trainer.fit(DATA)
    assert trainer.steps_done == 0


class SometimesCentred(nn.Module):
    """Mixes rows by a coin of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, rows):
        is_mixed = torch.rand(1) < 0.5
        return self.linear(rows - rows.mean(0) if is_mixed else rows)


def test_mixing_by_a_coin_is_refused() -> None:
    """Closed forms are given up, since slots mix; vmap cannot run such a layer."""
    with pytest.raises(ParameterError, match="mixes them|does not run"):
        make_trainer(SometimesCentred()).fit(DATA)


def test_an_augmentation_sees_one_unit_at_a_time() -> None:
    seen = set()

    def augment(rows):
        seen.add(len(rows))
        return rows

    make_trainer(linear(), augment=augment, augmentations=2).fit(DATA)
    assert seen == {2}


def test_a_model_that_changed_since_its_rehearsal_is_refused() -> None:
    model = linear().eval()
    trainer = make_trainer(model)
    tokens = trainer.batches(DATA)
    token = next(tokens)
    model.train()
    with pytest.raises(ParameterError, match="changed since its rehearsal"):
        trainer.step(token)
    tokens.close()


def test_a_forked_trainer_makes_no_step(monkeypatch) -> None:
    trainer = make_trainer(linear())
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(ParameterError, match="belongs to the process"):
        trainer.fit(DATA)


def test_a_loss_that_mixes_examples_is_refused() -> None:
    def contrast(outputs, targets):
        return (outputs - outputs.mean(0)).square().sum(1)

    with pytest.raises(ParameterError, match="mixes them"):
        make_trainer(linear(), contrast).fit(DATA)


def test_a_loss_that_divides_by_the_batch_is_refused() -> None:
    with pytest.raises(ParameterError, match="secret size"):
        make_trainer(linear(), lambda outputs, _: outputs.square().mean()).fit(DATA)


def test_the_caller_s_own_batches_are_refused() -> None:
    """Shuffled or fixed batches are no Poisson samples, and are not accounted as such."""
    trainer = make_trainer(linear())
    with pytest.raises(ParameterError, match="draw its sample itself"):
        trainer.fit(DataLoader(TensorDataset(*DATA), batch_size=10, shuffle=True))
    for wrong in (StepToken(0), DATA, None):
        with pytest.raises(ParameterError, match="no Poisson sample"):
            trainer.step(wrong)
    tokens = trainer.batches(DATA)
    token = next(tokens)
    trainer.step(token)
    with pytest.raises(ParameterError, match="once"):
        trainer.step(token)
    next(tokens)
    with pytest.raises(ParameterError, match="not used"):
        next(tokens)
    assert trainer.steps_done == 1


def test_training_inside_the_caller_s_own_mixed_precision_is_refused() -> None:
    """Sums were in bfloat16 there, while their error was stated for float32."""
    trainer = make_trainer(linear())
    shortened = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    with shortened(), pytest.raises(ParameterError, match=r"torch\.autocast"):
        trainer.fit(DATA)
    tokens = trainer.batches(DATA)
    token = next(tokens)
    with shortened(), pytest.raises(ParameterError, match=r"torch\.autocast"):
        trainer.step(token)
    assert trainer.steps_done == 0


def test_a_token_of_another_trainer_is_refused() -> None:
    first, second = make_trainer(linear()), make_trainer(linear())
    tokens = first.batches(DATA), second.batches(DATA)
    token, _ = next(tokens[0]), next(tokens[1])
    with pytest.raises(ParameterError, match="no Poisson sample"):
        second.step(token)


def test_no_step_is_made_after_the_planned_ones() -> None:
    trainer = make_trainer(linear()).fit(DATA)
    assert trainer.steps_done == trainer.plan.steps == 8
    with pytest.raises(ParameterError, match="both are paid for"):
        trainer.fit(DATA)


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_sums_are_divided_by_the_declared_batch_and_no_batch_is_skipped(
    rows: int, monkeypatch
) -> None:
    """Also where all samples are empty, noise is added and weights move: whether a batch was empty
    is secret."""
    recorder = Recorder(monkeypatch)
    model = linear()
    before = copy.deepcopy(model.state_dict())
    trainer = make_trainer(model).fit((DATA[0][:rows], DATA[1][:rows]))
    assert len(recorder.means) == trainer.plan.steps
    grid = trainer.facts.grid
    scale = 2.0**grid.exponent / 10
    for means in recorder.means:
        whole = torch.cat([mean.flatten() for mean in means]).double() / scale
        rounding = whole.abs() * 2.0**-22  # means are float32
        assert torch.all((whole - whole.round()).abs() <= rounding)
    for name, values in model.state_dict().items():
        assert not torch.any(values == before[name])


def test_noise_is_added_once_a_step_whatever_the_physical_batch(monkeypatch) -> None:
    """The noise on an empty dataset has the plan's deviation, by the exact chi-squared law."""
    for physical_batch in (None, 4):
        draws: list[np.ndarray] = []
        original = NoiseDrawer.draw

        def draw(this, sigma, original=original, draws=draws):
            draws.append(original(this, sigma))
            return draws[-1]

        with monkeypatch.context() as patch:
            patch.setattr(NoiseDrawer, "draw", draw)
            trainer = make_trainer(nn.Linear(600, 3), physical_batch=physical_batch)
            recorder = Recorder(patch)
            trainer.fit((torch.zeros(0, 600), torch.zeros(0, dtype=torch.int64)))
        assert len(draws) == trainer.plan.steps
        grid = trainer.facts.grid
        assert grid.sigma >= float(trainer.plan.noise_multiplier) * 2**20
        scale = 2.0**grid.exponent / 10 * grid.sigma
        released = torch.cat([m.flatten() for means in recorder.means for m in means]).double()
        squares = float((released / scale).square().sum())
        assert 1e-10 < chi2.cdf(squares, len(released)) < 1 - 1e-10


@pytest.mark.parametrize("name", ["several layers", "wide linear on a sequence", "embedding"])
def test_a_sum_is_the_same_whatever_the_physical_batch(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = CLOSED[name]
    model = make_model()
    data = make_rows(shape, 40)
    results = [
        sum_slots(make_trainer(model, physical_batch=size), data, list(range(14)))
        for size in (None, 5)
    ]
    assert find_distance(*results) <= 2e-5 * 2**20 * 14


def test_augmentations_are_averaged_before_clipping() -> None:
    """Two copies with opposite gradients cancel; clipped first they would not."""

    def flip(rows):
        signs = torch.ones(len(rows), 1)
        signs[1::2] = -1
        return rows * signs

    def push(outputs, _):
        return 1000 * outputs[:, 0]

    model = nn.Linear(6, 1, bias=False)
    trainer = make_trainer(model, push, augment=flip, augmentations=2)
    result = sum_slots(trainer, (torch.rand(40, 6), DATA[1]), list(range(10)))
    assert float(result["steps"]["weight"].abs().max()) <= 1


def test_all_rows_of_an_owner_move_a_sum_by_one_clip_norm() -> None:
    owners = np.repeat(np.arange(10), 4)
    trainer = make_trainer(linear(), rows_per_unit=4, unit="person", n=10, batch=5)
    data = (DATA[0] * 100, DATA[1])
    everybody = sum_slots(trainer, data, list(range(6)), owners=owners)
    fewer = sum_slots(trainer, data, list(range(5)), owners=owners)
    distance = find_distance(everybody, fewer)
    assert 0.9 * 2**20 < distance <= everybody["grid"].sensitivity
    assert trainer.facts.plan.unit == "person"
    with pytest.raises(ParameterError, match="owners"):
        make_trainer(linear(), rows_per_unit=4).fit(DATA)


def test_masks_of_dropout_differ_between_units() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.PReLU(6), nn.Linear(6, 3))
    data = torch.ones(40, 6), torch.zeros(40, dtype=torch.int64)
    trainer = make_trainer(model, clip=1000)
    run = trainer._begin(data, None)
    rows = run._store.gather(np.arange(run._stage.slots))
    prepared = run._stage.prepare(rows.inputs, rows.targets, rows.weights)
    contributions = run._rehearsed.method.find(*prepared, rows.units)
    inputs = contributions["2.weight"].values
    assert len({tuple(row.flatten().tolist()) for row in inputs}) > rows.units / 2
    run.close()


def test_a_schedule_that_follows_a_loss_is_refused_and_a_fixed_one_is_not() -> None:
    optimizer = torch.optim.SGD(linear().parameters(), lr=0.1)
    with pytest.raises(ParameterError, match="private"):
        make_trainer(linear(), scheduler=ReduceLROnPlateau(optimizer))
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = StepLR(optimizer, 4, gamma=0.1)
    make_trainer(model, optimizer=optimizer, scheduler=schedule).fit(DATA)
    assert abs(optimizer.param_groups[0]["lr"] - 0.001) < 1e-9


def test_n_is_declared_and_never_counted() -> None:
    with pytest.raises(TypeError, match="'n'"):
        PrivateTrainer(linear(), nn.CrossEntropyLoss(), epsilon=1, epochs=1, batch=10)
    with pytest.raises(ParameterError, match="declared"):
        make_trainer(linear(), n=20).fit(DATA)
    few = make_trainer(linear()).fit((DATA[0][:5], DATA[1][:5]))
    many = make_trainer(linear()).fit(DATA)
    assert few.facts == many.facts and few.guarantee == many.guarantee


def test_the_best_of_several_trials_pays_for_all() -> None:
    trainers = [make_trainer(linear()).fit(DATA) for _ in range(3)]
    together = compose_trials(trainers, F(1, 10**5))
    single = trainers[0].guarantee
    assert together.epsilon > 1.4 * single.epsilon
    loss = accounting.compose(*(trainer.facts.loss for trainer in trainers))
    assert together.epsilon == accounting.epsilon(loss, F(1, 10**5)).upper
    assert "3 fits" in together.tuning and "not in this figure" in single.tuning


def test_a_run_that_stops_early_states_the_whole_plan() -> None:
    """When to stop may have been chosen by what was released."""
    trainer = make_trainer(linear())
    tokens = trainer.batches(DATA)
    trainer.step(next(tokens))
    tokens.close()
    assert trainer.guarantee.releases == trainer.plan.steps
    assert 1.99 < trainer.guarantee.epsilon <= 2 and trainer.find_spent() < 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"clipping": "none"},
        {"noise": "gaussian"},
        {"sums": "fast"},
        {"precision": "float16"},
        {"augmentations": 4},
        {"physical_batch": -1},
        {"optimizer": torch.optim.SGD([torch.zeros(1)], lr=1)},
        {"epsilon": 0},
    ],
)
def test_bad_settings_are_refused_before_data_is_seen(wrong) -> None:
    with pytest.raises(ParameterError):
        make_trainer(linear(), **wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_are_refused(dtype) -> None:
    with pytest.raises(ParameterError, match="precision='bfloat16'"):
        make_trainer(nn.Linear(6, 3).to(dtype))


def test_half_precision_of_passes_trains() -> None:
    trainer = make_trainer(linear(), precision="bfloat16").fit(DATA)
    assert trainer.steps_done == 8


def test_float_choices_are_named_in_the_card() -> None:
    card = make_trainer(linear(), noise="float").fit(DATA).write_model_card(purpose="a test")
    assert "not defensible" in card
    card = make_trainer(linear(), sums="float").fit(DATA).write_model_card(purpose="a test")
    assert "sensitivity not proved" in card
    card = make_trainer(linear(), clipping="ghost").fit(DATA).write_model_card(purpose="a test")
    assert "sensitivity not proved" in card
    card = make_trainer(linear()).fit(DATA).write_model_card(purpose="a test")
    assert "library guarantee" in card and "not proved" not in card and "not defensible" not in card


def test_a_trainer_cannot_be_copied() -> None:
    trainer = make_trainer(linear())
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="checkpoint"):
            copying(trainer)


def test_nothing_of_the_data_stays_in_the_trainer_or_in_gradients() -> None:
    model = linear()
    trainer = make_trainer(model).fit(DATA)
    assert trainer._run is None
    assert all(p.grad is None for p in model.parameters())
    assert COMMON["n"] == trainer.plan.n


def test_wrong_data_is_refused() -> None:
    for wrong in (DATA[0], (DATA[0], DATA[1][:5]), iter([]), [1, 2, 3]):
        with pytest.raises((ParameterError, TypeError)):
            make_trainer(linear()).fit(wrong)


def test_datasets_of_rows_train_as_tensors_do() -> None:
    trainer = make_trainer(linear()).fit(TensorDataset(*DATA))
    assert trainer.steps_done == 8

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, row):
            return DATA[0][row], DATA[1][row]

    assert make_trainer(linear()).fit(Rows()).steps_done == 8
