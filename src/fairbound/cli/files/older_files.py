"""What an earlier command left in the folder that a command writes: no report may stand beside the model, the decisions or the
records of another run, and no file goes that no command wrote."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from fairbound.base.errors import OptionError
from fairbound.cli.files.columns import file_checksum
from fairbound.estimators.saving.folder import Folder, files_of_model

BEGINNINGS = {
    "records.jsonl": b'{"step": ',
    "held_out.csv": b"row\n",
    "decisions.csv": b"row,decision,score\n",
    "scores.csv": b"row,held_out,score\n",
    "shift.json": b'{\n  "constraint": ',
    "weights.json": b'{\n  "constraint": ',
}
"""How the files begin that a command which trains writes beside its model and its report: other files of these names are
the user's."""

ELSEWHERE = "write to another folder with {}."


def left_by_others(folder: Path, written: Collection[str]) -> list[str]:
    """The files in `folder` that an earlier run wrote, and that one which writes the files `written` does not replace: of a
    model first what it cannot be loaded without."""
    model = [f"model/{name}" for name in files_of_model(folder / "model")]
    beside = [name for name, start in BEGINNINGS.items() if _begins(folder / name, start)]
    return [name for name in [*model, *beside] if name not in written]


def check_no_other_run(folder: Path, judged: Folder | None, option: str = "--out") -> None:
    """Raises: OptionError as `check_no_other_model`, and where `folder` holds the report of a run that trained another model
    than the one judged, and saved none, or none that is there now."""
    check_no_other_model(folder, judged, option)
    try:
        found = json.loads((folder / "audit.json").read_bytes())
        trained, model = found["data"]["train_rows"] is not None, found["model"].get("checksum")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    if trained and (judged is None or model != f"sha256:{judged.checksum}"):
        raise OptionError(f"{str(folder)!r} holds the report of a run that trained; {ELSEWHERE.format(option)}")


def check_no_other_model(folder: Path, judged: Folder | None = None, option: str = "--out") -> None:
    """Raises: OptionError where `folder` holds a saved model other than the one judged, beside which a report would stand that
    is not of it, and where it is the model's own folder, in which a report would stay when another is saved there. option:
    that names the folder."""
    for place in (folder, folder / "model"):
        if files_of_model(place) and (
            judged is None or file_checksum(str(place / "model.json")) != f"sha256:{judged.checksum}"
        ):
            raise OptionError(
                f"{str(place)!r} is a saved model, and the report would not be of it; {ELSEWHERE.format(option)}"
            )
    if files_of_model(folder):
        raise OptionError(
            f"{str(folder)!r} is the folder of the model itself, and the report would stay there when another is saved in it; "
            f"{ELSEWHERE.format(option)}"
        )


def _begins(path: Path, start: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(start)) == start
