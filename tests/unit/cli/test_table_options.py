"""What a command may say of how its table is read: jumps, and columns of categories."""

from __future__ import annotations

import numpy as np
import pandas as pd

import fairbound as fb


def test_categories_and_jumps_of_a_model_are_as_the_command_says(run, tmp_path):
    rng = np.random.default_rng(0)
    towns = [f"t{i:02}" for i in range(60)]
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 900), "town": rng.choice(towns, 900)})
    frame["code"] = rng.integers(0, 300, 900)
    frame["y"] = (frame["code"].mod(100).between(41, 65) ^ (rng.random(900) < 0.1)).astype(int)
    frame.to_csv(tmp_path / "people.csv", index=False)
    common = ("fit", "--data", tmp_path / "people.csv", "--label", "y", "--group", "sex", "--no-baseline")
    network = (*common, "--constraint", "demographic_parity <= 0.3", "--model", "mlp:3", "--budget", "20 steps")
    features = {}
    for name, options in {"own": (), "fewer": ("--max-categories", 4, "--jumps", 0)}.items():
        out = tmp_path / name
        code, _, err = run(*network, *options, "--algorithm", "alm", "--out", out)
        assert code in (0, 1, 3), err
        encoder = fb.FairClassifier.load(out / "model").encoder_
        features[name] = sum(feature.startswith("town=") for feature in encoder.feature_names)
        assert bool(encoder.jumping) == (name == "own")
        report = (out / "report.html").read_text()
        assert ("--jumps 0 leaves that out" in report) == (name == "own")
        assert ("--max-categories gives more" in report) == (name == "fewer")
    assert features == {"own": 60, "fewer": 4}
    assert "--max-categories" in run(*network, "--max-categories", 1, "--out", tmp_path / "none")[2]
