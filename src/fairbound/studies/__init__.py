"""Published experiments as data (TOML files), and a runner that writes their records.

`run_study("deep-benchmark", "OUT")` runs the benchmark of KLBM25 and `run_study("level-set", "OUT")` the figures of
LNSY20; `fairbound.report.study_report` draws what was written. A study is a TOML file and at most one module of
measures (`deep_benchmark`, `level_set`), which says what a cell runs and measures; all else is the same for every
study.
"""

from fairbound.studies.library import load_spec, names
from fairbound.studies.runner import StudyRun, run_study
from fairbound.studies.spec import StudySpec

__all__ = ["StudyRun", "StudySpec", "load_spec", "names", "run_study"]
