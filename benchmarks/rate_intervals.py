"""Which interval for differences of rates decides with the fewest rows and keeps its promise? Two tables, of exact numbers; no data.

1. Two groups, one direction: "p1 - p2 <= margin" is stated, and "met" tested at 5 %. For each method the largest probability of a false
   "met" over rates p2 (the truth lies on the margin), and the mean probability of a true one (the truth is no difference), by adding up
   the probabilities of all outcomes. Methods: MOVER of Clopper-Pearson limits with half a row (the library's); the same at half the
   level, as it was joined by Bonferroni before; Newcombe's MOVER of Wilson limits; Miettinen and Nurminen's score; and the exact
   unconditional test ordered by that score (Boschloo's kind, with a margin; Chan and Zhang 1999), whose level is found over p2.
2. Fewest rows that decide a bound on the largest difference of k groups if the same rates are measured, beside those of
   limits that share the error among all contrasts (Bonferroni), over the grid declared below.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import stats

from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import rate_upper_bounds, upper_of_rates
from fairbound.confidence.rows_needed import fewest_if_measured_again

ALPHA = 0.05
CASES = [((50, 50), 0.2), ((100, 100), 0.1), ((50, 200), 0.1), ((200, 200), 0.1), ((200, 800), 0.1), ((500, 500), 0.05)]
NUISANCE = np.linspace(0.01, 0.99, 99)
RATES, BOUNDS, TIMES, GROUPS = (0.1, 0.3, 0.5), (0.02, 0.05, 0.1), (0.0, 0.5, 2.0, 3.0), (2, 3, 5)
ONE = Contrasts(np.array([[0, 1]]), np.array([[1.0, -1.0]]))


def score(x1: np.ndarray, x2: np.ndarray, n1: int, n2: int, margin: float) -> np.ndarray:
    """Miettinen and Nurminen's z of p1 - p2 = margin, by their closed form of the restricted likelihood's maximum."""
    n = n1 + n2
    l3, l2 = n, (n1 + 2 * n2) * margin - n - x1 - x2
    l1 = (n2 * margin - n - 2 * x2) * margin + x1 + x2
    l0 = x2 * margin * (1 - margin)
    q = l2**3 / (3 * l3) ** 3 - l1 * l2 / (6 * l3**2) + l0 / (2 * l3)
    p = np.sign(q + (q == 0)) * np.sqrt(np.maximum(l2**2 / (3 * l3) ** 2 - l1 / (3 * l3), 1e-300))
    a = (np.pi + np.arccos(np.clip(q / p**3, -1, 1))) / 3
    r2 = np.clip(2 * p * np.cos(a) - l2 / (3 * l3), 0, 1 - margin)
    r1 = r2 + margin
    variance = (r1 * (1 - r1) / n1 + r2 * (1 - r2) / n2) * n / (n - 1)
    return (x1 / n1 - x2 / n2 - margin) / np.sqrt(np.maximum(variance, 1e-12))


def wilson(x: np.ndarray, n: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    z, p = stats.norm.isf(level), x / n
    centre, width = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (centre - width) / (1 + z**2 / n), (centre + width) / (1 + z**2 / n)


def decisions(sizes: tuple[int, int], margin: float) -> dict[str, np.ndarray]:
    """By method, (n1 + 1, n2 + 1): whether the outcome is called "met"."""
    n1, n2 = sizes
    x1, x2 = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")
    both = np.stack([x1, x2], -1).reshape(-1, 2)
    ours, before = (rate_upper_bounds(both, sizes, ONE, a)[:, 0].reshape(x1.shape) for a in (ALPHA, ALPHA / 2))
    high1, low2 = wilson(x1, n1, ALPHA)[1], wilson(x2, n2, ALPHA)[0]
    newcombe = x1 / n1 - x2 / n2 + np.hypot(high1 - x1 / n1, x2 / n2 - low2)
    z = score(x1, x2, n1, n2, margin)
    order = np.argsort(z, axis=None, kind="stable")
    cumulated = np.array(
        [np.cumsum(law(sizes, p + margin, p).ravel()[order]) for p in NUISANCE if p + margin <= 1]
    ).max(0)
    met = np.zeros(z.size, dtype=bool)
    met[order[: int(np.searchsorted(cumulated, ALPHA, side="right"))]] = True
    return {
        "Clopper-Pearson MOVER, half the level (before)": before <= margin,
        "Clopper-Pearson MOVER (library)": ours <= margin,
        "Newcombe (Wilson MOVER)": newcombe <= margin,
        "Miettinen-Nurminen": z <= -stats.norm.isf(ALPHA),
        "exact unconditional, by score": met.reshape(z.shape),
    }


def law(sizes: tuple[int, int], p1: float, p2: float) -> np.ndarray:
    """(n1 + 1, n2 + 1) probabilities of the outcomes."""
    return np.outer(*(stats.binom.pmf(np.arange(n + 1), n, p) for n, p in zip(sizes, (p1, p2), strict=True)))


def first_table() -> None:
    names: list[str] = []
    for sizes, margin in CASES:
        made = decisions(sizes, margin)
        if not names:
            names = list(made)
            print(f"| rows, margin | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}")
        on = [law(sizes, p + margin, p) for p in NUISANCE if p + margin <= 1]
        none = [law(sizes, p, p) for p in np.linspace(0.05, 0.5, 10)]
        cells = [
            f"{100 * max((w * m).sum() for w in on):.1f} / {100 * np.mean([(w * m).sum() for w in none]):.0f}"
            for m in made.values()
        ]
        print(f"| {sizes[0]} and {sizes[1]}, {margin} | {' | '.join(cells)} |")


def pairwise(k: int) -> Contrasts:
    pairs = np.array(list(itertools.permutations(range(k), 2)))
    return Contrasts(pairs, np.tile([1.0, -1.0], (len(pairs), 1)))


def second_table() -> None:
    saved: dict[tuple[int, str], list[float]] = {}
    for k, rate, bound, times, first in itertools.product(GROUPS, RATES, BOUNDS, TIMES, (1.0, 4.0)):
        rates = np.array([rate + bound * times] + [rate] * (k - 1))
        shares = np.array([first] + [1.0] * (k - 1))
        shares, which = shares / shares.sum(), pairwise(k)

        def upper(some: Contrasts, n: int, together: int, rates=rates, shares=shares, which=which) -> np.ndarray:
            return rate_upper_bounds(rates * n * shares, n * shares, some, ALPHA * len(some) / len(which))

        now, before = (
            fewest_if_measured_again(which, which.of(rates), bound, limits)
            for limits in (upper_of_rates(rates, shares, which, ALPHA), upper)
        )
        assert now is not None and before is not None
        saved.setdefault((k, "met" if times < 1 else "violated"), []).append(1 - now / before)
    print(
        "\n| groups | decided | cases | rows saved, median | smallest | largest |\n| --- | --- | --- | --- | --- | --- |"
    )
    for (k, verdict), some in sorted(saved.items()):
        print(f"| {k} | {verdict} | {len(some)} | {np.median(some):.0%} | {min(some):.0%} | {max(some):.0%} |")
    every = [v for some in saved.values() for v in some]
    print(f"| all | | {len(every)} | {np.median(every):.0%} | {min(every):.0%} | {max(every):.0%} |")


if __name__ == "__main__":
    first_table()
    second_table()
