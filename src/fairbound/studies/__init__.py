"""Papers' experiments as data (TOML files) and a runner that writes records; nothing here draws.

`run_study("deep-benchmark", "OUT")` runs the benchmark of KLBM25 and `run_study("level-set", "OUT")` the figures of
LNSY20; `fairbound.report.study_report` draws what was written. A study is of a kind (`registry.KINDS`), which says what
its cells do and how they are summed up; loading, running, restarting and merging are the same for all.
"""

from fairbound.studies.registry import load_spec, names
from fairbound.studies.runner import StudyRun, run_study
from fairbound.studies.spec import StudySpec

__all__ = ["StudyRun", "StudySpec", "load_spec", "names", "run_study"]
