"""The oldest versions that pyproject.toml allows, one requirement a line, for `make oldest`."""

import re
import tomllib
from pathlib import Path

EXTRAS = ("data", "parquet", "report", "cli")

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
wanted = list(project["dependencies"])
for extra in EXTRAS:
    wanted += [text for text in project["optional-dependencies"][extra] if not text.startswith("fairbound")]
for text in wanted:
    name, least = re.fullmatch(r"([\w.-]+)>=([\w.]+)", text).groups()
    print(f"{name}=={least}")
