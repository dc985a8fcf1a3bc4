"""On a GPU: the four verbs, whole runs, the classifier and the audit give what they give on the CPU (skipped without CUDA)."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import fairbound as fb
from fairbound.base.errors import DataError, NonFiniteError
from fairbound.models.model import model_of
from fairbound.optim import Dual
from twelve_rows import FEATURES, TARGETS, THREE_GROUPS, WEIGHTS

DEVICE = "cuda"
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore:.*too few training rows"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # torch's, once, where a first gradient needs it
]

BOUNDS = [
    None,
    "demographic_parity <= 0.05",
    ["equalized_odds <= 0.05", "loss_gap <= 0.01"],
    "group_loss <= 0.6",
    "demographic_parity_ratio >= 0.9",
    "partial_statistical_parity[0.1:0.6] <= 0.1",
    "partial_group_auc[0.1:0.8] <= 0.1",
    "auc_parity[inter] <= 0.1",
    "auc_parity[intra] <= 0.1",
]


def problem(stated, device, model="mlp:3", **options):
    groups = None if stated is None else THREE_GROUPS
    return fb.FairProblem(
        model_of(model, 2), FEATURES, TARGETS, groups, stated, dtype=torch.float64, device=device, **options
    )


def data(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = (rng.normal(size=(n, 5)) + 0.6 * group[:, None]).astype(np.float32)
    y = (X @ [1.0, -0.5, 0.3, 0.2, 0.6] + rng.normal(size=n) > 0.8).astype(np.int64)
    return X, y, group


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))


def near(found, wanted, tolerance=1e-9):
    torch.testing.assert_close(found.cpu(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("model", ["linear", "mlp:3"])
@pytest.mark.parametrize("stated", BOUNDS, ids=str)
def test_the_four_verbs_give_the_numbers_of_the_cpu(stated, model):
    here, there = (problem(stated, device, model, sample_weight=WEIGHTS) for device in ("cpu", DEVICE))
    x = here.start([1])
    direction = torch.linspace(-1, 1, here.n, dtype=torch.float64).expand_as(x)
    weights = (1.0, torch.linspace(0.1, 1, here.m, dtype=torch.float64))
    moved = (1.0, weights[1].to(DEVICE))
    batch, beyond = here.full(), there.full()
    near(there.gradient(x.to(DEVICE), beyond, moved)[1], here.gradient(x, batch, weights)[1])
    near(there.jvp(x.to(DEVICE), beyond, direction.to(DEVICE)), here.jvp(x, batch, direction))
    near(there.jacobian(x.to(DEVICE), beyond)[1], here.jacobian(x, batch)[1])
    for true in (False, True):
        found, wanted = (p.values(x.to(p.device), b, true=true) for p, b in ((there, beyond), (here, batch)))
        near(found.f, wanted.f)
        near(found.g, wanted.g)


@pytest.mark.parametrize(
    "method", ["alm", "ssl_alm", "plada", "switching_subgradient", "sfls", "full_batch_alm", "stochastic_ghost"]
)
def test_a_run_ends_where_it_ends_on_the_cpu(method):
    stated = "demographic_parity[surrogate=clipped,sharpness=0.25] <= 0.2"
    ends = [
        fb.solve(problem(stated, device, "linear"), method, budget="20 steps", batch_size=6, seed=2)
        for device in ("cpu", DEVICE)
    ]
    assert ends[1].x.device.type == DEVICE
    near(ends[1].x, ends[0].x, 1e-6)


def test_a_classifier_trains_a_module_where_it_lies_and_saves_it(tmp_path):
    X, y, group = data()
    module = network().to(DEVICE)
    fair = fb.FairClassifier("demographic_parity <= 0.05", model=module, budget="400 steps", random_state=0)
    fair.fit(X, y, sensitive_features=group)
    assert fair.fit_report_["feasible"]
    scores = fair.decision_function(X)
    rates = [np.mean(scores[group == k] > 0) for k in (0, 1)]
    assert abs(rates[0] - rates[1]) <= 0.05 + 1e-9
    fair.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model", module=network())
    np.testing.assert_allclose(again.decision_function(X), scores, atol=1e-5)


def test_formulate_and_solve_leave_the_module_on_its_device():
    X, y, group = data()
    module = network().to(DEVICE)
    made = fb.formulate(
        module, "logistic", (torch.tensor(X), torch.tensor(y), group), None, "demographic_parity <= 0.05"
    )
    solution = fb.solve(made, "alm", budget="300 steps", seed=0)
    made.model.bind(solution.x)
    assert {p.device.type for p in module.parameters()} == {DEVICE}
    with torch.no_grad():
        scores = module(torch.tensor(X, device=DEVICE)).squeeze(1)
    assert fb.measure("demographic_parity", scores, torch.tensor(y, device=DEVICE), group, threshold=0) < 0.2


def test_the_audit_and_metrics_take_tensors_of_a_gpu():
    X, y, group = data()
    scores = torch.tensor(X[:, 0])
    for bound in (
        "demographic_parity <= 0.05",
        "partial_statistical_parity[0.1:0.6] <= 0.1",
        "auc_parity[intra] <= 0.1",
    ):
        here, there = (
            fb.audit(scores.to(d), torch.tensor(y, device=d), torch.tensor(group, device=d), bound, threshold=0)
            for d in ("cpu", DEVICE)
        )
        assert here | {"created": ""} == there | {"created": ""}


@pytest.mark.parametrize(
    "stated",
    [
        "demographic_parity <= 0.02",
        ["equalized_odds <= 0.05", "loss_gap <= 0.01"],
        "group_loss <= 0.4",
        "predictive_parity <= 0.05",
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [1, 2])
def test_a_loop_with_dual_learns_the_model_of_the_cpu(stated, columns):
    X, y, group = data()
    groups = np.stack([group, (X[:, 1] > 0).astype(int)][:columns], axis=1)
    found = []
    for device in ("cpu", DEVICE):
        module = network().double().to(device)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        dual = Dual(stated, groups=groups, targets=y)
        codes = dual.encode(groups).to(device)
        x, t = torch.tensor(X, dtype=torch.float64, device=device), torch.tensor(y, device=device)
        order = torch.Generator().manual_seed(0)
        for k in range(120):
            i = torch.randint(len(y), (100,), generator=order).to(device)
            optimizer.zero_grad()
            dual.loss(module(x[i]).squeeze(1), t[i], codes[i]).backward()
            optimizer.step()
            dual.step()
            if k == 60:
                dual = copy.deepcopy(dual)
        found.append((dual.values(), dual.multipliers, module(x[:50]).detach().cpu()))
    assert found[1][0] == pytest.approx(found[0][0], abs=1e-9)
    near(found[1][1], found[0][1])
    near(found[1][2], found[0][2])


def test_bad_batches_on_a_gpu_are_refused_by_name_and_the_loop_goes_on():
    X, y, group = data()
    dual = Dual("demographic_parity <= 0.02", groups=group, targets=y)
    scores = torch.tensor(X[:64, 0], device=DEVICE, requires_grad=True)
    codes, labels = torch.tensor(group[:64], device=DEVICE), torch.tensor(y[:64], device=DEVICE)
    for k in range(60):
        if k == 30:
            with pytest.raises(DataError, match=r"group code \d of 'group'"):
                dual.loss(scores, labels, codes + 7)
            with pytest.raises(DataError, match="targets must be 0 or 1"):
                dual.loss(scores, labels + 2, codes)
            with pytest.raises(NonFiniteError, match="finite"):
                dual.loss(scores * torch.nan, labels, codes)
        dual.loss(scores, labels, codes).backward()
        dual.step()
    assert dual.report().batches == 60
