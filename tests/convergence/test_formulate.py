"""From any module, a loss and a group definition to a problem: shapes, types, slopes, errors, bounds that are met."""

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.pointwise import CROSS_ENTROPY
from fairbound.models.model import MLP, ModuleModel
from fairbound.testing import check_gradient, check_resume, check_stacked

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROWS = 24
RNG = np.random.default_rng(7)
FEATURES = RNG.normal(size=(ROWS, 3))
IMAGES = RNG.normal(size=(ROWS, 1, 6, 6))
TOKENS = RNG.integers(0, 5, (ROWS, 3))
BINARY = np.tile([0, 1], ROWS // 2)
CLASSES = np.tile([0, 1, 2], ROWS // 3)
GROUPS = np.repeat(["a", "b", "c"], ROWS // 3)
BOUND = "loss_gap <= 0.1"


class Tokens(nn.Module):
    def __init__(self, dropout=0.0, outputs=1):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 4, dropout=dropout, batch_first=True, norm_first=True)
        self.head = nn.Linear(4, outputs)

    def forward(self, tokens):
        assert not tokens.is_floating_point()
        return self.head(self.layer(self.embedding(tokens)).mean(1))


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().double()


def linear(outputs=1):
    return seeded(lambda: nn.Linear(3, outputs))


def mlp():
    return seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))


def cnn():
    return seeded(lambda: nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)))


def transformer(**options):
    return seeded(lambda: Tokens(**options))


KINDS = {
    "mlp": lambda **o: fb.formulate(mlp(), "logistic", (FEATURES, BINARY), GROUPS, o.get("stated", BOUND)),
    "mlp, rates too": lambda **o: fb.formulate(
        mlp(),
        "logistic",
        (FEATURES, BINARY),
        GROUPS,
        [BOUND, "equalized_odds[sum] <= 0.2", "demographic_parity <= 0.1"],
    ),
    "mlp, own loss": lambda **o: fb.formulate(
        mlp(), lambda s, y: (s - y).square() + 0.1 * s, (FEATURES, BINARY), GROUPS, BOUND
    ),
    "cnn": lambda **o: fb.formulate(cnn(), "cross_entropy", (IMAGES, CLASSES), GROUPS, BOUND),
    "cnn, torch's loss": lambda **o: fb.formulate(cnn(), nn.CrossEntropyLoss(), (IMAGES, CLASSES), GROUPS, BOUND),
    "transformer": lambda **o: fb.formulate(transformer(), "logistic", (TOKENS, BINARY), GROUPS, BOUND),
    "transformer, classes": lambda **o: fb.formulate(
        transformer(outputs=3), "cross_entropy", (TOKENS, CLASSES), GROUPS, BOUND
    ),
    "transformer, dropout": lambda **o: fb.formulate(
        transformer(dropout=0.2), "logistic", (TOKENS, BINARY), GROUPS, BOUND
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_four_verbs_agree_with_differences_and_each_other(kind):
    problem = KINDS[kind]()
    kinds = ("balanced", "uniform")
    check_gradient(problem, seeds=(0,), points=1, kinds=kinds)
    if "dropout" not in kind:  # stacked runs draw their own units to drop
        check_gradient(problem, seeds=(0, 1), points=1, kinds=kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_resume_and_stack(kind):
    method = fb.ALM(step_size=0.05, dual_every=5, dual_rows=12)
    check_resume(method, KINDS[kind](), steps=12, at=(5,))
    if "dropout" not in kind:
        check_stacked(method, KINDS[kind](), steps=8, seeds=(0, 1))


def test_a_linear_module_is_the_built_in_linear_model():
    x = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64)
    ours = fb.FairProblem(MLP(3), FEATURES, BINARY, GROUPS, [BOUND, "demographic_parity <= 0.1"], dtype=torch.float64)
    theirs = fb.formulate(linear(), "logistic", (FEATURES, BINARY), GROUPS, [BOUND, "demographic_parity <= 0.1"])
    for k in range(3):
        a, b = (p.sample((0,), "s", k, 8, "balanced") for p in (ours, theirs))
        for u, v in zip(ours.jacobian(x, a)[1], theirs.jacobian(x, b)[1], strict=True):
            torch.testing.assert_close(u, v, rtol=0, atol=1e-14)
    torch.testing.assert_close(ours.evaluate(x).g, theirs.evaluate(x).g, rtol=0, atol=1e-14)


def test_cross_entropy_is_torch_s_and_two_classes_are_the_logistic_loss():
    scores, y = torch.as_tensor(RNG.normal(size=(9, 4)) * 5).requires_grad_(), torch.arange(9) % 4
    value = nn.functional.cross_entropy(scores, y, reduction="none")
    torch.testing.assert_close(CROSS_ENTROPY.value(scores.detach(), y.double()), value.detach())
    (slope,) = torch.autograd.grad(value.sum(), scores)
    torch.testing.assert_close(CROSS_ENTROPY.slope(scores.detach(), y.double()), slope)
    two = linear(2)
    one = linear(1)
    with torch.no_grad():
        one.weight.copy_(two.weight[1:] - two.weight[:1])
        one.bias.copy_(two.bias[1:] - two.bias[:1])
    several = fb.formulate(two, "cross_entropy", (FEATURES, BINARY), GROUPS, BOUND)
    single = fb.formulate(one, "logistic", (FEATURES, BINARY), GROUPS, BOUND)
    a, b = (p.evaluate(p.start((0,))) for p in (several, single))
    torch.testing.assert_close(a.f, b.f)
    torch.testing.assert_close(a.g, b.g)
    torch.testing.assert_close(a.extra["accuracy"], b.extra["accuracy"])


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        (nn.CrossEntropyLoss(), "cross_entropy"),
        (nn.CrossEntropyLoss(reduction="none"), "cross_entropy"),
        (lambda s, y: nn.functional.cross_entropy(s, y, reduction="none"), "cross_entropy"),
        (nn.BCEWithLogitsLoss(), "logistic"),
    ],
)
def test_torch_s_losses_are_the_named_ones(loss, named):
    outputs, y = (3, CLASSES) if named == "cross_entropy" else (1, BINARY)
    reduction = getattr(loss, "reduction", None)
    ours, theirs = (fb.formulate(linear(outputs), one, (FEATURES, y), GROUPS, BOUND) for one in (named, loss))
    x = ours.start((0,))
    batch = ours.sample((0,), "s", 0, 12, "balanced")
    torch.testing.assert_close(ours.jacobian(x, batch)[1], theirs.jacobian(x, batch)[1])
    assert getattr(loss, "reduction", None) == reduction  # the user's object is left alone


def test_integers_stay_integers_and_floats_take_the_module_s_dtype():
    for tokens in (TOKENS, torch.as_tensor(TOKENS), torch.as_tensor(TOKENS).int()):
        problem = fb.formulate(transformer().float(), "logistic", (tokens, BINARY), GROUPS, BOUND)
        assert problem.features.dtype == torch.as_tensor(tokens).dtype and problem.dtype == torch.float32
    assert fb.formulate(linear(), "logistic", (FEATURES.astype("f4"), BINARY), GROUPS).features.dtype == torch.float64
    assert fb.formulate(linear(), "logistic", (FEATURES > 0, BINARY), GROUPS).features.dtype == torch.float64
    wide = fb.formulate(linear().float(), "logistic", (FEATURES, BINARY), GROUPS, BOUND, dtype=torch.float64)
    assert wide.start((0,)).dtype == wide.features.dtype == torch.float64


class Items(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        return torch.as_tensor(FEATURES[i]), int(BINARY[i]), GROUPS[i]


def test_every_form_of_data_and_groups_is_the_same_problem():
    pandas = pytest.importorskip("pandas")
    code = (GROUPS == "a") * 1.0 + (GROUPS == "b") * 2.0
    with_code = np.c_[FEATURES[:, :2], code]
    table = pandas.DataFrame(with_code, columns=["u", "v", "code"])
    own = fb.data.Dataset("own", with_code, BINARY, {"letter": GROUPS.astype(object)}, ("u", "v", "code"))
    tensors = TensorDataset(torch.as_tensor(with_code), torch.as_tensor(BINARY))
    forms = [
        ((with_code, BINARY), GROUPS),
        ((with_code, BINARY), list(GROUPS)),
        ((with_code, BINARY[:, None]), {"group": GROUPS}),
        ((with_code, BINARY), 2),
        ((torch.as_tensor(with_code), torch.as_tensor(BINARY)), -1),
        ((with_code, BINARY), lambda x, y: x[:, 2]),
        ((with_code, BINARY), fb.Groups.of(GROUPS)),
        ((with_code, BINARY, GROUPS), None),
        ((table, BINARY), "code"),
        ((table, BINARY), ["code"]),
        (own, "letter"),
        (own, None),
        (tensors, 2),
        (tensors, lambda x, y: [str(v) for v in x[:, 2].tolist()]),
    ]
    x = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64)
    values = [
        sorted(fb.formulate(linear(), "logistic", data, groups, BOUND).evaluate(x).g.tolist()) for data, groups in forms
    ]
    np.testing.assert_allclose(values, [values[0]] * len(values), rtol=0, atol=1e-14)
    items = fb.formulate(linear(), "logistic", Items(), None, BOUND)
    plain = fb.formulate(linear(), "logistic", (FEATURES, BINARY), GROUPS, BOUND)
    torch.testing.assert_close(items.evaluate(x).g, plain.evaluate(x).g)


def test_a_function_of_groups_sees_slices_of_all_rows():
    X = np.arange(9000.0)[:, None]
    seen = []

    def half(x, y):
        seen.append(len(x))
        return x[:, 0] >= 4500

    problem = fb.formulate(nn.Linear(1, 1), "logistic", (X, np.arange(9000) % 2), half, BOUND)
    assert sum(seen) == 9000 and max(seen) <= 2048
    assert problem.groups.counts() == {"group": {"False": 4500, "True": 4500}}


def test_without_a_bound_no_groups_are_needed():
    assert fb.formulate(linear(), "logistic", (FEATURES, BINARY)).m == 0


def test_training_starts_at_the_module_s_parameters_and_bind_puts_the_result_back():
    module = mlp()
    before = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    problem = fb.formulate(module, "logistic", (FEATURES, BINARY), GROUPS, BOUND)
    assert torch.equal(problem.start((0,)), before) and isinstance(problem.model, ModuleModel)
    solution = fb.solve(problem, fb.ALM(step_size=0.1), budget="20 steps", batch_size=12)
    problem.model.bind(solution.x)
    assert torch.equal(torch.cat([p.detach().reshape(-1) for p in module.parameters()]), solution.x)
    assert torch.equal(problem.start((0,)), before)


def test_bind_leaves_out_the_variables_that_a_bound_adds():
    """A bound on a percentile interval trains thresholds beside the model, which are no parameters of the module."""
    module = linear()
    bound = "partial_statistical_parity[0.1:0.6] <= 0.5"
    problem = fb.formulate(module, "logistic", (FEATURES, BINARY), GROUPS, bound)
    solution = fb.solve(problem, "alm", budget="5 steps", batch_size=12)
    problem.model.bind(solution.x)
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    assert len(solution.x) == problem.n > len(flat) and torch.equal(flat, solution.x[: len(flat)])


def test_the_message_says_that_training_came_no_nearer_than_its_start():
    """Steps of 1,000 lead away from the least loss, steps of 0.1 towards it."""
    problem = fb.formulate(linear(), "logistic", (FEATURES, BINARY), GROUPS, "group_loss <= 0.01")
    away = fb.solve(problem, fb.SGD(step_size=1000.0), budget="5 steps", batch_size=12)
    assert "in the units of the metric, that of the start, as training came no nearer. The bound" in away.message
    nearer = fb.solve(problem, fb.SGD(step_size=0.1), budget="5 steps", batch_size=12)
    assert "that of the start" not in nearer.message


def test_two_problems_may_share_a_module():
    """A training and a validation problem over one module: neither runs at the other's point."""
    module = mlp()
    train = fb.formulate(module, "logistic", (FEATURES[::2], BINARY[::2]), GROUPS[::2], BOUND)
    held = fb.formulate(module, "logistic", (FEATURES[1::2], BINARY[1::2] * 0), GROUPS[1::2], BOUND)
    x, y = train.start((0,)), train.start((0,)) + 1
    first = train.evaluate(x).f
    held.evaluate(y)
    assert torch.equal(train.evaluate(x).f, first)
    assert fb.solve(train, "alm", validation=held, budget="10 steps", batch_size=6).steps == 10


def test_modes_are_put_back():
    module = transformer(dropout=0.5)
    module.embedding.eval()
    problem = fb.formulate(module, "logistic", (TOKENS, BINARY), GROUPS, BOUND)
    problem.evaluate(problem.start((0,)))
    assert module.training and module.layer.training and not module.embedding.training


@pytest.mark.parametrize(
    "stated",
    [
        "demographic_parity <= 0.2",
        "predictive_parity <= 0.2",
        "auc_parity[group] <= 0.2",
        "partial_statistical_parity[0.05:0.5] <= 0.4",
        "partial_group_auc[0.05:0.5] <= 0.3",
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_modules_of_half_precision_are_trained(stated, dtype):
    """Sums over the rows are of float32, so that the bound's value is that of the same scores in float64, to a part in 2^7."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(400, 4)), rng.choice(["a", "b"], 400)
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    problem = fb.formulate(nn.Linear(4, 1).to(dtype), "logistic", (X, y), group, stated)
    for sampling in ("balanced", "full"):
        solution = fb.solve(problem, "alm", budget="5 steps", sampling=sampling)
        assert solution.x.dtype == dtype
        found = problem.evaluate(solution.last).extra["stated"].double()
        order = np.argsort(problem.strata.order)
        scores = problem.all_scores(solution.last).double()[order]
        wanted = fb.measure(stated, scores, y, sensitive_features=group)
        assert float(found[0]) == pytest.approx(wanted, abs=2**-7)


def test_linear_models_in_half_precision_take_all_rows_at_once():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(400, 4)), rng.choice(["a", "b"], 400)
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    for features in (X, X > 0):  # of the second there are few distinct rows
        for stated in ("demographic_parity <= 0.2", "partial_statistical_parity[0.05:0.5] <= 0.4"):
            problem = fb.FairProblem(MLP(4), features, y, group, stated, dtype=torch.bfloat16)
            assert fb.solve(problem, "full_batch_alm", budget="10 steps").x.dtype == torch.bfloat16


def wrong(call, error, words):
    return pytest.param(call, error, words, id=words)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        wrong(lambda: fb.formulate(MLP(3), "logistic", (FEATURES, BINARY)), OptionError, "takes a torch.nn.Module"),
        wrong(lambda: fb.formulate(linear(3), "logistic", (FEATURES, CLASSES % 2)), OptionError, "cross_entropy"),
        wrong(
            lambda: fb.formulate(linear(), "cross_entropy", (FEATURES, BINARY)), OptionError, "a score for every class"
        ),
        wrong(
            lambda: fb.formulate(linear(3), "cross_entropy", (FEATURES, CLASSES), GROUPS, "demographic_parity <= 0.1"),
            OptionError,
            "no class is the positive one",
        ),
        wrong(
            lambda: fb.formulate(linear(3), "cross_entropy", (FEATURES, CLASSES), GROUPS, "loss_gap[y=both] <= 0.1"),
            OptionError,
            "one class against the rest",
        ),
        wrong(
            lambda: fb.formulate(linear(3), "cross_entropy", (FEATURES, CLASSES + 1)), DataError, "class numbers 0 to 2"
        ),
        wrong(lambda: fb.formulate(linear(), "logistic", (FEATURES, CLASSES)), DataError, "targets must be 0 or 1"),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (TOKENS, BINARY)), OptionError, "Integer features stay integers"
        ),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (FEATURES[:, :2], BINARY)), OptionError, "cannot run on features"
        ),
        wrong(lambda: fb.formulate(nn.Flatten(0), "logistic", (FEATURES, BINARY)), OptionError, "must return scores"),
        wrong(
            lambda: fb.formulate(
                nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), "cross_entropy", (FEATURES, BINARY)
            ),
            OptionError,
            "running statistics",
        ),
        wrong(
            lambda: fb.formulate(nn.ReLU(), "logistic", (FEATURES[:, :1], BINARY)),
            OptionError,
            "no trainable parameter",
        ),
        wrong(
            lambda: fb.formulate(linear(), lambda s, y: (s - y).mean(), (FEATURES, BINARY)),
            OptionError,
            "reduction='none'",
        ),
        wrong(lambda: fb.formulate(linear(), "logistic", (FEATURES, BINARY[:-1])), DataError, "differ in length"),
        wrong(lambda: fb.formulate(linear(), "logistic", (FEATURES, GROUPS)), DataError, "targets == POSITIVE"),
        wrong(lambda: fb.formulate(linear(), "logistic", (GROUPS, BINARY)), DataError, "features must be numbers"),
        wrong(lambda: fb.formulate(linear(), "logistic", FEATURES), OptionError, "data must be"),
        wrong(lambda: fb.formulate(linear(), "logistic", (FEATURES,)), OptionError, "of 1 parts"),
        wrong(
            lambda: fb.formulate(linear(), "logistic", DataLoader(TensorDataset(torch.zeros(2, 3), torch.zeros(2)))),
            OptionError,
            "the loader's dataset",
        ),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (FEATURES, BINARY), None, BOUND), DataError, "needs sensitive"
        ),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (FEATURES, BINARY), "sex", BOUND), OptionError, "names no column"
        ),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (FEATURES, BINARY), 3, BOUND),
            OptionError,
            "no column of features",
        ),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (FEATURES, BINARY), lambda x, y: [1], BOUND),
            OptionError,
            "a label for each of 24 rows",
        ),
        wrong(
            lambda: fb.formulate(linear(), "logistic", (np.where(FEATURES > 2, np.nan, FEATURES), BINARY)),
            Exception,
            "NaN or infinite in row",
        ),
    ],
)
def test_wrong_use_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_module_whose_outputs_were_declared_wrongly_is_refused():
    with pytest.raises(OptionError, match=r"outputs=1 was declared; give one score per row"):
        problem = fb.FairProblem(ModuleModel(linear(3)), FEATURES, BINARY, dtype=torch.float64)
        problem.evaluate(problem.start((0,)))


# -- training ---------------------------------------------------------------------------------------------------


def groups_apart(n, seed):
    """A fifth of the rows, group b, follows another rule than the rest: an unbounded fit serves the majority."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    group = np.where(np.arange(n) % 5 == 0, "b", "a")
    return X, (np.where(group == "b", X[:, 1], X[:, 0]) > 0).astype(int), group


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("mlp", 0), ("cnn", 0), *(pytest.param(kind, 1, marks=pytest.mark.long) for kind in ("mlp", "cnn"))],
)
def test_the_bound_is_met_where_an_unbounded_fit_misses_it(kind, seed):
    X, y, group = groups_apart(400, seed)
    if kind == "mlp":
        data, loss, module = (
            (X, y),
            "logistic",
            seeded(lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))),
        )
    else:
        images = np.repeat(np.repeat(X[:, None, None, :], 6, 2), 2, 3)
        data, loss = (images, y), "cross_entropy"
        module = seeded(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 4 * 4, 2)))
    problem = fb.formulate(module, loss, data, group, "loss_gap <= 0.05")
    free = fb.solve(problem, fb.SGD(step_size=0.1), budget="300 steps", batch_size=40, seed=seed)
    assert float(problem.evaluate(free.last).violation) > 0.05
    bounded = fb.solve(
        problem,
        fb.ALM(step_size=0.1, dual_step_size=0.5, penalty=0.5, dual_every=20),
        budget="1200 steps",
        batch_size=40,
        record_every=25,
        seed=seed,
    )
    start, found = (problem.evaluate(x) for x in (problem.start((0,)), bounded.x))
    assert bool(bounded.feasible) and float(found.violation) == 0 and float(found.f) < float(start.f) - 0.02


@pytest.fixture
def example(monkeypatch):
    """Imports an example by its name, beside the others."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_the_cnn_example_runs_and_begins_to_learn(example, data_dir, capsys):
    cnn_mnist = example("cnn_mnist")
    found = cnn_mnist.compare(str(data_dir), 200, 0.1)
    assert found["no bound"]["train"]["accuracy"] > 0.5
    cnn_mnist.show(found)
    assert "6,318 parameters" in capsys.readouterr().out


def test_the_transformer_example_meets_its_bound_on_the_sample(example, capsys):
    pytest.importorskip("pandas")
    transformer_example = example("tabular_transformer")
    found = transformer_example.compare(True, None, 150, 0.1)
    free, bounded = (found[name]["train"] for name in ("no bound", "loss_gap <= 0.1"))
    assert bounded["loss gap"] <= 0.1 < free["loss gap"] and bounded["loss"] < 0.6
    transformer_example.show(found)
    assert "0.1" in capsys.readouterr().out


def test_tokens_of_different_columns_differ(example):
    pandas = pytest.importorskip("pandas")
    tokens_of = example("tabular_transformer").tokens_of
    frame = pandas.DataFrame({"u": ["x", None, "y"], "v": [1.0, float("nan"), 1.0]})
    tokens, vocabulary = tokens_of(frame, ("u", "v"))
    assert tokens.tolist() == [[1, 4], [0, 3], [2, 4]] and vocabulary == 5 and tokens.dtype == np.int64


def test_stacked_transformers_need_no_slow_path():
    problem = KINDS["transformer"]()
    x = problem.start((0,)).expand(2, -1).clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem.evaluate(x)
        problem.gradient(x, problem.sample((0, 1), "s", 0, 8, "balanced"), (1.0, None))
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("last", [nn.Sigmoid(), nn.Sequential(nn.Sigmoid(), nn.Flatten(0))])
def test_a_module_that_ends_in_a_sigmoid_is_refused_where_scores_are_logits(last):
    """All its scores are above 0, so that every bound on rates would be met whatever it learns."""
    module = nn.Sequential(linear(), last)
    for loss, bound in (
        ("logistic", BOUND),
        ("squared", "demographic_parity <= 0.1"),
        (nn.BCELoss(), "equal_opportunity <= 0.1"),
    ):
        with pytest.raises(OptionError, match="made by a sigmoid or a softmax; pass the logits"):
            fb.formulate(module, loss, (FEATURES, BINARY), GROUPS, bound)
    fb.formulate(
        module, nn.BCELoss(), (FEATURES, BINARY), GROUPS, BOUND
    )  # this loss takes probabilities, and no rate is counted
    with pytest.raises(OptionError, match="made by a sigmoid"):
        fb.FairClassifier("demographic_parity <= 0.1", model=module.float()).fit(
            FEATURES, BINARY, sensitive_features=GROUPS
        )


def test_a_classifier_s_module_that_cannot_run_is_told_with_the_shape():
    class Named(nn.Linear):
        def forward(self, rows):
            return super().forward(rows["x"])

    with pytest.raises(OptionError, match=r"cannot run on features of shape \(2, 3\), torch.float32: .* Give features"):
        fb.FairClassifier("demographic_parity <= 0.1", model=Named(3, 1)).fit(
            FEATURES, BINARY, sensitive_features=GROUPS
        )


@pytest.mark.parametrize("loss", [torch.nn.BCELoss(), torch.nn.functional.binary_cross_entropy])
def test_a_loss_of_probabilities_names_the_one_of_logits(loss):
    X, y, group = np.linspace(-3, 3, 40).reshape(20, 2).astype(np.float32), np.arange(20) % 2, np.arange(20) % 2
    module = torch.nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.fill_(1.0)
    with pytest.raises(OptionError, match=r"between 0 and 1. Scores are logits: give torch.nn.BCEWithLogitsLoss\(\)"):
        fb.formulate(module, loss, (X, y), group, "demographic_parity <= 0.1")
    fb.formulate(module, torch.nn.BCEWithLogitsLoss(), (X, y), group, "demographic_parity <= 0.1")
