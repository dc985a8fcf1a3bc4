"""The page in a real browser: it lays out, says the verdict, runs nothing and asks the network for nothing."""

from __future__ import annotations

import http.server
import shutil
import struct
import subprocess
import threading
import zlib

import pytest

import report_examples as examples
from fairbound import report

pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no 'chromium' on PATH: the page was not opened in a browser")
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def browse(address: str, tmp_path, *options: str) -> str:
    command = [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", *options, address]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def pixels(png: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and the distinct colours of an 8-bit, non-interlaced PNG."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", png[16:29])
    assert (depth, interlace) == (8, 0)
    size = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (n,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + n]
        at += n + 12
    raw, row, colors = zlib.decompress(data), bytearray(width * size), set()
    for y in range(height):
        start = y * (width * size + 1)
        row = unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), row, size)
        if y % 8 == 0:
            colors |= {bytes(row[x : x + 3]) for x in range(0, width * size, size)}
    return width, height, colors


def unfilter(kind: int, line: bytearray, above: bytearray, size: int) -> bytearray:
    """One row of a PNG, its filter undone (PNG specification, section 9)."""
    for i in range(len(line)):
        left, up, corner = (line[i - size] if i >= size else 0), above[i], (above[i - size] if i >= size else 0)
        if kind == 1:
            line[i] = (line[i] + left) % 256
        elif kind == 2:
            line[i] = (line[i] + up) % 256
        elif kind == 3:
            line[i] = (line[i] + (left + up) // 2) % 256
        elif kind == 4:
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = (line[i] + near) % 256
    return line


def shows(dom: str, word: str, tables: int) -> None:
    assert f'<p class="word">{word}</p>' in dom
    assert dom.count("<table") == tables and dom.count("<caption>") == tables
    assert "<script" not in dom and "<img" not in dom
    assert "<title>owned" not in dom


@pytest.mark.parametrize(
    ("example", "word", "tables"),
    [
        (examples.mortgage, "Not enough evidence", 5),
        pytest.param(examples.large_met, "Bound met", 5, marks=pytest.mark.long),
        pytest.param(examples.large_violated, "Bound violated", 3, marks=pytest.mark.long),
    ],
)
def test_page_opens_and_shows_the_verdict_and_tables(example, word, tables, tmp_path):
    _, html = report.write_audit(example(), tmp_path)
    shows(browse(html.as_uri(), tmp_path, "--dump-dom"), word, tables)


def test_page_of_hostile_names_opens_and_asks_the_server_for_nothing_but_itself(tmp_path):
    """Served over HTTP, so that even a favicon, a font or a relative file would be counted."""
    _, html = report.write_audit(examples.hostile(), tmp_path)
    asked, body = [], html.read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        dom = browse(f"http://127.0.0.1:{server.server_port}/report.html", tmp_path, "--dump-dom")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert asked == ["/report.html"]
    shows(dom, "Not enough evidence", 4)


@pytest.mark.parametrize(("width", "height"), [pytest.param(1200, 900, marks=pytest.mark.long), (400, 1300)])
def test_screenshot_is_not_blank(width, height, tmp_path):
    _, html = report.write_audit(examples.mortgage(), tmp_path)
    picture = tmp_path / "page.png"
    browse(html.as_uri(), tmp_path, f"--screenshot={picture}", f"--window-size={width},{height}")
    *size, colors = pixels(picture.read_bytes())
    assert size == [width, height]
    assert {bytes.fromhex("f7f6f2"), bytes.fromhex("fbf2d9"), bytes.fromhex("ffffff")} <= colors
    assert len(colors) > 50
