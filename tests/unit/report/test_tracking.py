"""Records arrive in the trackers' own stores, read back by the trackers' own readers."""

import warnings

import pytest
import torch

from fairbound.methods import ALM
from fairbound.optim import Dual
from fairbound.report.tracking import MLflow, TensorBoard, Tracker, scalars
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS

PROBLEM = next(iter(PROBLEMS.values()))


def test_scalars_are_finite_numbers_by_path():
    row = {
        "step": 3,
        "train": {"f": torch.tensor(0.5), "g": [1.0, float("nan")]},
        "multipliers": torch.arange(30.0),
        "name": "x",
        "none": None,
    }
    assert scalars(row) == {"step": 3.0, "train/f": 0.5, "train/g/0": 1.0, "multipliers/largest": 29.0}


def test_records_as_they_come_are_those_of_the_file(tmp_path):
    class Kept(Tracker):
        def __init__(self):
            self.rows = []

        def write(self, numbers, step):
            self.rows.append((step, numbers))

    live, later = Kept(), Kept()
    solution = solve(PROBLEM(), ALM(), budget="120 steps", records=tmp_path / "run.jsonl", callback=live)
    later.add_all(tmp_path / "run.jsonl")
    assert live.rows == later.rows and [step for step, _ in live.rows] == [row["step"] for row in solution.records]
    assert "step" not in live.rows[0][1] and len(live.rows[0][1]) > 3


def test_the_report_of_a_dual_is_a_record():
    dual = Dual("demographic_parity <= 0.1", group_names=["a", "b"], dual_every=1)
    dual.loss(torch.tensor([1.0, -1.0]), [1, 0], [0, 1])
    dual.step()
    numbers = scalars(vars(dual.report()))
    assert numbers["values/demographic_parity <= 0.1"] == 1.0 and numbers["steps"] == 1


def test_tensorboard_reads_them_back(tmp_path):
    pytest.importorskip("tensorboard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        with TensorBoard(tmp_path) as tracker:
            tracker({"step": 5, "train": {"f": 0.25}})
            tracker({"train": {"f": 0.125}}, step=9)
        events = EventAccumulator(str(tmp_path))
        events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/f")] == [(5, 0.25), (9, 0.125)]


def test_mlflow_reads_them_back(tmp_path):
    pytest.importorskip("mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with MLflow("trial", uri=f"sqlite:///{tmp_path}/runs.db") as tracker:
            tracker({"step": 5, "train": {"f": 0.25}})
        run = tracker.client.get_run(tracker.run_id)
        history = tracker.client.get_metric_history(tracker.run_id, "train/f")
    assert [(m.step, m.value) for m in history] == [(5, 0.25)] and run.info.status == "FINISHED"


@pytest.mark.parametrize("name", ["TensorBoard", "MLflow"])
def test_a_missing_package_is_named(name, monkeypatch):
    for module in ("torch.utils.tensorboard", "mlflow"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match="pip install"):
        {"TensorBoard": TensorBoard, "MLflow": MLflow}[name]("x")
