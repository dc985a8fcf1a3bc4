"""Standard output that nobody reads to its end, as in `fairbound audit ... | head -1`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairbound.cli import app as cli

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")


@pytest.fixture
def audited(tmp_path):
    """The words of an audit whose bound is met."""
    rows = "".join(f"{sex},{k % 2},{k % 2}\n" for sex in "FM" for k in range(400))
    (tmp_path / "d.csv").write_text("sex,approved,paid\n" + rows)
    bound = ("--group", "sex", "--constraint", "demographic_parity <= 0.3")
    judged = ("audit", "--data", tmp_path / "d.csv", "--label", "paid", "--score", "approved")
    return [*judged, *bound, "--out", tmp_path / "out"]


def code_of(words, *, closed):
    """The exit code, and what is printed of errors, where the readers of these streams have gone."""
    read, write = os.pipe()
    os.close(read)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "fairbound", *map(str, words)],
            **{name: write if name in closed else subprocess.PIPE for name in ("stdout", "stderr")},
            timeout=120,
        )
    finally:
        os.close(write)
    return ran.returncode, (ran.stderr or b"").decode()


@pytest.mark.long
def test_a_process_keeps_the_exit_code_of_a_verdict_where_nobody_reads_it(audited, tmp_path):
    code, said = code_of(audited, closed=("stdout",))
    assert code == 0 and "Broken pipe" not in said and "Exception" not in said
    assert (tmp_path / "out" / "audit.json").exists() and (tmp_path / "out" / "report.html").exists()


def test_a_verdict_keeps_its_exit_code_where_nobody_reads_it(audited, tmp_path, monkeypatch):
    """In this process, whose standard output is a pipe without a reader."""
    read, write = os.pipe()
    os.close(read)
    with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert cli.main([str(word) for word in audited]) == 0
    assert (tmp_path / "out" / "audit.json").exists() and (tmp_path / "out" / "report.html").exists()


def test_help_and_wrong_use_keep_theirs(audited):
    assert code_of(["--help"], closed=("stdout",)) == (0, "")
    assert code_of([*audited, "--nonsense"], closed=("stderr",))[0] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_kept_is_an_error():
    with open("/dev/full", "w") as full:
        ran = subprocess.run([sys.executable, "-m", "fairbound", "--version"], stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2 and b"could not print to <stdout>: No space left on device" in ran.stderr


def test_a_file_to_write_whose_reader_goes_is_an_error(run, monkeypatch):
    from fairbound.cli import datasets

    def gone(*_):
        raise BrokenPipeError(32, "could not write 'p': Broken pipe")

    monkeypatch.setattr(datasets, "list_datasets", gone)
    code, _, said = run("datasets", "list")
    assert code == 2 and "could not write 'p'" in said


@pytest.fixture
def printed(audited, tmp_path, monkeypatch):
    """(exit code, standard output) of an audit with a group "Mé日", for an encoding and what is done with its errors."""
    file = tmp_path / "d.csv"
    file.write_text(file.read_text().replace("\nM", "\nMé日"), encoding="utf-8")

    def call(encoding, errors, *more):
        out = io.BytesIO()
        stream = io.TextIOWrapper(out, encoding=encoding, errors=errors)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stream)
            code = cli.main([str(word) for word in (*audited, *more)])
        stream.flush()
        assert stream.errors == errors
        return code, out.getvalue().decode(encoding)

    return call


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_verdict_is_printed_in_any_encoding(printed, encoding, errors):
    """Of a console without Unicode, as of LC_ALL=C: what it lacks is written otherwise, and the exit code is the verdict's."""
    code, text = printed(encoding, errors)
    table, group = {
        "ascii": ("| constraint ", r"M\xe9\u65e5"),
        "latin-1": ("| constraint ", r"Mé\u65e5"),
        "utf-8": ("│ constraint ", "Mé日"),
    }[encoding]
    assert code == 0 and text.startswith("Bound met") and table in text and group in text
    code, text = printed(encoding, errors, "--json")
    said = json.loads(text)
    assert code == said["exit_code"] == 0 and set(said["constraints"][0]["groups"]) == {"F", "Mé日"}
    assert ("日" in text) == (encoding == "utf-8")
    code, text = printed(encoding, errors, "--constraint", "demographic_parity_ratio >= 0.99999")
    assert code == 3 and "Not enough evidence" in text
