"""Wrong formulas that a test of their own room must notice. One formula a time is broken in a copy of the source.

Each entry names the file, the text to replace (it occurs once), the wrong text, and the tests that must fail then, as
arguments of pytest. The runs are long (`make long`); that each text is still there is checked always.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fairbound"


class Mutant(NamedTuple):
    file: str
    old: str
    new: str
    tests: str


MUTANTS = {
    # methods
    "alm: multipliers descend": Mutant("methods/alm.py", "(before + (self.dual_step_size", "(before - (self.dual_step_size", "claims/test_alm.py"),
    "alm: no penalty in the weights": Mutant("methods/alm.py", "w = (y + self.penalty * scale * inner)", "w = (y + 0 * scale * inner)", "claims/test_alm.py"),
    "alm: margin gives bounds away": Mutant("methods/alm.py", "measured.g + self.margin * measured.of(", "measured.g - self.margin * measured.of(", "claims/test_alm.py"),
    "full_batch: offsets the wrong way": Mutant("methods/full_batch_alm.py", '"offset": e.g - trained.g', '"offset": trained.g - e.g', "claims/test_full_batch.py"),
    "full_batch: multipliers descend": Mutant("methods/full_batch_alm.py", "(y + rho * (e.g + margin)).clamp(", "(y - rho * (e.g + margin)).clamp(", "claims/test_full_batch.py"),
    "full_batch: slope of the objective forgotten at first": Mutant("subproblems/multipliers.py", "nnls(jacobian[1:].T, -jacobian[0])", "nnls(jacobian[1:].T, jacobian[0])", "unit/subproblems/test_multipliers.py"),
    "full_batch: shares the wrong way": Mutant("fairness/objectives.py", "return 1 - self.share, self.share", "return self.share, 1 - self.share", "claims/test_full_batch.py"),
    "sharpness not raised": Mutant("fairness/statistics.py", "sharpness=factor * self.sharpness", "sharpness=self.sharpness", "claims/test_full_batch.py"),
    "landing: the far half": Mutant("solver/best.py", "inside, outside = torch.where(meets, middle, inside), torch.where(meets, outside, middle)", "inside, outside = torch.where(meets, inside, middle), torch.where(meets, middle, outside)", "unit/solver/test_landing.py"),
    "ssl_alm: smoothing pushes away": Mutant("methods/ssl_alm.py", "self.smoothing * (state.x - state.z)", "self.smoothing * (state.z - state.x)", "claims/test_ssl_alm.py"),
    "ssl_alm: slacks move the wrong way": Mutant("methods/ssl_alm.py", "(state.s - tau * g_s)", "(state.s + tau * g_s)", "claims/test_ssl_alm.py"),
    "switching: Polyak's step over the norm": Mutant("methods/switching_subgradient.py", "base * length / square,", "base * length / square.sqrt(),", "claims/test_switching.py"),
    "switching: the smallest constraint is tested": Mutant("methods/switching_subgradient.py", "_masked(problem.values(x, test)).amax(-1)", "_masked(problem.values(x, test)).amin(-1)", "claims/test_switching.py"),
    "ghost: halves not averaged": Mutant("methods/stochastic_ghost.py", "(d_odd + d_even) / 2) /", "(d_odd + d_even)) /", "claims/test_ghost.py"),
    "ghost: kappa without the violation": Mutant("methods/stochastic_ghost.py", "return (1 - config.weight) * worst + config", "return config", "claims/test_ghost.py"),
    "ynw: queues without the move": Mutant("methods/ynw.py", "(e.of(queues) + e.g + along(moved - x))", "(e.of(queues) + e.g)", "claims/test_level_set_baselines.py"),
    "ynw: half as far": Mutant("methods/ynw.py", "direction / (2 * self.alpha)", "direction / (4 * self.alpha)", "claims/test_level_set_baselines.py"),
    "dfls: level moved whole": Mutant("methods/dfls.py", "state.level + upper / 2)", "state.level + upper)", "claims/test_level_set_baselines.py"),
    "dfls: error without the steps": Mutant("methods/dfls.py", "(x - state.origin).square().sum(-1) + state.spread)", "(x - state.origin).square().sum(-1))", "claims/test_level_set_baselines.py"),
    "sfls: level moved twice as far": Mutant("methods/sfls.py", "state.level + U / (2 * self.theta)", "state.level + U / self.theta", "claims/test_sfls.py"),
    "sfls: every call at the whole level": Mutant("methods/sfls.py", "torch.exp2(-(outer + 1).double())", "torch.exp2(0 * outer.double())", "claims/test_sfls.py"),
    "ovsmd: half of Student's margin": Mutant("methods/ovsmd.py", "quantile * error, torch.inf", "0.5 * quantile * error, torch.inf", "claims/test_sfls.py"),
    "ovsmd: dual descends": Mutant("methods/ovsmd.py", "zeta = (-rate[1]", "zeta = (rate[1]", "claims/test_sfls.py"),
    "sgd: ascends": Mutant("methods/primal.py", "x.sub_(gradient,", "x.add_(gradient,", "unit/methods/test_primal.py"),
    "steps that do not decay": Mutant("methods/primal.py", "(1 + k / horizon) ** -power", "(1 + 0 / horizon) ** -power", "unit/methods/test_primal.py"),
    "clipping: too long by the norm": Mutant("methods/primal.py", "gradient * (most / norm)", "gradient * (norm / most)", "claims/test_alm.py"),
    "sgd_fairret: strength left out": Mutant("methods/sgd_fairret.py", "Penalised(problem, penalty, self.strength)", "Penalised(problem, penalty, 1.0)", "claims/test_fairret.py"),
    "fairret: slope without everybody's share": Mutant("fairness/fairret.py", "d_all = -(pull", "d_all = 0 * -(pull", "claims/test_fairret.py"),
    "certificates: every round at the whole level": Mutant("methods/certificates.py", "math.ldexp(delta, -(tries + 1))", "delta", "claims/test_certified_level_set.py"),
    "certificates: every call at the whole level": Mutant("methods/certificates.py", "math.ldexp(delta, -(call + 1))", "delta", "claims/test_certified_level_set.py"),
    "certificates: constraints at the whole level": Mutant("methods/certificates.py", "delta / max(g.shape[-1], 1)", "delta", "claims/test_certified_level_set.py"),
    "certificates: half of the share of the anchor": Mutant("methods/certificates.py", "share = needed.amax(-1).clamp(0, 1)", "share = (needed.amax(-1) / 2).clamp(0, 1)", "claims/test_certified_level_set.py"),
    "certified: weights of the mean": Mutant("methods/certified_level_set.py", "(self.averaging + 1) / (state.k + 1 + self.averaging)", "1 / (state.k + 1)", "unit/methods/test_certified_average.py"),
    "certified: dual descends": Mutant("methods/certified_level_set.py", "(y.log() + rate.unsqueeze(-1) * payoff", "(y.log() - rate.unsqueeze(-1) * payoff", "claims/test_certified_level_set.py"),
    "plada: multipliers without the slacks": Mutant("methods/plada.py", "lam = mu + rho * scale * (G + u)", "lam = mu + rho * scale * G", "claims/test_plada.py"),
    "plada: slacks climb": Mutant("methods/plada.py", "(u - self.tau / scale * lam)", "(u + self.tau / scale * lam)", "claims/test_plada.py"),
    "plada: mu descends": Mutant("methods/plada.py", "mu + gamma / rho * apart", "mu - gamma / rho * apart", "claims/test_plada.py"),
    "plada: delta does not decay": Mutant("methods/plada.py", "self.kappa / (state.k + 1)", "self.kappa", "claims/test_plada.py"),
    "plada: rho without beta": Mutant("methods/plada.py", "self.alpha / (1 + self.alpha * self.beta)", "self.alpha", "claims/test_plada.py"),
    "plada: steps of the theory without the constraints": Mutant("methods/plada.py", "curvature + 3 * self.rho * steep.square()", "curvature + steep.square()", "claims/test_plada.py"),
    "plada: inner steps without the proximal term": Mutant("methods/plada.py", "[1] + (at - x) / eta", "[1] + 0 * (at - x) / eta", "claims/test_plada.py"),
    "constants: a quarter of the curvature": Mutant("methods/constants.py", "change = (there - here) / MOVE", "change = (there - here) / (4 * MOVE)", "claims/test_plada.py"),
    "constants: squared weights": Mutant("methods/constants.py", "size = (scale * along.square())", "size = (scale * scale * along.square())", "claims/test_plada.py"),
    "conex: constraints not extrapolated": Mutant("methods/conex.py", "(1 + theta) * linear - theta * before", "linear", "claims/test_proximal_point.py"),
    "conex: constraints not linearised": Mutant("methods/conex.py", "linear = here + problem.jvp(x, batch, moved - x)[..., 1:]", "linear = here + 0 * problem.jvp(x, batch, moved - x)[..., 1:]", "claims/test_proximal_point.py"),
    "conex: steps that do not shrink": Mutant("methods/conex.py", "self.modulus * t / 2", "self.modulus * 0 / 2", "claims/test_proximal_point.py"),
    "proximal point: centres stay": Mutant("methods/proximal_point.py", "centre, centres = held.point.clone(), centres + 1", "centre, centres = centre.clone(), centres + 1", "claims/test_proximal_point.py"),
    "proximal: constraints without their term": Mutant("problems/penalised.py", "factor + self.on_constraints * w.sum(-1, keepdim=True)", "factor + 0 * w.sum(-1, keepdim=True)", "claims/test_proximal_point.py"),
    "switching: mean over all points": Mutant("methods/switching_subgradient.py", "total = total + (k + 1) * feasible", "total = total + (k + 1)", "claims/test_proximal_point.py"),
    "multiplier model: the network descends": Mutant("methods/multiplier_model.py", "move(w, -climb,", "move(w, climb,", "claims/test_proximal_point.py"),
    "excess loss: both sides": Mutant("fairness/notions/losses.py", "kept & (np.arange(len(found.index)) % 2 == 0)", "kept", "unit/fairness/test_excess_loss.py"),
    "excess loss: the other side": Mutant("fairness/notions/losses.py", "(np.arange(len(found.index)) % 2 == 0)", "(np.arange(len(found.index)) % 2 == 1)", "unit/fairness/test_excess_loss.py"),
    "matrix of strata: without the bounds": Mutant("fairness/reduction.py", "return DenseReduction(contrasts.matrix @ means, contrasts.bounds)", "return DenseReduction(contrasts.matrix @ means, 0 * contrasts.bounds)", "unit/fairness/test_excess_loss.py"),
    "rows: level moved twice as far": Mutant("fairness/row_saddle.py", "self.level += upper / (2 * self.options.theta)", "self.level += 2 * upper", "claims/test_row_saddle.py"),
    "rows: alpha without its cost": Mutant("fairness/row_saddle.py", "- c1 * ((new - before) ** 2 + tau * new * new)", "- c1 * (new - before) ** 2", "claims/test_row_saddle.py"),
    "rows: second set with the sign of the first": Mutant("fairness/row_saddle.py", "two * (u * away - lifted)", "two * (u * away + lifted)", "claims/test_row_saddle.py"),
    "saddle: batches not weighted back": Mutant("fairness/saddle_problem.py", "batch.objective.unsqueeze(-2) / self._share.unsqueeze(-1)", "batch.objective.unsqueeze(-2)", "claims/test_row_saddle.py"),
    "lifted: margins of alpha towards 0": Mutant("problems/dual_sets.py", "v + torch.where(v < 0, -of_v, of_v)", "v - torch.where(v < 0, -of_v, of_v)", "claims/test_row_saddle.py"),
    "ovsmd: mirror step without the cost": Mutant("methods/ovsmd.py", "torch.inf), rate[1] * gamma)", "torch.inf))", "claims/test_row_saddle.py"),
    "stream: a sample of the first rows": Mutant("estimators/streaming_auc.py", "places[i] < len(self._kept):", "False:", "unit/estimators/test_streaming_auc.py"),
    "areas: the threshold of fewest": Mutant("estimators/auc_training.py", "np.where(ends, right, -np.inf).argmax()", "np.where(ends, -right, -np.inf).argmax()", "unit/estimators/test_auc_training.py"),
    "areas: a loose kappa counts as met": Mutant("estimators/auc_training.py", "float(found.g.max()) + bounds[0].bound", "float(found.g.max())", "unit/estimators/test_auc_training.py"),
    "kappa: the lowest area": Mutant("fairness/kappa_path.py", "return max((t for t in tried if t.value <= bound)", "return min((t for t in tried if t.value <= bound)", "unit/estimators/test_streaming_auc.py"),
    # confidence
    "sequences: forecasts that start with a hit": Mutant("confidence/sequences.py", "betaln(self.successes + 0.5, f + 0.5)", "betaln(self.successes + 1.5, f + 0.5)", "unit/confidence/test_sequences.py"),
    "sequences: every forecaster at the whole error": Mutant("confidence/sequences.py", "room - weight + lost.sum(-1))", "room + lost.sum(-1))", "unit/confidence/test_sequences.py"),
    "sequences: the other root": Mutant("confidence/sequences.py", "(a - 1 + root) / (2", "(a - 1 - root) / (2", "unit/confidence/test_sequences.py"),
    "sequences: ratio from one cell alone": Mutant("confidence/sequences.py", "4 * (n + m) * r * hits", "4 * n * r * hits", "unit/confidence/test_sequences.py"),
    "monitor: late sets each with a share that does not shrink": Mutant("monitoring/judging.py", "LATE / (i * (i + 1))", "LATE / i", "unit/monitoring/test_monitor.py"),
    "monitor: an alarm that does not stay": Mutant("monitoring/monitor.py", 'finding |= {"verdict": "violated", end: kept', 'finding |= {end: kept', "unit/monitoring/test_monitor.py"),
    "Clopper-Pearson: lower limit without its row": Mutant("confidence/single.py", "n - x + 1, level), 0.0)", "n - x, level), 0.0)", "claims/test_intervals.py"),
    "Clopper-Pearson: the other side": Mutant("confidence/single.py", 'if side == "upper":', 'if side == "lower":', "claims/test_intervals.py"),
    "Clopper-Pearson: both sides at the whole level": Mutant("confidence/single.py", '/ (2 if side == "two-sided" else 1)', "/ 1", "claims/test_intervals.py"),
    "effective trials: variance blind to outcomes": Mutant("confidence/single.py", "np.minimum(kish, p * (1 - p) * w**2 / spread)", "kish", "claims/test_mean_intervals.py"),
    "effective trials: failures' weights left out": Mutant("confidence/single.py", "+ np.maximum(w2 - hit2, 0) * p**2", "", "claims/test_mean_intervals.py"),
    "Bernstein: without its second term": Mutant("confidence/single.py", "+ 7 * length * log / (3 * (size - 1))", "", "claims/test_mean_intervals.py"),
    "MOVER: widths added up": Mutant("confidence/rates.py", "np.sqrt((np.where(c != 0, c * width, 0.0) ** 2).sum(-1))", "np.abs(np.where(c != 0, c * width, 0.0)).sum(-1)", "unit/confidence/test_contrasts.py"),
    "MOVER: the other limit": Mutant("confidence/rates.py", "np.where(above, (high - middle)[..., index], (middle - low)[..., index])", "np.where(above, (middle - low)[..., index], (high - middle)[..., index])", "claims/test_intervals.py"),
    "MOVER: a quarter of a row": Mutant("confidence/rates.py", "np.where(n > 0, 0.5 / n, np.inf)", "np.where(n > 0, 0.25 / n, np.inf)", "unit/confidence/test_contrasts.py"),
    "rates: no Bonferroni": Mutant("confidence/rates.py", "check_level(alpha) / share, method, transform)", "check_level(alpha), method, transform)", "claims/test_intervals.py"),
    "ratios: no Bonferroni": Mutant("confidence/rates.py", "ends(check_level(alpha) / len(ab))", "ends(check_level(alpha))", "claims/test_intervals.py"),
    "ratios: no half row": Mutant("confidence/rates.py", "half = np.divide(0.5, n,", "half = np.divide(0.0, n,", "claims/test_intervals.py"),
    "ratios: lower root": Mutant("confidence/rates.py", "a * b + np.sqrt(w * w * room + b * b * v * v)", "a * b + np.sqrt(w * w * room)", "claims/test_intervals.py"),
    "ratios: upper root": Mutant("confidence/rates.py", "np.sqrt(a * a * w * w + v * v * slope)", "np.sqrt(a * a * w * w)", "claims/test_intervals.py"),
    "rows needed: no Bonferroni": Mutant("confidence/rates.py", "level = alpha / _sharing(contrasts, together, method)\n", "level = alpha\n", "claims/test_intervals.py"),
    "the largest contrast: half of the error": Mutant("confidence/contrasts.py", "return GapBounds(value, lower, float(singles.max())", "return GapBounds(value, lower, float(uppers.max())", "unit/confidence/test_contrasts.py"),
    "rows needed: met shares the error": Mutant("confidence/contrasts.py", "upper(which, n, 1)) - bound", "upper(which, n, len(contrasts))) - bound", "claims/test_intervals.py"),
    "certificate: goes on after a failure": Mutant("estimators/certifying.py", 'if tested[-1].verdict != "met":', "if False:", "unit/estimators/test_certifying.py"),
    "certificate: the first that passed": Mutant("estimators/certifying.py", "taken = passed[-1] if passed", "taken = passed[0] if passed", "unit/estimators/test_certifying.py"),
    "certificate: looser bounds": Mutant("estimators/certifying.py", "max(bound.stated - by, LEFT", "max(bound.stated + by, LEFT", "unit/estimators/test_certifying.py"),
    "certificate: the costly kept": Mutant("estimators/certifying.py", "if not out or one.cost < out[-1].cost", "if not out or one.cost > out[-1].cost", "unit/estimators/test_certifying.py"),
    "pairs: as if no two pairs met": Mutant("confidence/contrasts.py", "int((sizes**2 // 4).sum())", "int((sizes // 2).sum())", "unit/confidence/test_contrasts.py"),
    "pairs: without room": Mutant("confidence/rates.py", "np.where(-sharp >= ROOM * (sharp - estimate)", "np.where(-sharp >= -9 * ROOM * (sharp - estimate)", "claims/test_intervals.py"),
    "contrasts: met where the lower bound is": Mutant("confidence/contrasts.py", "if upper <= bound:", "if lower <= bound:", "unit/confidence/test_contrasts.py"),
    "ratios: at least read as at most": Mutant("confidence/contrasts.py", "verdict(-self.upper, -self.lower, -bound)", "verdict(self.lower, self.upper, bound)", "unit/confidence/test_contrasts.py"),
    "contrasts: a cell twice counts once": Mutant("confidence/contrasts.py", "sums[:, j + 1] += np.where(again[:, j], sums[:, j], 0.0)", "sums[:, j + 1] += 0.0", "unit/confidence/test_contrasts.py"),
    "rows needed: one too many": Mutant("confidence/contrasts.py", "while high - low > 1:", "while high - low > 2:", "claims/test_intervals.py"),
    "betting: a bolder bet": Mutant("confidence/betting.py", "np.sqrt(2 * target / (size", "np.sqrt(4 * target / (size", "claims/test_mean_intervals.py"),
    "betting: a gambler without a cap": Mutant("confidence/betting.py", "CAP = 0.75", "CAP = 1.5", "claims/test_mean_intervals.py"),
    "betting: half of the capital": Mutant("confidence/betting.py", "target = np.log(1 / level)", "target = np.log(0.5 / level)", "claims/test_mean_intervals.py"),
    "betting: a bet that sees its own row": Mutant("confidence/betting.py", "before((w * (x - mean)) ** 2)) / (earlier + 1)", "before((w * (x - mean)) ** 2) + (w * (x - mean)) ** 2) / (earlier + 1)", "claims/test_mean_intervals.py"),
    "betting: weights left out": Mutant("confidence/betting.py", "np.minimum(bet, CAP / m) * w * (x - m)", "np.minimum(bet, CAP / m) * (x - m)", "claims/test_mean_intervals.py"),
    "Welch: variance of one row": Mutant("confidence/means.py", "contrasts.coefficient**2 * (v / safe)", "contrasts.coefficient**2 * (v / safe**0.5)", "claims/test_mean_intervals.py"),
    "Welch: freedom": Mutant("confidence/means.py", "(parts**2 / (safe - 1)", "(parts**2 / (safe)", "claims/test_mean_intervals.py"),
    "Welch: no Bonferroni": Mutant("confidence/means.py", "check_level(alpha) / len(contrasts), least_rows)", "check_level(alpha), least_rows)", "claims/test_mean_intervals.py"),
    "betting: no Bonferroni": Mutant("confidence/means.py", "check_level(alpha) / max(sharing, 1)", "check_level(alpha)", "claims/test_mean_intervals.py"),
    "moments: weights' variance": Mutant("confidence/means.py", "(w * (x - mean[cell])) ** 2", "w * (x - mean[cell]) ** 2", "claims/test_mean_intervals.py"),
    # fairness: rates and row functions
    "rates: of a share": Mutant("fairness/statistics.py", "a * p, below, out", "p, below, out", "claims/test_notions_exact.py"),
    "rates: denominator of a share": Mutant("fairness/statistics.py", "below = b * p + c * (1 - p)", "below = p + c * (1 - p)", "claims/test_notions_exact.py"),
    "rates: failures of F1": Mutant("fairness/statistics.py", "((0, 1), (1, 0)), (2, 2, 1))", "((0, 1), (1, 0)), (2, 1, 1))", "claims/test_notions_exact.py"),
    "rates: the best selection rate is the lowest": Mutant("fairness/statistics.py", '_rate("selection_rate", SELECTED, ((1, 0), (1, 0)))', '_rate("selection_rate", SELECTED, ((1, 0), (1, 0)), better=False)', "claims/test_notions_exact.py::test_the_best_off_group_is_at_no_distance_from_itself"),
    "rates: false omissions among the selected": Mutant("fairness/statistics.py", '"false_omission_rate", ((0, 0), (1, 0)), ((1, 0), (0, 0))', '"false_omission_rate", ((0, 0), (1, 0)), ((0, 1), (0, 0))', "claims/test_notions_exact.py"),
    "row functions: false negatives as true positives": Mutant("fairness/statistics.py", "np.stack([table[rate.condition]] * 2)", "np.stack([table[rate.condition][::-1]] * 2)", "claims/test_notions_exact.py"),
    "row functions: errors by one label": Mutant("fairness/statistics.py", "first + (second - first) * y", "first + second * y", "claims/test_notions_exact.py"),
    "row functions: slope of the negative decision": Mutant("fairness/statistics.py", "- of(negative, y, s) * rate.slope(-s, y)", "+ of(negative, y, s) * rate.slope(-s, y)", "claims/test_notions_exact.py::test_verbs_agree_with_central_differences"),
    "row functions: a score of 0 is two decisions": Mutant("fairness/statistics.py", "return of(negative, y, s) + of(positive - negative, y, s) * yes", "return of(positive, y, s) * yes + of(negative, y, s) * rate.value(-s, y)", "claims/test_notions_exact.py::test_a_score_of_zero_is_one_decision"),
    "losses: not cut off": Mutant("fairness/statistics.py", "loss.value(s, y).clamp_max(largest)", "loss.value(s, y)", "claims/test_notions_exact.py"),
    "logistic: slope": Mutant("fairness/pointwise.py", "torch.sigmoid(s) - y,", "torch.sigmoid(s) + y,", "claims/test_problem.py"),
    "sigmoid: sharpness left out of the slope": Mutant("fairness/pointwise.py", "return (p - p * p) * sharpness", "return p - p * p", "claims/test_problem.py"),
    # fairness: comparisons and contrasts
    "differences: both directions alike": Mutant("fairness/comparing.py", "index = np.stack([np.stack([one, two], -1), np.stack([two, one], -1)]", "index = np.stack([np.stack([one, two], -1), np.stack([one, two], -1)]", "claims/test_notions_exact.py"),
    "differences: a sum of rates": Mutant("fairness/comparing.py", "np.broadcast_to(np.array([1.0, -1.0])", "np.broadcast_to(np.array([1.0, 1.0])", "claims/test_notions_exact.py"),
    "sums: two patterns of four": Mutant("fairness/comparing.py", "[s, -s, t, -t]", "[s, -s, s, -s]", "claims/test_notions_exact.py"),
    "ratios: of the group that is compared": Mutant("fairness/comparing.py", "np.stack([np.stack([two, one], -1), np.stack([one, two], -1)]", "np.stack([np.stack([one, two], -1), np.stack([two, one], -1)]", "unit/fairness/test_judging.py"),
    "ratios: the bound on the other group": Mutant("fairness/comparing.py", "np.array([ratio, -1.0])", "np.array([1.0, -ratio])", "unit/fairness/test_judging.py"),
    "strata: groups of several are compared": Mutant("fairness/comparing.py", "self.stratum[a] == self.stratum[b]", "self.stratum[a] >= 0", "claims/test_notions_exact.py::test_a_group_within_no_other_of_its_stratum_is_compared_with_none"),
    "strata: of the wrong attribute": Mutant("fairness/comparing.py", "np.prod(self.sizes[self.within :])", "np.prod(self.sizes[: self.within])", "unit/fairness/test_compiled.py"),
    "best: the worst-off": Mutant("fairness/notions/groups.py", '1 if higher or self.compares == "ratios" else -1', '-1 if higher or self.compares == "ratios" else 1', "claims/test_notions_exact.py::test_the_best_off_group_is_at_no_distance_from_itself"),
    "best: sign of its difference": Mutant("fairness/notions/groups.py", "coefficient, words, bound = [sign, -sign]", "coefficient, words, bound = [-sign, sign]", "claims/test_notions_exact.py::test_the_best_off_group_is_at_no_distance_from_itself"),
    "best: the bound on the best-off group": Mutant("fairness/notions/groups.py", "coefficient, words, bound = [self.bound, -1.0]", "coefficient, words, bound = [1.0, -self.bound]", "unit/fairness/test_judging.py"),
    "ratios: spare": Mutant("fairness/notions/groups.py", "(1 - self.bound) * occurring.of_label(1)", "self.bound * occurring.of_label(1)", "unit/fairness/test_compiled.py"),
    "class rates: the share of the others": Mutant("fairness/pointwise.py", "lambda s, y: rate.value(-behind(s)[0], y), slope,", "lambda s, y: rate.value(behind(s)[0], y), slope,", "unit/fairness/test_class_rates.py"),
    "class rates: slope of the others": Mutant("fairness/pointwise.py", "return -rate.slope(-deficit, y).unsqueeze(-1) * along", "return rate.slope(-deficit, y).unsqueeze(-1) * along", "unit/fairness/test_class_rates.py"),
    "class rates: of the row's own class": Mutant("fairness/notions/class_rates.py", "rows.predicted == predicted", "rows.target == predicted", "unit/fairness/test_class_rates.py"),
    "class rates: macro as a sum": Mutant("fairness/comparing.py", "np.repeat([1.0, -1.0], values) / values", "np.repeat([1.0, -1.0], values)", "unit/fairness/test_class_rates.py"),
    "predicted numbers: residuals the wrong way round": Mutant("fairness/notions/regression.py", "lambda s, y: s - y, lambda", "lambda s, y: s + y, lambda", "unit/estimators/test_regressor.py"),
    "predicted numbers: squared errors in units of the label": Mutant("fairness/notions/regression.py", "bound=self.bound / scale**2", "bound=self.bound / scale", "unit/estimators/test_regressor.py"),
    "predicted numbers: thresholds not moved": Mutant("fairness/notions/regression.py", "(t - shift) / scale for t", "t / scale for t", "unit/estimators/test_regressor.py"),
    "reduction: prices the wrong way": Mutant("postprocessing/sweep.py", "self._cost + self.program.matrix.T @ prices", "self._cost - self.program.matrix.T @ prices", "unit/estimators/test_reduction.py"),
    "reduction: the threshold of the row before": Mutant("postprocessing/sweep.py", "np.append(middle, -np.inf)[last]", "np.append(np.inf, middle)[last]", "unit/estimators/test_reduction.py"),
    "tables: differences of the wrong sign": Mutant("metrics/table.py", "lambda low, high: high - low", "lambda low, high: low - high", "unit/metrics/test_tables.py"),
    "tables: the best group against all rows": Mutant("metrics/table.py", "worst(of(min(v, everyone), max(v, everyone)) for v in values)", "min(of(min(v, everyone), max(v, everyone)) for v in values)", "unit/metrics/test_tables.py"),
    "tables: intervals of one side": Mutant("metrics/table.py", "tail = (1 - self.confidence) / 2", "tail = 1 - self.confidence", "unit/metrics/test_tables.py"),
    "streams: groups in the order of their coming": Mutant("metrics/stream.py", "groups = Groups(counts.cells[:, :-2], counts.attributes, counts.labels)", "groups = Groups(counts.cells[:, :-2], counts.attributes, tuple(v[::-1] for v in counts.labels))", "unit/metrics/test_tables.py"),
    "ratios: value": Mutant("fairness/notions/groups.py", "of_other, of_group = terms[..., 0], terms[..., 1]", "of_group, of_other = terms[..., 0], terms[..., 1]", "claims/test_notions_exact.py"),
    "losses: cut off in training only": Mutant("fairness/notions/groups.py", "np.minimum(rows.loss, self.largest)", "rows.loss", "claims/test_notions_exact.py"),
    "group loss: of other groups": Mutant("fairness/comparing.py", "* (k + 1) + np.arange(k)", "* (k + 1) + 1 + np.arange(k)", "unit/fairness/test_judging.py"),
    "group loss: under other names": Mutant("fairness/comparing.py", "r, g = divmod(i, len(self.compared))", "g, r = divmod(i, len(self.tails))", "unit/fairness/test_judging.py"),
    "judging: rows of no weight are rows": Mutant("fairness/scored.py", "np.asarray(self.weight) > 0", "np.asarray(self.weight) >= 0", "unit/fairness/test_judging.py"),
    "judging: two rates of zero are no ratio": Mutant("fairness/judging.py", "np.where(of_group == of_other, 1.0, np.inf)", "np.where(of_group == of_other, 0.0, np.inf)", "unit/fairness/test_judging.py"),
    "quantities: slope of what is undefined": Mutant("fairness/contrasts.py", "w = torch.where(memo.defined, w, 0.0)", "pass", "claims/test_notions_exact.py::test_what_is_undefined_on_a_batch_is_a_constant"),
    "quantities: undefined along a direction": Mutant("fairness/contrasts.py", "torch.where(memo.defined, dg, 0.0)", "dg", "claims/test_notions_exact.py::test_what_is_undefined_on_a_batch_is_a_constant"),
    "cells: the other label's": Mutant("fairness/notions/groups.py", "own = column.offset + place * column.groups", "own = column.offset + (len(conditions) - 1 - place) * column.groups", "claims/test_notions_exact.py"),
    "quantities: ratio's numerator": Mutant("fairness/contrasts.py", "dq = dq.index_add(-1, self.ratios[:, 0], safe)", "dq = dq.index_add(-1, self.ratios[:, 0], safe, alpha=-1)", "claims/test_notions_exact.py::test_verbs_agree_with_central_differences"),
    "quantities: ratio's denominator": Mutant("fairness/contrasts.py", "safe * moves, alpha=-1)", "safe * moves)", "claims/test_notions_exact.py::test_verbs_agree_with_central_differences"),
    "quantities: ratio along a direction": Mutant("fairness/contrasts.py", "(above - moves * below)", "(above + moves * below)", "claims/test_notions_exact.py::test_verbs_agree_with_central_differences"),
    "quantities: an undefined ratio is met": Mutant("fairness/contrasts.py", "UNDEFINED = 1.0", "UNDEFINED = -1.0", "claims/test_notions_exact.py::test_an_undefined_ratio_is_missed_and_never_zero"),
    "contrasts: dual scale": Mutant("fairness/contrasts.py", "return np.concatenate([0.25 / largest", "return np.concatenate([4 * largest", "unit/fairness/test_compiled.py"),
    "cells: the second group's sign": Mutant("fairness/contrasts.py", "scatter_add_(0, self._second, -w)", "scatter_add_(0, self._second, w)", "claims/test_problem.py"),
    "cells: means of absent rows": Mutant("fairness/reduction.py", "entries = dq.gather(-1, cells) * self.shares", "entries = dq.gather(-1, cells)", "claims/test_problem.py"),
    "shards: means of the own part": Mutant("fairness/batches.py", "self._totals = self.shards.sum(totals)", "self._totals = totals", "claims/test_sharded_rows.py -k whole_table"),
    "shards: gradients of the own part": Mutant("fairness/verbs.py", "return self.shards.sum(tape.vjp(self._row_slopes(", "return (tape.vjp(self._row_slopes(", "claims/test_sharded_rows.py -k whole_table"),
    "shards: batches stand for the whole table": Mutant("fairness/batches.py", "else self.rows / index.shape[-1]", "else self.total_rows / index.shape[-1]", "claims/test_sharded_rows.py -k unbiased"),
    "shards: medians not weighted": Mutant("tables/in_parts.py", "np.average(part[:, 0], weights=part[:, 1])", "np.average(part[:, 0])", "claims/test_sharded_rows.py -k encoder"),
    "parts: spread between means forgotten": Mutant("tables/merging.py", "self.square += other.square + apart * apart * (", "self.square += other.square + 0 * (", "unit/tables/test_chunks.py"),
    "cells: entries not weighed": Mutant("fairness/reduction.py", "(inverse.gather(-1, flat) * w)", "(inverse.gather(-1, flat))", "claims/test_problem.py"),
    "objective: every group's loss for the largest": Mutant("fairness/quantities.py", "share = torch.zeros_like(share).scatter(-1, largest, share.gather(-1, largest))", "pass", "claims/test_notions_exact.py::test_the_largest_group_loss_is_the_objective"),
    "objective: the smallest group loss": Mutant("fairness/quantities.py", "else terms.amax(-1)", "else terms.amin(-1)", "claims/test_notions_exact.py::test_the_largest_group_loss_is_the_objective"),
    "objective: weight of a sum": Mutant("fairness/quantities.py", "index_add(-1, index, share * w0)", "index_add(-1, index, w0 + 0 * share)", "unit/fairness/test_compiled.py"),
    "combinations: slope left out": Mutant("fairness/quantities.py", "dq = dq + combination.vjp(part, memo)", "dq = dq - combination.vjp(part, memo)", "claims/test_forms.py"),
    "statistics: slope's sign": Mutant("fairness/quantities.py", "of_scores = ds if of_scores is None", "of_scores = -ds if of_scores is None", "claims/test_forms.py"),
    "classes: recall for error": Mutant("fairness/notions/classes.py", "return error if self.recall is None else 1 - error", "return error", "claims/test_class_risk.py"),
    "classes: recall's limits not mirrored": Mutant("fairness/notions/classes.py", '"lower": 1 - error["upper"], "upper": 1 - error["lower"]', '"lower": 1 - error["lower"], "upper": 1 - error["upper"]', "claims/test_class_risk.py"),
    # fairness: verdicts
    "judging: overall by equal weights": Mutant("fairness/judging.py", "share = totals / np.maximum(totals.sum(1, keepdims=True), 1e-300)", "share = np.full(totals.shape, 1 / k)", "claims/test_notions_exact.py"),
    "judging: rows of no group": Mutant("fairness/values.py", "trial = among & (group >= 0)", "trial = among & (group >= -1)", "claims/test_notions_exact.py"),
    "judging: weights not squared": Mutant("fairness/values.py", "(w * hit, w, square * hit, square)", "(w * hit, w, w * hit, w)", "unit/audits/test_effective_size.py"),
    "judging: shares' weights not squared": Mutant("fairness/values.py", "square[both].sum(), square[among].sum()", "w[both].sum(), w[among].sum()", "unit/audits/test_effective_size.py"),
    "judging: the ratio turned over": Mutant("fairness/judging.py", "sets.index[:, ::-1], alpha)", "sets.index, alpha)", "unit/fairness/test_judging.py"),
    "judging: rows needed of another bound": Mutant("fairness/judging.py", "contrasts, 0.0 if ratios else float(bound.bound)", "contrasts, float(bound.bound)", "unit/fairness/test_judging.py"),
    "judging: the largest contrasts last": Mutant("fairness/judging.py", 'sign = 1.0 if bounds.sense == "at least" else -1.0', 'sign = -1.0 if bounds.sense == "at least" else 1.0', "unit/fairness/test_judging.py"),
    "judging: a group without rows is met": Mutant("fairness/judging.py", 'verdict = "violated" if verdict == "violated" else "insufficient"', "pass", "unit/audits/test_audit.py"),
    "audit: bounds do not share the chance of error": Mutant("audits/audit.py", "alpha = (1 - confidence) / max(len(bounds), 1)", "alpha = 1 - confidence", "unit/audits/test_audit.py"),
    # problems
    "rebounded: shift the wrong way": Mutant("problems/wrappers.py", "self.shift = stated - made", "self.shift = made - stated", "unit/problems/test_wrappers.py"),
    "penalised: strength left out": Mutant("problems/penalised.py", "e._replace(f=e.f + self.strength * value, g=g)", "e._replace(f=e.f + value, g=g)", "unit/problems/test_wrappers.py"),
    "penalised: strength left out of the slope": Mutant("problems/penalised.py", "factor = w0 * self.strength", "factor = w0", "unit/problems/test_wrappers.py"),
    "linearised: gradient added": Mutant("problems/differences.py", "plus - self.lower.gradient(", "plus + self.lower.gradient(", "unit/problems/test_differences.py"),
    "linearised: tangent left out": Mutant("problems/differences.py", "minus.g + along[..., 1:])", "minus.g)", "unit/problems/test_differences.py"),
    "dual set: the smallest entry": Mutant("problems/dual_sets.py", "value, place = G.max(-1, keepdim=True)", "value, place = G.min(-1, keepdim=True)", "unit/problems/test_dual_sets.py"),
    "dual set: diameter": Mutant("problems/dual_sets.py", "return math.log(size)", "return math.log(size) / 2", "unit/problems/test_dual_sets.py"),
    # thresholds of groups
    "curves: only the upper side": Mutant("postprocessing/curves.py", "for sign in (1.0, -1.0)]", "for sign in (1.0,)]", "claims/test_thresholds.py"),
    "curves: equal scores are told apart": Mutant("postprocessing/curves.py", "np.append(s[1:] != s[:-1], True)", "np.append(s[1:] == s[1:], True)", "claims/test_thresholds.py"),
    "curves: a threshold at the score above": Mutant("postprocessing/curves.py", "0.5 * high + 0.5 * low", "high + 0 * low", "unit/postprocessing/test_postprocessor.py"),
    "program: a false negative costs nothing": Mutant("postprocessing/program.py", "np.array([self.costs[0], -self.costs[1]])", "np.array([self.costs[0], -self.costs[0]])", "claims/test_thresholds.py"),
    "program: cells without their fixed part": Mutant("postprocessing/program.py", "return Program(curves, used, base[used] * inverse", "return Program(curves, used, 0 * base[used] * inverse", "claims/test_thresholds.py"),
    "program: only the first best-off group": Mutant("postprocessing/program.py", "row_of += [row] * len(candidates)", "candidates = candidates[:1]; row_of += [row]", "claims/test_thresholds.py"),
    "optimum: a bound without the multipliers": Mutant("postprocessing/optimum.py", "(multipliers @ program.matrix).reshape(-1, 2) + program.prices", "0 * (multipliers @ program.matrix).reshape(-1, 2) + program.prices", "claims/test_thresholds.py"),
    "optimum: a bound without the bounds": Mutant("postprocessing/optimum.py", "float(multipliers @ program.fixed) + least", "least", "claims/test_thresholds.py"),
    "single thresholds: excesses allowed": Mutant("postprocessing/deterministic.py", "self.program.excess(self.selected(points)) <= ROUNDING", "self.program.excess(self.selected(points)) <= 0.02", "claims/test_thresholds.py"),
    "single thresholds: the search stops at once": Mutant("postprocessing/deterministic.py", "if floor > cost - step - SOLVED:", "if nodes < WORK // len(spans):", "claims/test_thresholds.py"),
    "single thresholds: one point left out of the parts": Mutant("postprocessing/deterministic.py", "parts = [(first, cut), (cut + 1, last)]", "parts = [(first, cut), (cut + 2, last)]", "claims/test_thresholds.py"),
    "rule: a draw for each call": Mutant("postprocessing/rule.py", 'f"{seed}/{row}"', 'f"{row}"', "unit/postprocessing/test_postprocessor.py"),
    "rule: shares the other way round": Mutant("postprocessing/rule.py", "(above * np.array(shares)).sum(1)", "(above * np.array(shares[::-1])).sum(1)", "claims/test_thresholds.py"),
    # areas under ROC curves
    "wins: ties count whole": Mutant("ranking/wins.py", "won + table.T @ table / 2", "won + table.T @ table", "unit/ranking/test_wins.py"),
    "wins: packed ties to the later cell": Mutant("ranking/wins.py", "above += (pairs - pairs.T) / 2", "pass", "unit/ranking/test_wins.py"),
    "wins: negative scores upside down": Mutant("ranking/packed.py", "own ^= (own >> 63)", "own ^= 0 * (own >> 63)", "unit/ranking/test_wins.py"),
    "wins: lost bits taken for ties": Mutant("ranking/packed.py", "None if tied and used & int(low)", "None if False", "unit/ranking/test_wins.py"),
    "areas: one sample's variance": Mutant("confidence/auc.py", "parts[inside] += factor", "parts[inside] = factor", "unit/confidence/test_areas.py"),
    "areas: variance of the rows without one": Mutant("confidence/auc.py", "np.sqrt(size / (size - 1))", "np.sqrt(1 + 0 * size)", "unit/confidence/test_areas.py"),
    "areas: correlation left out": Mutant("confidence/auc.py", "spread = spread + 2 * signed", "spread = spread + 0 * signed", "unit/confidence/test_areas.py"),
    "areas: no prior": Mutant("confidence/auc.py", "PRIOR = 3.0", "PRIOR = 1e-9", "unit/confidence/test_areas.py"),
    "auc_parity: inter is intra": Mutant("fairness/areas.py", '"inter": (own, negatives + other, other, negatives + own)', '"inter": (own, negatives + own, other, negatives + other)', "claims/test_auc_parity.py"),
    "auc_parity: everyone without the groups left out": Mutant("fairness/areas.py", "group[k] = True", "group[k, compared.codes] = True", "claims/test_auc_parity.py"),
    "pairs: slope of one side": Mutant("fairness/pair_losses.py", "turned = (C.transpose(-1, -2) - C) @ W", "turned = -2 * C @ W", "claims/test_auc_parity.py"),
    "pairs: ramp twice as wide": Mutant("fairness/pair_losses.py", "half = 0.5 / self.sharpness", "half = 1 / self.sharpness", "claims/test_auc_parity.py"),
    "pairs: one variance": Mutant("fairness/pair_losses.py", "of_variance = C.sum(-1) + C.sum(-2)", "of_variance = C.sum(-1)", "claims/test_auc_parity.py"),
    "pairs: grid's slope of one side": Mutant("fairness/pair_losses.py", "return (turned * grid.slopes(", "return (-2 * (C @ W) * grid.slopes(", "claims/test_auc_parity.py"),
    "pairs: a row counts at one point": Mutant("fairness/pair_losses.py", "W * (1 - share)).scatter_add_", "W).scatter_add_", "claims/test_auc_parity.py"),
    "moments: merged without the gap": Mutant("rows/moments.py", "self.scatter + other.scatter + between", "self.scatter + other.scatter", "unit/rows/test_moments.py"),
    "quadratics: half the minimiser": Mutant("subproblems/quadratics.py", "y @ self._b[1:]) / -2", "y @ self._b[1:]) / -4", "unit/subproblems/test_quadratics.py"),
    "linear auc: the gap of means left out": Mutant("fairness/linear_auc.py", "+ gap[:, :, None] * gap[:, None, :])", ")", "claims/test_linear_auc.py"),
    "saddle: a sum for a difference": Mutant("fairness/pair_saddle.py", "F = self.c1 - G", "F = self.c1 + G", "claims/test_pair_saddle.py"),
    "dual set: alpha without its curvature": Mutant("problems/dual_sets.py", "before - of_a / (2 * self.curvature)", "before - of_a / 2", "claims/test_pair_saddle.py"),
    "dual set: support without its curvature": Mutant("problems/dual_sets.py", "alpha = (v / (2 * self.curvature))", "alpha = (v / 2)", "claims/test_pair_saddle.py"),
    # which rows
    "rows: a quarter of those that show a difference": Mutant("fairness/bound.py", "0.25 / max(self.bound, 0.01) ** 2", "0.0625 / max(self.bound, 0.01) ** 2", "unit/fairness/test_compiled.py"),
    "rows: those that show a ratio": Mutant("fairness/notions/ratios.py", "1 / max(1 - self.bound, 0.05) ** 2", "1 / max(self.bound, 0.05) ** 2", "unit/fairness/test_compiled.py"),
    "tables: sums halved elsewhere": Mutant("tables/numbers.py", "half = n // 2 - n // 2 % 8", "half = n // 3", "unit/tables/test_numbers.py"),
    "tables: variances of parts not joined": Mutant("tables/merging.py", "(before * n / (before + n))", "before", "unit/tables/test_chunks.py"),
    "tables: gaps of parts at the mean": Mutant("tables/in_parts.py", "out[missing, at] = median", "pass", "unit/tables/test_chunks.py"),
    "audit: bins of merged groups mixed up": Mutant("audits/counts.py", "wide[place[:-1]] = self.bins[a]", "wide[: len(self.bins[a])] = self.bins[a]", "unit/audits/test_counts.py"),
    "solver: training bounds forgotten": Mutant("solver/run.py", "torch.maximum(train.violation, held.violation)", "held.violation", "unit/solver/test_validation_rows.py"),
    "classifier: validation rows trained on": Mutant("estimators/problems.py", "problem = build(first, kept)", "problem = build(features, in_place=False)", "unit/estimators/test_held_rows.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_text_to_break_is_there_once(name):
    mutant = MUTANTS[name]
    assert (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1, f"bring {name!r} up to date"
    assert mutant.old != mutant.new and (ROOT / "tests" / mutant.tests.split("::")[0]).is_file()


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_formula_is_noticed(name, tmp_path):
    mutant = MUTANTS[name]
    shutil.copytree(PACKAGE, tmp_path / "fairbound", ignore=shutil.ignore_patterns("__pycache__"))
    broken = tmp_path / "fairbound" / mutant.file
    broken.write_text(broken.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *f"tests/{mutant.tests}".split()],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 1, f"{name!r} lives:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
