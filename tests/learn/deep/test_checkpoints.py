"""Checkpoints: what is in them, and what runs from them cost (rule P5 of the review)."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep import forms, rehearsal
from dither.learn.deep.forms import Forms
from dither.learn.deep.run import TrainingRun
from tests.learn.deep.models import VECTOR, make_rows
from tests.learn.deep.runs import Recorder, make_trainer

pytestmark = pytest.mark.all
DATA = make_rows(VECTOR, 40)


def make_model() -> nn.Module:
    return nn.Linear(6, 3)


def train_some(steps: int):
    trainer = make_trainer(make_model())
    tokens = trainer.batches(DATA)
    for _ in range(steps):
        trainer.step(next(tokens))
    return trainer, tokens


def test_a_resumed_run_pays_its_remaining_steps_as_new_ones(tmp_path) -> None:
    trainer, tokens = train_some(3)
    trainer.write_checkpoint(tmp_path / "run.pt")
    tokens.close()
    costs = []
    for count in (1, 2):
        resumed = make_trainer(make_model()).resume(tmp_path / "run.pt")
        assert resumed.steps_done == 3
        resumed.fit(DATA)
        assert resumed.steps_done == 8
        assert resumed.guarantee.releases == 8 + 5 * count
        costs.append(resumed.guarantee.epsilon)
    assert 2 < costs[0] < costs[1]


def test_a_run_that_ended_with_its_checkpoint_is_paid_once(tmp_path) -> None:
    trainer, tokens = train_some(3)
    trainer.write_checkpoint(tmp_path / "run.pt", ends_run=True)
    with pytest.raises(ParameterError, match="ended"):
        trainer.step(next(tokens))
    tokens.close()
    with pytest.raises(ParameterError, match="ended"):
        trainer.fit(DATA)
    first = make_trainer(make_model()).resume(tmp_path / "run.pt").fit(DATA)
    assert first.guarantee.releases == 8 and first.guarantee.epsilon <= 2
    second = make_trainer(make_model()).resume(tmp_path / "run.pt").fit(DATA)
    assert second.guarantee.releases == 13 and second.guarantee.epsilon > 2


def test_steps_of_an_earlier_loop_are_priced_by_their_own_noise_or_more(tmp_path, monkeypatch):
    """Forms are measured anew, so that what a unit moves may differ between the loops. Planted: the
    last loop's noise over its sensitivity, which is more than the first one's."""
    ratios = []
    for number, moved in enumerate((Fraction(103, 100), Fraction(101, 100))):
        with monkeypatch.context() as patch:
            patch.setattr(TrainingRun, "moved", property(lambda run, moved=moved: moved))
            trainer = make_trainer(make_model())
            if number:
                trainer.resume(tmp_path / "run.pt")
            tokens = trainer.batches(DATA)
            trainer.step(next(tokens))
            tokens.close()
        facts = trainer.facts
        ratios.append(Fraction(facts.grid.sigma, facts.grid.sensitivity))
        trainer.write_checkpoint(tmp_path / "run.pt", ends_run=True)
    assert ratios[0] < ratios[1]
    plan, steps = facts.plan, facts.charged_steps
    assert plan.noise_multiplier <= ratios[0]
    assert facts.loss.to_json() == plan.run_loss(steps, plan.noise_multiplier, 1).to_json()
    last = plan.run_loss(steps, facts.grid.sigma, facts.grid.sensitivity)
    assert facts.loss.to_json() != last.to_json()


def test_a_run_ends_with_one_checkpoint_and_not_with_two(tmp_path) -> None:
    """Both could be resumed, and each would be charged as the only one."""
    trainer, tokens = train_some(2)
    trainer.write_checkpoint(tmp_path / "a.pt", ends_run=True)
    with pytest.raises(ParameterError, match="no second one"):
        trainer.write_checkpoint(tmp_path / "b.pt", ends_run=True)
    tokens.close()


def test_a_run_is_resumed_with_its_own_noise_and_clip_norm(tmp_path) -> None:
    """Else the certificate of all steps would speak of the last ones alone."""
    trainer = make_trainer(make_model(), noise="float", clip=1000)
    tokens = trainer.batches(DATA)
    trainer.step(next(tokens))
    trainer.write_checkpoint(tmp_path / "run.pt")
    tokens.close()
    with pytest.raises(ParameterError, match="another plan"):
        make_trainer(make_model()).resume(tmp_path / "run.pt")


def test_two_runs_from_one_checkpoint_share_no_noise(tmp_path, monkeypatch) -> None:
    trainer, tokens = train_some(1)
    trainer.write_checkpoint(tmp_path / "run.pt")
    tokens.close()
    recorder = Recorder(monkeypatch)
    empty = (DATA[0][:0], DATA[1][:0])
    for _ in range(2):
        make_trainer(make_model()).resume(tmp_path / "run.pt").fit(empty)
    first, second = recorder.means[:7], recorder.means[7:]
    for ours, theirs in zip(first, second, strict=True):
        assert not any(torch.any(a == b) for a, b in zip(ours, theirs, strict=True))


def test_a_checkpoint_holds_weights_optimiser_and_the_plan_alone(tmp_path) -> None:
    trainer, tokens = train_some(2)
    trainer.write_checkpoint(tmp_path / "run.pt")
    tokens.close()
    document = torch.load(tmp_path / "run.pt", weights_only=True)
    assert set(document) == {
        "dither_checkpoint",
        "family",
        "plan",
        "steps_done",
        "model",
        "optimizer",
        "forms",
    }
    other = make_trainer(make_model(), epochs=3)
    with pytest.raises(ParameterError, match="another plan"):
        other.resume(tmp_path / "run.pt")
    with pytest.raises(ParameterError, match="new trainer"):
        trainer.resume(tmp_path / "run.pt")


def test_runs_from_several_checkpoints_of_one_run_are_counted_together(tmp_path) -> None:
    """Each would else be charged as if no run had begun from the other."""
    trainer, tokens = train_some(2)
    trainer.write_checkpoint(tmp_path / "early.pt")
    trainer.step(next(tokens))
    trainer.step(next(tokens))
    trainer.write_checkpoint(tmp_path / "late.pt")
    tokens.close()
    releases = []
    for name in ("early.pt", "late.pt", "early.pt"):
        resumed = make_trainer(make_model()).resume(tmp_path / name)
        loop = resumed.batches(DATA)
        resumed.step(next(loop))
        resumed.write_checkpoint(tmp_path / f"again-{len(releases)}.pt")
        loop.close()
        releases.append(resumed.guarantee.releases)
    assert releases == [8 + 6, 8 + 6 + 4, 8 + 6 + 4 + 6]
    last = make_trainer(make_model()).resume(tmp_path / "again-1.pt").fit(DATA)
    assert last.guarantee.releases == 8 + 6 + 4 + 6 + 3


def test_a_checkpoint_without_its_count_or_in_another_folder_is_refused(tmp_path) -> None:
    trainer, tokens = train_some(2)
    trainer.write_checkpoint(tmp_path / "run.pt")
    (tmp_path / "other").mkdir()
    with pytest.raises(ParameterError, match="one folder"):
        trainer.write_checkpoint(tmp_path / "other" / "run.pt")
    tokens.close()
    (tmp_path / "run.pt").rename(tmp_path / "other" / "run.pt")
    with pytest.raises(ParameterError, match="not beside"):
        make_trainer(make_model()).resume(tmp_path / "other" / "run.pt")


IMAGES = torch.rand(40, 1, 8, 8), torch.arange(40) % 3


def make_network() -> nn.Module:
    torch.manual_seed(4)
    layers = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 3, 3), nn.Flatten(), nn.Linear(48, 3)
    return nn.Sequential(*layers)


def pretend_times(monkeypatch, *, is_formed_faster: bool, is_last_faster: bool) -> None:
    def time_form(outer, *, is_wide, is_formed=False) -> float:
        return 0.1 if is_formed == is_formed_faster else 1.0

    monkeypatch.setattr(forms, "time_form", time_form)
    monkeypatch.setattr(rehearsal, "_is_faster_last", lambda *_: is_last_faster)


def begin_run(trainer) -> Forms:
    """The forms with which this trainer computes gradients."""
    loop = trainer.batches(IMAGES)
    trainer.step(next(loop))
    chosen = trainer._run._rehearsed.method._forms
    loop.close()
    return chosen


def write_measured(monkeypatch, path) -> Forms:
    """Write a checkpoint of a run with unusual forms; a later measurement gives others."""
    pretend_times(monkeypatch, is_formed_faster=True, is_last_faster=True)
    trainer = make_trainer(make_network())
    chosen = begin_run(trainer)
    trainer.write_checkpoint(path)
    pretend_times(monkeypatch, is_formed_faster=False, is_last_faster=False)
    assert begin_run(trainer) == chosen  # a second loop of the same run
    return chosen


def test_a_resumed_run_computes_gradients_in_the_forms_of_the_first(monkeypatch, tmp_path) -> None:
    chosen = write_measured(monkeypatch, tmp_path / "run.pt")
    assert chosen == Forms(True, {"0.weight": True, "1.weight": True})
    assert begin_run(make_trainer(make_network())) != chosen
    resumed = make_trainer(make_network()).resume(tmp_path / "run.pt")
    resumed.write_checkpoint(tmp_path / "again.pt")
    assert begin_run(resumed) == chosen
    assert begin_run(make_trainer(make_network()).resume(tmp_path / "again.pt")) == chosen


@pytest.mark.parametrize("case", ["earlier version", "other device", "other parameters"])
def test_forms_are_measured_again_where_the_checkpoint_s_do_not_fit(
    monkeypatch, tmp_path, case: str
) -> None:
    write_measured(monkeypatch, tmp_path / "run.pt")
    document = torch.load(tmp_path / "run.pt", weights_only=True)
    measured = {"0.weight": False, "1.weight": False}
    match case:
        case "earlier version":
            del document["forms"]
        case "other device":
            document["forms"]["device"] = "cuda"
        case "other parameters":
            document["forms"]["is_formed"]["7.weight"] = True
    torch.save(document, tmp_path / "run.pt")
    resumed = make_trainer(make_network()).resume(tmp_path / "run.pt")
    assert begin_run(resumed) == Forms(False, measured)


@pytest.mark.parametrize(
    "damaged",
    [
        "formed",
        {"device": "cpu"},
        {"device": "cpu", "is_channels_last": 1, "is_formed": {}},
        {"device": "cpu", "is_channels_last": True, "is_formed": {"0.weight": "yes"}},
    ],
)
def test_damaged_forms_are_refused_before_the_run_is_counted(
    monkeypatch, tmp_path, damaged
) -> None:
    write_measured(monkeypatch, tmp_path / "run.pt")
    document = torch.load(tmp_path / "run.pt", weights_only=True)
    torch.save(document | {"forms": damaged}, tmp_path / "run.pt")
    count_file = next(tmp_path.glob("*.resumed"))
    before = count_file.read_bytes()
    with pytest.raises(ParameterError, match="damaged"):
        make_trainer(make_network()).resume(tmp_path / "run.pt")
    assert count_file.read_bytes() == before
