"""Audits to show: realistic ones computed from drawn rows, and awkward ones (undefined rates, hostile names)."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

CONFIDENCE = 0.95
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror=alert(1)>',
    "a\u202egnp.exe $x_1^2$ & \x1b[31mred\x1b[0m \ud800",
)


def clopper_pearson(k: int, n: int, level: float) -> tuple[float, float]:
    """One-sided exact bounds, each at ``level``."""
    low = 0.0 if k == 0 else float(beta.ppf(1 - level, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(level, k + 1, n - k))
    return low, high


def rate(hit: np.ndarray, why: str, level: float = 0.975) -> dict:
    n, k = len(hit), int(hit.sum())
    if n == 0:
        return {"value": None, "lower": None, "upper": None, "count": 0, "why": why}
    low, high = clopper_pearson(k, n, level)
    return {"value": k / n, "lower": low, "upper": high, "count": n, "why": None}


def group_entry(attribute: str, name: str, scores: np.ndarray, y: np.ndarray) -> dict:
    hit = scores > 0
    return {
        "attribute": attribute,
        "group": name,
        "n": len(y),
        "positives": int(y.sum()),
        "rates": {
            "selection_rate": rate(hit, "no rows"),
            "true_positive_rate": rate(hit[y == 1], "no positives"),
            "false_positive_rate": rate(hit[y == 0], "no negatives"),
            "accuracy": rate(hit == (y == 1), "no rows"),
        },
        "mean_loss": float(np.mean(np.log1p(np.exp(-(2 * y - 1) * scores)))) if len(y) else None,
    }


def constraint(key: str, metric: str, bound: float, groups: list[dict]) -> dict:
    """The largest pairwise difference of a rate, with Bonferroni-corrected exact bounds."""
    known = [g for g in groups if g["rates"][metric]["value"] is not None]
    level = 1 - (1 - CONFIDENCE) / (2 * len(known))
    ends = {}
    for g in known:
        r = g["rates"][metric]
        ends[g["group"]] = (r["value"], *clopper_pearson(round(r["value"] * r["count"]), r["count"], level))
    contrasts = []
    for i, a in enumerate(known):
        for b in known[i + 1 :]:
            (va, la, ua), (vb, lb, ub) = ends[a["group"]], ends[b["group"]]
            entry = {"name": f"{a['group']} vs {b['group']}", "value": abs(va - vb)}
            entry["lower"] = max(0.0, la - ub, lb - ua)
            contrasts.append(entry | {"upper": max(ua - lb, ub - la)})
    value = max(c["value"] for c in contrasts)
    lower, upper = max(c["lower"] for c in contrasts), max(c["upper"] for c in contrasts)
    verdict = "met" if upper <= bound else "violated" if lower > bound else "insufficient"
    rows = sum(g["n"] for g in groups)
    needed = None
    if verdict == "insufficient":
        gap = max(abs(bound - value), 1e-3)
        needed = int(rows * (max(upper - value, value - lower) / gap) ** 2)
    return {
        "name": key,
        "text": f"{key} <= {bound:g}",
        "bound": bound,
        "value": value,
        "lower": lower,
        "upper": upper,
        "confidence": CONFIDENCE,
        "verdict": verdict,
        "rows_needed": needed,
        "worst": max(contrasts, key=lambda c: c["value"])["name"],
        "method": "Clopper-Pearson (exact binomial) for each rate, Bonferroni over both sides of all groups",
        "groups": {g["group"]: g["rates"][metric]["count"] for g in known},
        "contrasts": contrasts,
        "why": None,
    }


def trajectory(names: list[str], bounds: list[float], points: int = 160) -> dict:
    rng = np.random.default_rng(3)
    t = np.linspace(0, 1, points)
    noise = rng.normal(size=(points, 2 + len(names))) * 0.006
    loss = 0.31 + 0.38 * np.exp(-7 * t) + noise[:, 0]
    series = {
        n: (b * 0.8 + 0.14 * t * np.exp(-6 * t) * 6 + noise[:, i + 1]).clip(0)
        for i, (n, b) in enumerate(zip(names, bounds, strict=True))
    }
    multipliers = {n: 0.9 * (1 - np.exp(-(3 + 2 * i) * t)) for i, n in enumerate(names)}
    return {
        "steps": [int(s) for s in np.linspace(0, 12_000, points)],
        "seconds": [float(s) for s in 27.4 * t],
        "loss": loss.tolist(),
        "constraints": {n: v.tolist() for n, v in series.items()},
        "bounds": dict(zip(names, bounds, strict=True)),
        "multipliers": {n: v.tolist() for n, v in multipliers.items()},
        "split": "validation",
    }


def build(
    sizes: dict[str, int],
    shifts: dict[str, float],
    bounds: dict[str, float],
    *,
    title: str = "Mortgage approvals",
    attribute: str = "race",
    with_trajectory: bool = True,
    seed: int = 0,
) -> dict:
    """An audit of rows with logistic scores: group ``k`` has ``sizes[k]`` rows, its scores shifted by ``shifts[k]``."""
    rng = np.random.default_rng(seed)
    groups, drawn = [], {}
    for name, n in sizes.items():
        scores = rng.logistic(1.9 + shifts.get(name, 0.0), 1.1, size=n)
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-scores))).astype(int)
        groups.append(group_entry(attribute, name, scores, y))
        drawn[name] = scores
    metrics = {"demographic_parity": "selection_rate", "equal_opportunity": "true_positive_rate"}
    constraints = [constraint(key, metrics[key], bound, groups) for key, bound in bounds.items()]
    everything = np.concatenate(list(drawn.values()))
    edges = np.linspace(float(everything.min()), float(everything.max()), 33)
    found = [c["verdict"] for c in constraints]
    verdict = next((v for v in ("violated", "insufficient", "met") if v in found), None)
    rows = sum(sizes.values())
    free = [{k: c[k] for k in ("text", "bound", "value", "lower", "upper", "verdict")} for c in constraints]
    loose = [dict(c) for c in free]
    for c in loose:
        c |= {"value": c["value"] + 0.12, "lower": c["lower"] + 0.09, "upper": c["upper"] + 0.12, "verdict": "violated"}
    return {
        "schema": "fairbound.audit/1",
        "title": title,
        "created": "2025-11-20T19:40:00+00:00",
        "verdict": verdict,
        "exit_code": {"met": 0, "violated": 1, "insufficient": 3, None: 0}[verdict],
        "library": {"fairbound": "0.1.0", "python": "3.11.9", "torch": "2.13.0", "numpy": "2.3.1"},
        "data": {
            "name": "loanapp",
            "rows": rows,
            "train_rows": 3 * rows,
            "checksum": "sha256:5f1d0c7e5a3b0f44d8c6f3f5b1a3a7f2f6d7c95f0e8a1b2c3d4e5f60718293a4",
            "label": "approve",
            "positive": "1",
            "sensitive": [attribute],
            "split": "25 % held out, stratified by label and group, seed 0",
            "missing_group_rows": {attribute: 3},
        },
        "model": {
            "kind": "linear",
            "description": "logistic regression on 21 encoded columns",
            "algorithm": "ssl-alm",
            "seed": 0,
            "budget": "30 s",
            "seconds": 27.4,
            "steps": 12_000,
        },
        "metrics": {"accuracy": 0.8913, "auc": 0.8126, "balanced_accuracy": 0.7012},
        "groups": groups,
        "constraints": constraints,
        "comparison": [
            {"name": "constrained", "accuracy": 0.8913, "auc": 0.8126, "constraints": free},
            {"name": "unconstrained", "accuracy": 0.8994, "auc": 0.8241, "constraints": loose},
        ],
        "distributions": [
            {
                "attribute": attribute,
                "edges": edges.tolist(),
                "groups": {k: np.histogram(v, edges)[0].tolist() for k, v in drawn.items()},
                "threshold": 0.0,
            }
        ],
        "trajectory": trajectory(list(bounds), list(bounds.values())) if with_trajectory else None,
        "warnings": ["Column 'loanprc' was dropped: all its values are missing in the training rows."],
        "notes": [
            "The sensitive column 'race' was kept out of the features.",
            "2 held-out rows hold the unseen category 'other' in 'occupation'; they were encoded as unknown.",
            "14 of 12,000 training batches lacked group 'hispan'; its running estimate was used there.",
        ],
    }


def mortgage() -> dict:
    """Three groups, two constraints, 497 held-out rows: not enough evidence."""
    sizes = {"white": 421, "black": 48, "hispan": 28}
    return build(sizes, {"black": -0.1}, {"demographic_parity": 0.03, "equal_opportunity": 0.05})


def large_met() -> dict:
    sizes = {"white": 180_000, "black": 60_000, "hispan": 40_000}
    return build(
        sizes, {"black": -0.02}, {"demographic_parity": 0.03, "equal_opportunity": 0.05}, title="Large and fair"
    )


def large_violated() -> dict:
    """One constraint broken, no trajectory."""
    sizes = {"F": 5421, "M": 10_860}
    audit = build(
        sizes,
        {"F": -0.8},
        {"demographic_parity": 0.02},
        title="Income above 50k",
        attribute="sex",
        with_trajectory=False,
    )
    return audit | {"warnings": [], "notes": []}


def undefined_rates() -> dict:
    """A group without positives and one without rows: their rates are undefined, never 0."""
    audit = mortgage()
    none = np.zeros(0)
    audit["groups"][2] = group_entry("race", "hispan", np.array([-1.0, 0.5, 2.0]), np.zeros(3, dtype=int))
    audit["groups"].append(group_entry("race", "inuit", none, none.astype(int)))
    audit["constraints"][1] |= {"value": None, "lower": None, "upper": None, "rows_needed": None}
    audit["constraints"][1] |= {"why": "group 'inuit' has no positives", "contrasts": [], "groups": {}, "worst": None}
    audit["constraints"][1]["verdict"] = audit["verdict"] = "insufficient"
    audit["metrics"]["auc"] = None
    audit["trajectory"]["constraints"]["equal_opportunity"][5] = None
    audit["comparison"][1]["auc"] = None
    return audit


def forty_groups() -> dict:
    rng = np.random.default_rng(1)
    sizes = {f"group {i:02d}": int(n) for i, n in enumerate(rng.integers(30, 900, 40))}
    return build(
        sizes,
        {k: float(s) for k, s in zip(sizes, rng.normal(0, 0.3, 40), strict=True)},
        {"demographic_parity": 0.1},
        title="Forty groups",
    )


def long_names() -> dict:
    stem = (
        "Persons who reported Native Hawaiian and Other Pacific Islander alone or in combination with one other race "
    )
    sizes = {stem * 3: 300, "x" * 300: 120, "white": 800}
    return build(sizes, {}, {"demographic_parity": 0.03}, title="Very long group names " * 6)


def hostile() -> dict:
    """Names, file names and sentences that would run, break the markup or drive a terminal if not escaped."""
    audit = build(dict.fromkeys(HOSTILE, 200), {}, {"demographic_parity": 0.03}, title=HOSTILE[0], attribute=HOSTILE[1])
    audit["data"] |= {"name": "</style><script>alert(2)</script>.csv", "label": HOSTILE[0], "split": HOSTILE[1]}
    audit["model"] |= {"description": HOSTILE[0], "algorithm": HOSTILE[2]}
    audit["constraints"][0] |= {"text": HOSTILE[1], "name": HOSTILE[0], "method": HOSTILE[2]}
    audit["metrics"][HOSTILE[0]] = 0.5
    audit["groups"][0]["rates"][HOSTILE[1]] = audit["groups"][0]["rates"]["accuracy"]
    audit["comparison"][0]["name"] = HOSTILE[1]
    audit["trajectory"]["multipliers"] = {HOSTILE[0]: [0.0] * 160}
    audit["library"][HOSTILE[1]] = HOSTILE[0]
    audit["warnings"] = list(HOSTILE)
    return audit


def no_bound() -> dict:
    audit = large_violated()
    return audit | {"verdict": None, "exit_code": 0, "constraints": [], "comparison": [], "model": None}


ALL = (mortgage, large_met, large_violated, undefined_rates, forty_groups, long_names, hostile, no_bound)
