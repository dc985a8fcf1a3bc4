"""Downloads, against local files and a local server standing in for the publishers."""

import gzip
import hashlib
import http.server
import io
import threading
import zipfile
from dataclasses import replace

import pytest

from fairbound.base.errors import DataError, OptionError
from fairbound.data import FileInfo, fetch, info
from fairbound.data import catalog as catalog_module

pytest.importorskip("pandas")
TEXT = b"race,name,y\nw,Ann,1\nb,Bo,0\n"


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def offered(monkeypatch, tmp_path):
    """offered(content, ...) makes "law-school" a data set of one file offered at a file: address."""

    def make(content, **changes):
        source = tmp_path / "offered.bin"
        source.write_bytes(content)
        file = replace(FileInfo("f.csv.gz", digest(TEXT), url=source.as_uri()), **changes)
        monkeypatch.setitem(catalog_module.TABLE, "law-school", replace(info("law-school"), files=(file,)))
        return tmp_path / "data"

    return make


def test_fetch_packs_reports_and_keeps(offered):
    folder = offered(TEXT)
    seen = []
    (path,) = fetch("law-school", folder, lambda url, size, total: seen.append((size, total)))
    assert gzip.decompress(path.read_bytes()) == TEXT
    assert seen == [(len(TEXT), len(TEXT))]
    stamp = path.stat().st_mtime_ns
    assert fetch("law-school", folder) == [path]
    assert path.stat().st_mtime_ns == stamp


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


def test_a_failing_network_names_the_url_and_the_alternative(monkeypatch, offered):
    monkeypatch.setenv("no_proxy", "*")
    url = "http://127.0.0.1:9/file.csv"
    with pytest.raises(DataError, match=rf"cannot download {url}: .*FAIRBOUND_DATA"):
        fetch("law-school", offered(TEXT, url=url))
    url = "file:///nowhere/file.csv"
    with pytest.raises(DataError, match=f"cannot download {url}"):
        fetch("law-school", offered(TEXT, url=url))


class Publisher(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/cut" else 404)
        self.send_header("Content-Length", str(len(TEXT)))
        self.end_headers()
        self.wfile.write(TEXT[:10])

    def log_message(self, *args):
        pass


def test_a_cut_download_and_a_missing_page(monkeypatch, offered):
    monkeypatch.setenv("no_proxy", "*")
    with http.server.HTTPServer(("127.0.0.1", 0), Publisher) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            base = f"http://127.0.0.1:{server.server_address[1]}"
            with pytest.raises(DataError, match=r"stopped after 10 of 27 bytes|cannot download"):
                fetch("law-school", offered(TEXT, url=f"{base}/cut"))
            with pytest.raises(DataError, match=f"cannot download {base}/gone: .*Not Found"):
                fetch("law-school", offered(TEXT, url=f"{base}/gone"))
        finally:
            server.shutdown()
            thread.join()


def test_raw_census_files(monkeypatch, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("psam_p40.csv", "AGEP\n1\n")
    (tmp_path / "2018" / "1-Year").mkdir(parents=True)
    (tmp_path / "2018" / "1-Year" / "csv_pok.zip").write_bytes(packed.getvalue())
    monkeypatch.setattr("fairbound.data.download.CENSUS", tmp_path.as_uri())
    (path,) = fetch("acs-income", tmp_path / "data", state="ok", year=2018)
    assert path == tmp_path / "data" / "2018" / "1-Year" / "psam_p40.csv"
    assert path.read_text() == "AGEP\n1\n"
    with pytest.raises(DataError, match=r"2019/1-Year/csv_pok\.zip"):
        fetch("acs-income", tmp_path / "data", state="OK", year=2019)


def test_what_cannot_be_fetched_is_said(tmp_path):
    assert fetch("loanapp", tmp_path) == []
    with pytest.raises(DataError, match=r"nobody publishes.*acs-income with state='CO'"):
        fetch("acs-income-co", tmp_path)
    with pytest.raises(OptionError, match="state and year choose raw files"):
        fetch("adult", tmp_path, year=2019)
    with pytest.raises(OptionError, match="state must be"):
        fetch("acs-income", tmp_path, state="XX")
