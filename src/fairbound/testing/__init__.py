"""For authors of methods and problems: problems with a known optimum, and checks of what `solve` relies on.

from fairbound.testing import PROBLEMS, check_gradient, conformance

check_gradient(my_problem)                                             # your problem's four verbs
for make in PROBLEMS.values():
    conformance(MyMethod(), make)                                      # your method's init and step
"""

from fairbound.testing.checks import (
    CHECKS,
    Reached,
    check_counts,
    check_device,
    check_domain,
    check_dtype,
    check_optimum,
    check_repeatable,
    check_resume,
    check_stacked,
    conformance,
)
from fairbound.testing.known import KnownProblem, Optimum
from fairbound.testing.level_sets import LEVEL_SETS, linear_program
from fairbound.testing.problems import PROBLEMS
from fairbound.testing.running import Spy, differences, run
from fairbound.testing.slopes import check_gradient, check_subgradient

__all__ = [
    "CHECKS",
    "LEVEL_SETS",
    "PROBLEMS",
    "KnownProblem",
    "Optimum",
    "Reached",
    "Spy",
    "check_counts",
    "check_device",
    "check_domain",
    "check_dtype",
    "check_gradient",
    "check_optimum",
    "check_repeatable",
    "check_resume",
    "check_stacked",
    "check_subgradient",
    "conformance",
    "differences",
    "linear_program",
    "run",
]
