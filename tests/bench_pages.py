"""What a reader's phone gets: Lighthouse, validity and weight of the built pages; `make bench`
prints them.
"""

import functools
import gzip
import http.server
import json
import os
import re
import shutil
import statistics
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

from rich.table import Table

from course_press.exports.book import chromium

PAGES = (
    "en/index.html",
    "en/chapters/en/rooflines.html",
    "en/chapters/en/measured-predicted.html",
    "es/chapters/es/int8-problems.html",
    "ko/chapters/ko/lab-00.html",
)
TARGETS = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 95}
FIRST_VISIT = 200_000
"""Bytes that a first visit may ask for, compressed; interactive figures come on top."""
RUNS = 5
"""Lighthouse runs a page: the median counts, for performance follows what else the machine does."""


class Compressed(http.server.SimpleHTTPRequestHandler):
    """Serves files as a host of static pages does: over HTTP/1.1, text compressed."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Send one file."""
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        data = as_sent(file)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(file)))
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=31536000")
        self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


def as_sent(file: Path) -> bytes:
    """A file's bytes over the wire."""
    return gzip.compress(file.read_bytes())


@contextmanager
def served(site: Path):
    """The site on a free port of this machine."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Compressed, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def weight(site: Path, page: str) -> int:
    """Bytes that the first visit to a page asks for: the page, its scripts, and its styles, which
    hold the fonts.
    """
    text = (site / page).read_text(encoding="utf-8")
    files = {(site / page).resolve()}
    for link in re.findall(r'(?:<link rel="(?:stylesheet|icon)" href|<script src)="([^"]+)"', text):
        files.add((site / page).parent.joinpath(link).resolve())
    return sum(len(as_sent(file)) for file in files)


def lighthouse(address: str, command: list[str]) -> tuple[dict[str, int], dict[str, float]]:
    """Lighthouse's median scores of a page on a phone, and its layout shift, its
    largest paint and how long it was busy, in milliseconds, and the machine's speed.
    """
    scores: dict[str, list[float]] = {name: [] for name in TARGETS}
    beside: dict[str, list[float]] = {"shift": [], "paint": [], "blocked": [], "speed": []}
    flags = ["--quiet", "--output=json", "--chrome-flags=--headless=new --no-sandbox --disable-gpu"]
    wanted = [f"--only-categories={','.join(TARGETS)}"]
    for _ in range(RUNS):
        env = {**os.environ, "CHROME_PATH": str(chromium())}
        done = subprocess.run(
            [*command, address, *flags, *wanted],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        report = json.loads(done.stdout)
        for name in TARGETS:
            scores[name].append(report["categories"][name]["score"] * 100)
        beside["shift"].append(report["audits"]["cumulative-layout-shift"]["numericValue"])
        beside["paint"].append(report["audits"]["largest-contentful-paint"]["numericValue"])
        beside["blocked"].append(report["audits"]["total-blocking-time"]["numericValue"])
        beside["speed"].append(report["environment"]["benchmarkIndex"])
    medians = {name: round(statistics.median(values)) for name, values in scores.items()}
    return medians, {name: statistics.median(values) for name, values in beside.items()}


def invalid(site: Path, java: str, jar: str) -> list[str]:
    """What the W3C's checker calls an error in any page."""
    command = [java, "-jar", jar, "--skip-non-html", "--errors-only", "--format", "gnu", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()


def budgets(site: Path) -> Table:
    """The table that `make bench` prints; what is not installed is named."""
    table = Table("pages", "measured", "target", box=None)
    pages = [file.relative_to(site).as_posix() for file in sorted(site.glob("*/**/*.html"))]
    pages = [page for page in pages if "/slides/" not in page]
    weights = {page: weight(site, page) for page in pages}
    heaviest = max(weights, key=lambda page: weights[page])
    for page in dict.fromkeys([*PAGES, heaviest]):
        table.add_row(
            f"{page}, first visit, compressed",
            f"{weights[page] / 1e3:.0f} kB",
            f"< {FIRST_VISIT / 1e3:.0f} kB",
        )
    for lang in sorted(file.parent.name for file in site.glob("*/search.js")):
        if lang != "assets":
            kilobytes = len(as_sent(site / lang / "search.js")) / 1e3
            table.add_row(f"{lang}, the search, when reached for", f"{kilobytes:.0f} kB", "")
    installed = shutil.which("lighthouse")
    command = [installed] if installed else ["npx", "--yes", "lighthouse@12"]
    missing = [
        name
        for name, there in (("npx", shutil.which(command[0])), ("chromium", chromium()))
        if not there
    ]
    if missing:
        table.add_row("Lighthouse", f"not measured: {' and '.join(missing)} not found", "")
    else:
        with served(site) as address:
            for page in PAGES:
                scores, beside = lighthouse(f"{address}/{page}", command)
                for name, target in TARGETS.items():
                    table.add_row(f"{page}, {name}", str(scores[name]), f">= {target}")
                table.add_row(f"{page}, layout shift", f"{beside['shift']:.3f}", "< 0.1")
                table.add_row(f"{page}, largest paint", f"{beside['paint'] / 1e3:.1f} s", "< 2.5 s")
                table.add_row(f"{page}, busy", f"{beside['blocked']:.0f} ms", "< 200 ms")
                table.add_row(
                    "speed of this machine by Lighthouse",
                    f"{beside['speed']:.0f}",
                    "> 1000, or performance says little",
                )
    java, jar = shutil.which("java"), os.environ.get("VNU_JAR")
    if not (java and jar):
        table.add_row(
            "errors by vnu",
            "not measured: needs java, and VNU_JAR=path/to/vnu.jar (npm install vnu-jar)",
            "0",
        )
    else:
        errors = invalid(site, java, jar)
        table.add_row(
            "errors by vnu", str(len(errors)) + "".join(f"\n{line}" for line in errors[:5]), "0"
        )
    return table
