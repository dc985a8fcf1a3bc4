"""Studies of models trained under a fairness bound, measured on training and test rows, as in KLBM25's section 4."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fairbound.studies.fair_models.cell import prepare
from fairbound.studies.fair_models.rows import with_data
from fairbound.studies.fair_models.spec import Study
from fairbound.studies.fair_models.summary import summarise
from fairbound.studies.fair_models.tuning import choose
from fairbound.studies.spec import Kind


def facts(study: Study, chosen: dict[str, Any]) -> dict[str, Any]:
    """What study.json says of these studies alone."""
    return {
        "model": study.model, "batch_size": study.batch_size, "constraint": study.constraint, "bound": study.bound,
        "budget": study.budget, "paper_data": study.paper_data,
        "tuning": {**asdict(study.tuning), "chosen": chosen} if chosen else None,
    }  # fmt: skip


KIND = Kind(spec=Study, prepare=prepare, facts=facts, summarise=summarise, place=with_data, choose=choose)
