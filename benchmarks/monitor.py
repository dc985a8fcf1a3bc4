"""How often a monitor alarms wrongly, how soon it detects, and how many decisions it counts in a second.

    python benchmarks/monitor.py            # some minutes on one core
    python benchmarks/monitor.py --growth   # warnings that a gap has grown: some minutes
    python benchmarks/monitor.py --calls    # the same rows in calls of other sizes, and in sorted files: some 6 minutes

False alarms: streams of 100,000 decisions whose gap is exactly the bound, looked at every 100 rows. Detection: a gap of 0.08
against a bound of 0.05, looked at every 100 rows, beside the rows that a test with 90 % power needs that is made once: the
one-sided z-test at 5 %, and the audit of this library. Counts are drawn for many streams at once and judged by the function that the monitor
calls; the first streams are judged by `fb.Monitor` too and must agree. Seeds 0 and 1; nothing was tuned on these streams.
Growth: two even groups at about 0.4, a look every 1,000 rows, until the first warning.
Calls: two even groups, one look after the last row; and how often monitors that are fed the rows which they ask for decide.
"""

from __future__ import annotations

import argparse
import time

from harness import single_thread

single_thread()

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

import fairbound as fb  # noqa: E402
from fairbound.confidence.contrasts import Contrasts  # noqa: E402
from fairbound.confidence.rates import rate_upper_bounds  # noqa: E402
from fairbound.confidence.sequences import CountsInTime, checkpoint_rows  # noqa: E402
from fairbound.confidence.tilted import exceeds  # noqa: E402
from fairbound.monitoring.growth import grown  # noqa: E402
from fairbound.monitoring.judging import LATE, START  # noqa: E402

BOUND, ERROR, EVERY = 0.05, 0.05, 100
BOTH = Contrasts(np.array([[0, 1], [0, 1]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
PAIRS = np.array([[0, 1], [1, 0]])
CASES = {"even groups": (0.5, 0.50), "a group of a quarter": (0.25, 0.50), "a rare outcome": (0.5, 0.16)}
"""Name: share of the first group, and its selection rate; that of the second is smaller by the gap."""


def streams(share: float, rates: tuple[float, float], number: int, looks: int, seed: int):
    """At each look, and at the first checkpoint: rows so far, successes (number, 2), trials (number, 2) and those at the
    checkpoints passed."""
    rng = np.random.default_rng(seed)
    s, n = np.zeros((number, 2)), np.zeros((number, 2))
    before: list[tuple[np.ndarray, np.ndarray]] = []
    rows = 0
    for until in sorted({*range(EVERY, looks * EVERY + 1, EVERY), checkpoint_rows(1)}):
        first = rng.binomial(until - rows, share, number)
        new = np.stack([first, until - rows - first], -1)
        rows, n = until, n + new
        s += rng.binomial(new, rates)
        while rows >= checkpoint_rows(len(before) + 1):
            before.append((s.copy(), n.copy()))
        yield rows, s, n, before


def alarms(share: float, rates: tuple[float, float], number: int, looks: int, seed: int) -> np.ndarray:
    """(number,) rows at the first alarm, infinite without one."""
    at = np.full(number, np.inf)
    for rows, s, n, before in streams(share, rates, number, looks, seed):
        going = np.isinf(at)
        if rows < START or not going.any():
            continue
        counts = CountsInTime.of(s[going], n[going], [(a[going], b[going]) for a, b in before])
        found = exceeds(counts, PAIRS, (1 - LATE) * ERROR, BOUND, shared=True).any(-1)
        at[np.flatnonzero(going)[found]] = rows
    return at


def by_monitor(share: float, rates: tuple[float, float], number: int, looks: int, seed: int, which: int) -> float:
    """Rows at which `fb.Monitor` first alarms on one of the streams, infinite without an alarm."""
    monitor, before = fb.Monitor(f"demographic_parity <= {BOUND}"), np.zeros((2, 2))
    for rows, s, n, _ in streams(share, rates, number, looks, seed):
        now = np.array([s[which], n[which] - s[which]])
        each = (now - before).astype(int)
        group, decision = np.repeat(["a", "b", "a", "b"], each.ravel()), np.repeat([1, 1, 0, 0], each.ravel())
        monitor.update(np.zeros(len(group), int), decision, group)
        before = now
        if monitor.verdicts()[monitor.bounds[0].text] == "violated":
            return rows
    return np.inf


def z_test_rows(share: float, p: float, q: float) -> int:
    z = stats.norm.ppf(1 - ERROR) + stats.norm.ppf(0.9)
    return round(z**2 * (p * (1 - p) / share + q * (1 - q) / (1 - share)) / (p - q - BOUND) ** 2)


def audit_rows(share: float, p: float, q: float, draws: int = 20_000) -> int:
    """Rows with which the audit finds the bound violated with probability 0.9, by simulation and bisection."""

    def power(rows: int) -> float:
        rng = np.random.default_rng(0)
        first = rng.binomial(rows, share, draws)
        n = np.stack([first, rows - first], -1)
        lower = -rate_upper_bounds(rng.binomial(n, (p, q)), n, -BOTH, ERROR)
        return float((lower.max(-1) > BOUND).mean())

    low, high = 100, 200_000
    while high - low > 50:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= 0.9 else (middle, high)
        low, high = (low, high) if power(high) >= 0.9 else (high, 2 * high)
        if power(low) >= 0.9:
            low, high = 100, low
    return high


def false_alarms(number: int) -> None:
    print(f"false alarms: gap = bound = {BOUND}, {number} streams of 100,000 decisions, a look every {EVERY}")
    for name, (share, p) in CASES.items():
        at = alarms(share, (p, p - BOUND), number, 100_000 // EVERY, seed=0)
        wrong = int(np.isfinite(at).sum())
        low, high = stats.binomtest(wrong, number).proportion_ci(method="exact")
        checked = [at[i] == by_monitor(share, (p, p - BOUND), number, 200, 0, i) or at[i] > 20_000 for i in range(2)]
        print(
            f"  {name}: {wrong} of {number} ({wrong / number:.2%}; 95 % interval {low:.2%} to {high:.2%}); fb.Monitor agrees: {all(checked)}"
        )


def detection(number: int) -> None:
    print(f"detection: gap 0.08 against {BOUND}, {number} streams, a look every {EVERY}")
    for name, (share, p) in CASES.items():
        q = p - 0.08
        z, own = z_test_rows(share, p, q), audit_rows(share, p, q)
        at = alarms(share, (p, q), number, int(6 * z / EVERY), seed=1)
        middle, nine = np.quantile(at, [0.5, 0.9])
        print(
            f"  {name}: z-test {z:,} rows, audit {own:,}; alarm at {middle:,.0f} rows in the median ({middle / z:.2f} times the z-test, "
            f"{middle / own:.2f} times the audit), 90 % by {nine:,.0f} ({nine / z:.2f}, {nine / own:.2f}); within 3 times: "
            f"{(at <= 3 * z).mean():.1%} of the z-test, {(at <= 3 * own).mean():.1%} of the audit"
        )


GROWTH = (
    (0.01, 0.01, 0),
    (0.04, 0.04, 0),
    (0.01, 0.10, 16_000),
    (0.01, 0.10, 30_000),
    (0.01, 0.06, 16_000),
    (0.01, 0.04, 16_000),
)
"""The gap before and after, and the rows at which it changes; 0 for never."""


def first_warning(seed: int, before: float, after: float, change: int, total: int) -> int | None:
    """Rows at which a look first says that the gap has grown, of looks every 1,000 rows and at the change."""
    rng, error, bound = (
        np.random.default_rng(seed),
        np.full(2, (1 - LATE) * ERROR),
        fb.constraint("demographic_parity <= 0.05"),
    )
    s, n, rows = np.zeros(2), np.zeros(2), 0
    passed: list[tuple[np.ndarray, np.ndarray]] = []
    looks = {*range(1000, total + 1, 1000), *map(checkpoint_rows, range(1, 4)), change} - {0}
    for until in sorted(looks):
        gap = before if not change or rows < change else after
        first = rng.binomial(until - rows, 0.5)
        new = np.array([first, until - rows - first])
        s, n, rows = s + rng.binomial(new, [0.4 + gap / 2, 0.4 - gap / 2]), n + new, until
        while rows >= checkpoint_rows(len(passed) + 1):
            passed.append((s.copy(), n.copy()))
        if grown(bound, CountsInTime.of(s, n, passed), BOTH, error, str):
            return rows
    return None


def growth(number: int) -> None:
    print(f"growth: {number} streams of two even groups, a look every 1,000 rows")
    for before, after, change in GROWTH:
        total = 60_000 if after != 0.04 or not change else 120_000
        found = [first_warning(seed, before, after, change, total) for seed in range(number)]
        rows = [at - change for at in found if at is not None]
        middle = f"; in the median {np.median(rows):,.0f} rows after the change" if rows and change else ""
        what = f"{before:g} to {after:g} at {change:,}" if change else f"{before:g} throughout"
        print(f"  {what}: warned in {len(rows)} of {number} by {total:,} rows{middle}", flush=True)


def decisions(
    rng: np.random.Generator, rows: int, rates: tuple[float, ...], share: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Groups and decisions (rows,) of two groups."""
    first = rng.random(rows) < share
    return np.where(first, "a", "b"), (rng.random(rows) < np.where(first, *rates)).astype(int)


def fed(monitor: fb.Monitor, rows: tuple[np.ndarray, np.ndarray], size: int) -> fb.Monitor:
    """The monitor after these groups and decisions in calls of so many."""
    for start in range(0, len(rows[0]), size):
        group, decision = (column[start : start + size] for column in rows)
        monitor.update(decision, decision, group)
    return monitor


SIZES = (10**9, 5000, 250)
"""Rows of a call: all, and files of so many."""
ORDERS = {
    "as they come": None,
    "sorted by group": lambda g, d: g,
    "by decision": lambda g, d: d,
    "by both together": lambda g, d: (d == 1) != (g == "a"),
}


def calls(number: int) -> None:
    text = f"demographic_parity <= {BOUND}"
    print(f"found violated at the last row, gap 0.08, {number} streams: in one call, in calls of 5,000 and of 250")
    for rows in (9400, 12_000, 16_000, 20_000):
        found = []
        for size in SIZES:
            made = (
                fed(fb.Monitor(text, random_state=i), decisions(np.random.default_rng(i), rows, (0.5, 0.42)), size)
                for i in range(number)
            )
            found.append(sum(monitor.verdicts()[text] == "violated" for monitor in made))
        print(f"  {rows:,} rows: {', '.join(map(str, found))} of {number}", flush=True)
    print(
        f"verdicts at a gap of exactly the bound, where each is wrong, {4 * number} streams of 12,000 rows in one call"
    )
    for name, by in ORDERS.items():
        wrong = 0
        for i in range(4 * number):
            group, decision = decisions(np.random.default_rng([1, i]), 12_000, (0.45, 0.4))
            order = np.arange(12_000) if by is None else np.argsort(by(group, decision), kind="stable")
            monitor = fed(fb.Monitor(text, random_state=i), (group[order], decision[order]), 12_000)
            wrong += monitor.verdicts()[text] != "insufficient"
        print(f"  rows {name}: {wrong} of {4 * number}", flush=True)
    print(
        "decided when fed as many rows, at the measured rates, as were said to be needed: that monitor, and a new one"
    )
    for rows, rates in ((2000, (0.5, 0.5)), (6000, (0.5, 0.5)), (6000, (0.5, 0.42))):
        for size in SIZES:
            went_on, anew, asked = 0, 0, []
            for i in range(number):
                rng = np.random.default_rng([2, i])
                group, decision = decisions(rng, rows, rates)
                monitor = fed(fb.Monitor(text, random_state=i), (group, decision), size)
                needed = monitor.look()["constraints"][0]["rows_needed"]
                if needed is None or needed > 100_000:  # decided, or as good as at the bound
                    continue
                asked.append(needed)
                measured, share = tuple(decision[group == g].mean() for g in "ab"), (group == "a").mean()
                fed(monitor, decisions(rng, needed - rows, measured, share), size)
                other = fed(fb.Monitor(text, random_state=-i - 1), decisions(rng, needed, measured, share), size)
                went_on += monitor.verdicts()[text] != "insufficient"
                anew += other.verdicts()[text] != "insufficient"
            print(
                f"  {rows:,} rows at {rates} in calls of {min(size, rows):,}: {went_on} and {anew} of {len(asked)}; "
                f"in the median {np.median(asked):,.0f} rows were asked for",
                flush=True,
            )


def speed(batches: int) -> None:
    rng = np.random.default_rng(0)
    n = 1000
    made = [
        (rng.integers(0, 2, n), rng.integers(0, 2, n), {"sex": rng.choice(np.array(["f", "m"], dtype=object), n)})
        for _ in range(batches)
    ]
    wall, cpu = [], []
    for _ in range(5):
        monitor = fb.Monitor("demographic_parity <= 0.05")
        started, used = time.perf_counter(), time.process_time()
        for part in made:
            monitor.update(*part)
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    started = time.process_time()
    for _ in range(20):
        monitor.verdicts()
    look = (time.process_time() - started) / 20
    print(
        f"speed: {batches * n / min(cpu):,.0f} decisions a second of processor time ({batches * n / min(wall):,.0f} by the clock) in batches of "
        f"{n:,}, best of 5; the verdict on one bound takes {1000 * look:.1f} ms"
    )


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--streams", type=int, default=1000)
    options.add_argument("--growth", action="store_true")
    options.add_argument("--calls", action="store_true")
    asked = options.parse_args()
    if asked.growth:
        growth(min(asked.streams, 100))
    elif asked.calls:
        calls(min(asked.streams, 100))
    else:
        speed(200)
        detection(asked.streams)
        false_alarms(asked.streams)
