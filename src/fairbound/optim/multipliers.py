"""How the multipliers of a `Dual` move: y <- [y + eta g]_+, w = [y + rho g]_+."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.methods.alm import ALM
from fairbound.methods.primal import decayed


def moved(
    state: dict[str, Any], config: ALM, scale: np.ndarray, g: np.ndarray, fresh: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """g, y and w (m,) after an update. state: of a `Dual`, k steps of which `weighed` had passed at the last one;
    scale: (m,) see `dual_scale`; fresh: (m,) which contrasts had rows since then,
    None where all had: the others keep their g and y."""
    slower = decayed(state["k"], config.decay_steps, config.decay) * (state["k"] - state["weighed"]) / config.dual_every
    y = state["multipliers"] + config.dual_step_size * slower * (scale * g)
    y = np.minimum(np.maximum(y, 0), config.multiplier_bound)
    if fresh is not None:
        g, y = np.where(fresh, g, state["g"]), np.where(fresh, y, state["multipliers"])
    return g, y, np.minimum(np.maximum(y + config.penalty * scale * g, 0), config.multiplier_bound)
