"""Downloads, against a local server standing in for the publishers."""

import gzip
import hashlib
import http.server
import io
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace

import pytest

from fairbound.base.errors import DataError, OptionError
from fairbound.data import FileInfo, fetch, info
from fairbound.data import catalog as catalog_module

pytest.importorskip("pandas")
pytest.importorskip("pooch")
TEXT = b"race,name,y\nw,Ann,1\nb,Bo,0\n"


def digest(content):
    return hashlib.sha256(content).hexdigest()


class Publisher(http.server.ThreadingHTTPServer):
    """A server of the files in `offered` (path -> content); of those in `cut` it sends ten bytes less."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.offered, self.cut, self.asked = {}, set(), []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.server.offered.get(self.path)
        self.server.asked.append(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write((content or b"")[: -10 if self.path in self.server.cut else None])

    def log_message(self, *args):
        pass


@pytest.fixture
def publisher(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with Publisher() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def offered(monkeypatch, tmp_path, publisher):
    """offered(content, ...) makes "law-school" a data set of one file that the publisher offers."""

    def make(content, **changes):
        publisher.offered["/offered.bin"] = content
        file = replace(FileInfo("f.csv.gz", digest(TEXT), url=f"{publisher.address}/offered.bin"), **changes)
        monkeypatch.setitem(catalog_module.TABLE, "law-school", replace(info("law-school"), files=(file,)))
        return tmp_path / "data"

    return make


def test_fetch_packs_and_keeps(offered, publisher):
    folder = offered(TEXT)
    (path,) = fetch("law-school", folder)
    assert gzip.decompress(path.read_bytes()) == TEXT
    stamp = path.stat().st_mtime_ns
    assert fetch("law-school", folder) == [path]
    assert path.stat().st_mtime_ns == stamp and publisher.asked == ["/offered.bin"]
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_drawn_on_standard_error_where_asked(offered, capfd, progress):
    fetch("law-school", offered(TEXT * 1000, sha256=digest(TEXT * 1000)), progress=progress)
    out, error = capfd.readouterr()
    assert out == "" and ("100%" in error) == progress


def test_fetch_takes_a_member_of_an_archive(offered):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("in/f.csv", TEXT)
    (path,) = fetch("law-school", offered(packed.getvalue(), member="in/f.csv"))
    assert gzip.decompress(path.read_bytes()) == TEXT
    with pytest.raises(DataError, match=r"no file 'g.csv'"):
        fetch("law-school", offered(packed.getvalue(), member="g.csv", path="other.gz"))
    with pytest.raises(DataError, match="no intact zip archive"):
        fetch("law-school", offered(packed.getvalue()[:30], member="in/f.csv", path="other.gz"))


def test_names_of_people_are_never_stored(offered):
    kept = b"race,y\nw,1\nb,0\n"
    folder = offered(TEXT, sha256=digest(kept), original_sha256=digest(TEXT), columns=("race", "y"))
    (path,) = fetch("law-school", folder)
    assert gzip.decompress(path.read_bytes()) == kept
    assert [p for p in folder.rglob("*") if p.is_file()] == [path]


@pytest.mark.parametrize("which", ["sha256", "original_sha256"])
def test_other_content_is_refused_and_not_stored(offered, which):
    folder = offered(TEXT, **{which: "0" * 64}, columns=("race", "name", "y"))
    with pytest.raises(DataError, match=f"{'0' * 64} expected, {digest(TEXT)} found. Nothing was stored"):
        fetch("law-school", folder)
    assert not list(folder.iterdir())


def test_a_wrong_file_already_there_is_named(offered):
    folder = offered(TEXT)
    folder.mkdir()
    (folder / "f.csv.gz").write_bytes(gzip.compress(b"else"))
    with pytest.raises(DataError, match=r"f.csv.gz' is not the published one"):
        fetch("law-school", folder)


def test_a_failing_network_names_the_url_and_the_alternative(offered, publisher):
    for url in ("http://127.0.0.1:9/file.csv", f"{publisher.address}/gone"):
        folder = offered(TEXT, url=url)
        with pytest.raises(DataError, match=rf"cannot download {url}: .*FAIRBOUND_DATA"):
            fetch("law-school", folder)
        assert not list(folder.iterdir())


def test_a_cut_download_is_refused_and_not_stored(offered, publisher):
    folder = offered(TEXT)
    publisher.cut.add("/offered.bin")
    with pytest.raises(DataError, match=r"cannot download .*offered\.bin: .*Try again"):
        fetch("law-school", folder)
    assert not list(folder.iterdir())


def test_without_pooch_the_extra_is_named(offered, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'fairbound\[data\]'"):
        fetch("law-school", offered(TEXT))


def test_importing_the_package_loads_nothing_that_could_reach_a_network():
    code = "import sys, fairbound.data.download; sys.exit(bool({'pooch', 'requests', 'urllib3'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_raw_census_files(monkeypatch, tmp_path, publisher):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("psam_p40.csv", "AGEP\n1\n")
    publisher.offered["/2018/1-Year/csv_pok.zip"] = packed.getvalue()
    monkeypatch.setattr("fairbound.data.download.CENSUS", publisher.address)
    (path,) = fetch("acs-income", tmp_path, state="ok", year=2018)
    assert path == tmp_path / "2018" / "1-Year" / "psam_p40.csv"
    assert path.read_text() == "AGEP\n1\n"
    with pytest.raises(DataError, match=r"2019/1-Year/csv_pok\.zip"):
        fetch("acs-income", tmp_path, state="OK", year=2019)


def test_what_cannot_be_fetched_is_said(tmp_path):
    assert fetch("loanapp", tmp_path) == []
    with pytest.raises(DataError, match=r"nobody publishes.*acs-income with state='CO'"):
        fetch("acs-income-co", tmp_path)
    with pytest.raises(OptionError, match="state and year choose raw files"):
        fetch("adult", tmp_path, year=2019)
    with pytest.raises(OptionError, match="state must be"):
        fetch("acs-income", tmp_path, state="XX")
