"""`measure` against fairlearn and fairret, what it refuses, and the scorer inside scikit-learn's search."""

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.model_selection import cross_validate

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, EmptyGroupError, OptionError


def rows(seed=0, n=500):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    scores = rng.normal(size=n) + 0.3 * (group == "b")
    y = (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(int)
    return scores, y, group


@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_fairlearn_s(weighted):
    fl = pytest.importorskip("fairlearn.metrics")
    scores, y, group = rows()
    w = np.random.default_rng(1).exponential(size=len(y)) if weighted else None
    d = (scores > 0).astype(int)
    common = {"sensitive_features": group, "sample_weight": w}
    of_rates = {
        "error_rate_parity": (lambda t, p, sample_weight=None: np.average(t != p, weights=sample_weight), "difference"),
        "false_negative_rate_parity": (fl.false_negative_rate, "difference"),
        "equal_opportunity": (fl.true_positive_rate, "difference"),
        "predictive_equality": (fl.false_positive_rate, "difference"),
        "true_positive_rate_ratio": (fl.true_positive_rate, "ratio"),
        "false_positive_rate_ratio": (fl.false_positive_rate, "ratio"),
    }
    for name, (metric, how) in of_rates.items():
        params = None if w is None else {"sample_weight": w}
        frame = fl.MetricFrame(metrics=metric, y_true=y, y_pred=d, sensitive_features=group, sample_params=params)
        assert fb.measure(name, scores, y, group, sample_weight=w) == pytest.approx(getattr(frame, how)(), abs=1e-12)
    for name, metric in {
        "demographic_parity": fl.demographic_parity_difference,
        "demographic_parity_ratio": fl.demographic_parity_ratio,
        "equalized_odds": fl.equalized_odds_difference,
    }.items():
        assert fb.measure(name, scores, y, group, sample_weight=w) == pytest.approx(metric(y, d, **common), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        ("predictive_parity", "PositivePredictiveValue"),
        ("false_omission_rate_parity", "FalseOmissionRate"),
        ("treatment_equality", "FalseNegativeFalsePositiveFraction"),
        ("f1_parity", "FScore"),
        ("error_rate_parity", "Accuracy"),
        ("equal_opportunity", "TruePositiveRate"),
    ],
)
def test_values_are_fairret_s(name, statistic):
    pytest.importorskip("fairret")
    from fairret import statistic as of

    scores, y, group = rows()
    one_hot = torch.tensor(np.stack([group == g for g in "abc"], axis=1).astype(float))
    decision = torch.tensor((scores > 0).astype(float)).unsqueeze(1)
    labels = torch.tensor(y, dtype=torch.float64).unsqueeze(1)
    values = getattr(of, statistic)()(decision, one_hot, labels).numpy()
    assert fb.measure(name, scores, y, group) == pytest.approx(np.ptp(values), abs=1e-6)


def test_what_cannot_be_measured_is_said():
    scores, y, group = rows(n=40)
    with pytest.raises(DataError, match="compares groups"):
        fb.measure("demographic_parity", scores, y)
    with pytest.raises(DataError, match="40 scores but 39 rows"):
        fb.measure("demographic_parity", scores, y, group[1:])
    for name in ("group_loss", "loss_gap"):
        with pytest.raises(DataError, match="these are decisions, which have no loss"):
            fb.measure(name, (scores > 0).astype(int), y, group)
    with pytest.raises(DataError, match="no scores"):
        fb.measure("demographic_parity", [], [], [])
    with pytest.raises(OptionError, match="did you mean 'f1_parity'"):
        fb.measure("f1_party", scores, y, group)
    with pytest.raises(EmptyGroupError, match="positive row"):
        fb.measure("equal_opportunity", scores, np.where(group == "a", 0, y), group)
    with pytest.raises(EmptyGroupError, match="negative row"):
        fb.measure("treatment_equality", scores, np.where(group == "a", 1, y), group)
    assert np.isnan(fb.measure("predictive_parity", np.zeros(40, dtype=int), y, group))


def test_a_scorer_is_passed_the_groups_by_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(300, 2)), rng.choice(["a", "b"], 300)
    y = (X[:, 0] + (group == "b") > 0).astype(int)
    with config_context(enable_metadata_routing=True):
        found = cross_validate(
            LogisticRegression(),
            X,
            y,
            cv=3,
            scoring={"gap": fb.scorer("demographic_parity"), "ratio": fb.scorer("demographic_parity_ratio")},
            params={"sensitive_features": group},
            return_indices=True,
            return_estimator=True,
        )
    for k, (model, test) in enumerate(zip(found["estimator"], found["indices"]["test"], strict=True)):
        s = model.decision_function(X[test])
        assert found["test_gap"][k] == -fb.measure("demographic_parity", s, y[test], group[test])
        assert found["test_ratio"][k] == fb.measure("demographic_parity_ratio", s, y[test], group[test])


def test_text_labels_take_a_positive_one_whichever_comes_first():
    scores, y, group = rows()
    texts = np.where(y == 1, "approved", "declined")  # the positive one comes first in the alphabet
    for stated in ("equalized_odds", "demographic_parity", "loss_gap", "predictive_parity"):
        plain = fb.measure(stated, scores, y, group, threshold=0)
        assert fb.measure(stated, scores, texts, group, threshold=0, positive="approved") == plain
        assert fb.measure(stated, scores, texts == "approved", group, threshold=0, positive=True) == plain
    said = np.where(scores > 0, "approved", "declined")
    assert fb.measure("equalized_odds", said, texts, group, positive="approved") == fb.measure(
        "equalized_odds", (scores > 0).astype(int), y, group
    )
    one = fb.measure(
        "demographic_parity", scores[y == 0], texts[y == 0], group[y == 0], threshold=0, positive="approved"
    )
    assert one == fb.measure("demographic_parity", scores[y == 0], y[y == 0], group[y == 0], threshold=0)
    with pytest.warns(DataWarning, match="pass positive='approved'"):
        turned = fb.measure("equalized_odds", scores, texts, group, threshold=0)
    assert turned == fb.measure("equalized_odds", scores, texts, group, threshold=0, positive="declined")
    with pytest.raises(DataError, match="not among the labels"):
        fb.measure("equalized_odds", scores, texts, group, positive="yes")
    with pytest.raises(DataError, match="500 scores but 499 labels"):
        fb.measure("equalized_odds", scores, texts[1:], group, positive="approved")
    for refused in (fb.scorer, lambda b, positive: fb.measure(b, texts, texts, group, positive=positive)):
        with pytest.raises(OptionError, match="leave positive out"):
            refused("class_recall_parity", positive="approved")


@pytest.mark.parametrize("model", ["scikit-learn's", "ours"])
def test_a_scorer_reads_text_labels_as_it_reads_0_and_1(model):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(300, 2)), rng.choice(["a", "b"], 300)
    y = (X[:, 0] + (group == "b") > 0).astype(int)
    texts = np.where(y == 1, "approved", "declined")
    ours = model == "ours"
    found = []
    with config_context(enable_metadata_routing=True):
        for labels, positive in ((y, None), (texts, "approved")):
            mine = fb.FairClassifier(budget="20 steps", positive=positive).set_fit_request(sensitive_features=True)
            one = mine if ours else LogisticRegression()
            routed = {"params": {"sensitive_features": group}}
            for named in {positive, None} if ours else {positive}:  # our models say which label is positive
                stated = {name: fb.scorer(name, positive=named) for name in ("equalized_odds", "equal_opportunity")}
                made = cross_validate(one, X, labels, cv=3, scoring=stated, error_score="raise", **routed)
                found.append([made[f"test_{name}"] for name in stated])
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-12)
    assert np.ptp(found[0]) > 0


@pytest.mark.parametrize("labels", [("no", "yes"), (-1, 1), (1, 2), (False, True)], ids=str)
def test_without_a_name_the_last_of_the_models_labels_is_positive(labels):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(300, 2)), rng.choice(["a", "b"], 300)
    y = (X[:, 0] + (group == "b") > 0).astype(int)
    given = np.array(labels)[y]
    with config_context(enable_metadata_routing=True):
        scorer = fb.scorer("equal_opportunity")
        model = LogisticRegression().fit(X, given)
        wanted = -fb.measure("equal_opportunity", model.decision_function(X), y, group, threshold=0)
        assert scorer(model, X, given, sensitive_features=group) == wanted
        rows = y == 1  # a fold of one label
        wanted = -fb.measure("equal_opportunity", model.decision_function(X[rows]), y[rows], group[rows], threshold=0)
        assert scorer(model, X[rows], given[rows], sensitive_features=group[rows]) == wanted
        forest = RandomForestClassifier(20, max_depth=2, random_state=0).fit(X, given)  # has probabilities alone
        wanted = -fb.measure("equal_opportunity", forest.predict_proba(X)[:, 1], y, group, threshold=0.5)
        assert scorer(forest, X, given, sensitive_features=group) == wanted < 0


def of_two_groups(n=300):
    """X, y and groups in which more of one group are positive."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 2)) + (group == "a")[:, None] * 0.6
    return X, (X.sum(1) + rng.normal(size=n) > 1).astype(int), group


class OnlyPredicts:
    """An estimator without classes_ and scores."""

    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(X)


@pytest.mark.parametrize("labels", [(0, 1), (1, 2), ("no", "yes")], ids=str)
def test_a_scorer_measures_the_decisions_that_the_model_makes(labels):
    """A moved threshold counts, whichever label is positive, and without any scores."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import FixedThresholdClassifier

    X, y, group = of_two_groups()
    given = np.array(labels)[y]
    for at in (0.15, 0.0):  # at 0 every decision is positive
        model = FixedThresholdClassifier(LogisticRegression(), threshold=at).fit(X, given)
        decided = (model.predict(X) == labels[1]).astype(int)
        with config_context(enable_metadata_routing=True):
            for positive, target, said in (
                (None, y, decided),
                (labels[1], y, decided),
                (labels[0], 1 - y, 1 - decided),
            ):
                wanted = -fb.measure("equalized_odds", said, target, group)
                found = fb.scorer("equalized_odds", positive=positive)
                assert found(model, X, given, sensitive_features=group) == wanted
                if positive is not None or labels == (0, 1):
                    assert found(OnlyPredicts(model), X, given, sensitive_features=group) == wanted


def test_a_scorer_says_what_an_estimator_lacks():
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.svm import LinearSVC

    X, y, group = of_two_groups()
    model, texts = LogisticRegression().fit(X, y), np.array(["no", "yes"])[y]
    with config_context(enable_metadata_routing=True):
        with pytest.raises(OptionError, match="OnlyPredicts has no decision_function or predict_proba"):
            fb.scorer("loss_gap")(OnlyPredicts(model), X, y, sensitive_features=group)
        with pytest.raises(OptionError, match="object has no predict"):
            fb.scorer("demographic_parity")(object(), X, y, sensitive_features=group)
        named = OnlyPredicts(LogisticRegression().fit(X, texts))
        with pytest.raises(OptionError, match=r"has no classes_; name it: .*positive=POSITIVE"):
            fb.scorer("demographic_parity")(named, X, texts, sensitive_features=group)
        with pytest.raises(DataError, match="needs predicted labels"):
            fb.scorer("demographic_parity")(LinearRegression().fit(X, y), X, y, sensitive_features=group)
        with pytest.raises(DataError, match="needs predicted labels"):
            fb.scorer("demographic_parity", positive="yes")(OnlyPredicts(model), X, texts, sensitive_features=group)
        three = np.digitize(X.sum(1), [0, 1])
        many = LinearSVC().fit(X, three)
        with pytest.raises(OptionError, match="LinearSVC has 3 classes"):
            fb.scorer("demographic_parity")(many, X, three, sensitive_features=group)
        recall = fb.scorer("recall of class 2")(many, X, three)
        assert recall == (many.predict(X)[three == 2] == 2).mean()
        assert fb.scorer("recall of class yes")(LogisticRegression().fit(X, texts), X, texts) > 0.5


def test_a_scorer_hands_the_groups_to_models_that_decide_by_them():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, group = of_two_groups()
    post = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.05")
    fair = fb.FairClassifier("demographic_parity <= 0.05", use_groups_at_prediction=True, budget="20 steps")
    with config_context(enable_metadata_routing=True):
        stated = {"decisions": fb.scorer("demographic_parity"), "losses": fb.scorer("loss_gap")}
        for model in (post, make_pipeline(StandardScaler(), fair)):
            routed = {"params": {"sensitive_features": group}, "error_score": "raise", "cv": 2}
            found = cross_validate(model, X, y, scoring=stated, return_estimator=True, return_indices=True, **routed)
            for k, (fitted, test) in enumerate(zip(found["estimator"], found["indices"]["test"], strict=True)):
                decided = fitted.predict(X[test], sensitive_features=group[test])
                scores = fitted.decision_function(X[test], sensitive_features=group[test])
                gap = fb.measure("demographic_parity", decided, y[test], group[test])
                losses = fb.measure("loss_gap", scores, y[test], group[test], threshold=0)
                assert found["test_decisions"][k] == -gap and found["test_losses"][k] == -losses


def test_a_scorer_asks_for_what_it_was_told_to():
    with config_context(enable_metadata_routing=True):
        scorer = fb.scorer("equalized_odds").set_score_request(sensitive_features="sex", sample_weight=True)
        asked = scorer.get_metadata_routing().consumes("score", ["sex", "sample_weight", "sensitive_features"])
        assert asked == {"sex", "sample_weight"}
        assert repr(scorer) == "scorer('equalized_odds', positive=None)"


def test_a_scorer_that_is_asked_to_weigh_keeps_the_groups():
    from sklearn.linear_model import LogisticRegression

    X, y, group = of_two_groups()
    weight = np.random.default_rng(3).uniform(0.2, 2, len(y))
    with config_context(enable_metadata_routing=True):
        scorer = fb.scorer("demographic_parity").set_score_request(sample_weight=True)
        model = LogisticRegression().set_fit_request(sample_weight=True)
        given = {"sensitive_features": group, "sample_weight": weight}
        options = {"params": given, "error_score": "raise", "cv": 2, "return_estimator": True, "return_indices": True}
        found = cross_validate(model, X, y, scoring=scorer, **options)
        for k, (fitted, test) in enumerate(zip(found["estimator"], found["indices"]["test"], strict=True)):
            decided, weighed = fitted.predict(X[test]), {"sample_weight": weight[test]}
            assert found["test_score"][k] == -fb.measure("demographic_parity", decided, y[test], group[test], **weighed)
        assert not scorer.set_score_request(sensitive_features=False).get_metadata_routing().consumes(
            "score", given
        ) - {"sample_weight"}


def test_groups_that_cannot_be_measured_are_said_in_words():
    scores, y, group = rows()
    with pytest.raises(EmptyGroupError, match="of 'group', but none of them can be measured"):
        fb.measure("equal_opportunity[empty=drop]", scores[y == 0], y[y == 0], group[y == 0])
    alone = (y == 0) | (group == "a")
    with pytest.raises(EmptyGroupError, match=r"but only \['a'\] can be measured"):
        fb.measure("equal_opportunity[empty=drop]", scores[alone], y[alone], group[alone])


def test_a_scorer_without_metadata_routing_says_what_to_call():
    with config_context(enable_metadata_routing=False), pytest.raises(OptionError, match="set_config"):
        fb.scorer("equalized_odds")


def test_the_recall_of_one_of_many_classes():
    """Of predicted labels, of texts too, and of a score for every class; as the audit has it."""
    y = np.array([0, 2, 2, 2, 1, 2])
    scores = np.eye(3)[[0, 2, 1, 2, 1, 2]]
    found = fb.audit(scores, y, None, "recall of class 2 >= 0.9", classes=range(3))["constraints"][0]["value"]
    assert fb.measure("recall of class 2", scores, y, classes=range(3)) == found == 0.75
    assert fb.measure("error of class 2", scores.argmax(1), y) == 0.25
    assert fb.measure("recall of class yes", ["yes", "no", "no"], ["yes", "yes", "no"]) == 0.5
    assert fb.measure("recall of class 1", [0.2, 0.9], [1, 1]) == 0.5  # one score, positive above 0.5
    with pytest.raises(OptionError, match=r"3 columns, and classes= names none.* range\(3\)"):
        fb.measure("recall of class 2", scores, y)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_half_precision(dtype):
    scores, y, group = rows()
    half = torch.tensor(scores, dtype=dtype, requires_grad=True)
    want = fb.measure("demographic_parity", scores, y, group)
    assert fb.measure("demographic_parity", half, y, group) == pytest.approx(want, abs=1e-12)
    found = fb.audit(half, y, group, "demographic_parity <= 0.1")["constraints"][0]["value"]
    assert found == pytest.approx(want, abs=1e-12)


def test_labels_in_other_words_than_the_classes_are_no_verdict():
    """Every row would be predicted wrong in every group, and the differences within any bound."""
    y, names = np.array([0, 1, 2] * 40), np.array(["lo", "mid", "hi"])
    group, scores = np.repeat(["a", "b"], 60), np.eye(3)[[0, 1, 1] * 40]
    stated = "class_error_parity <= 0.1"
    with pytest.raises(
        DataError, match="classes= names 'lo', 'mid', 'hi', and no label of y is one of them: y holds '0', '1', '2'"
    ):
        fb.audit(scores, y, group, stated, classes=names)
    assert fb.audit(scores, names[y], group, stated, classes=names)["metrics"]["accuracy"] == pytest.approx(2 / 3)
    with pytest.warns(
        DataWarning, match="no prediction is a label of y: predicted are 'hi', 'lo', 'mid', and y holds '0'"
    ):
        assert fb.measure("class_error_parity", names[y], y, group) == 0


def test_two_words_are_read_as_everywhere_else():
    rng = np.random.default_rng(0)
    y, said, group = (rng.choice(values, 200) for values in (["poor", "rich"], ["poor", "rich"], ["a", "b"]))
    for bound in ("demographic_parity", "equalized_odds"):
        value = fb.measure(bound, said, y, group)
        assert (
            value
            == fb.measure(bound, said, y, group, positive="rich")
            == fb.measure(bound, said == "rich", y == "rich", group)
        )
        assert value == fb.audit(said, y, group, f"{bound} <= 0.1")["constraints"][0]["value"]
    with pytest.raises(DataError, match=r"two classes are needed.*such as y == 'a'"):
        fb.measure("equalized_odds", said == "rich", rng.choice(["a", "b", "c"], 200), group)


def test_parity_of_predictions_without_thresholds_says_where_a_fit_takes_them():
    numbers = np.arange(20.0)
    with pytest.raises(OptionError, match=r"^'prediction_parity' names no threshold.*Only FairRegressor's fit"):
        fb.measure("prediction_parity", numbers, numbers, np.resize(["a", "b"], 20))
