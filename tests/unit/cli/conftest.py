"""A command line run in this process."""

from __future__ import annotations

import pytest

from fairbound.cli import app as cli


@pytest.fixture
def run(capsys):
    """(exit code, standard output, standard error) of a command line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.main([str(a) for a in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
