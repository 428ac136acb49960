"""The documentation's site: built once, served on a free port, and opened in a browser."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import sync_playwright

from scripts.pictures import BROWSER
from tests.support.deadlines import within

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> pathlib.Path:
    """The folder of the site, built with every warning an error, by the first worker of a run that needs it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "site"
    with open(shared / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # Without --quiet, which silences --strict: warnings are then neither shown nor counted.
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
            environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def server(site) -> Iterator[str]:
    """Serves the site until the tests end; its address, without a slash at the end."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def new_page():
    """Opens a page of a real browser without a window, with the options of `Browser.new_page`."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "no chromium on the PATH: scripts/install_chromium.sh installs it"
    with (
        sync_playwright() as playwright,
        contextlib.closing(playwright.chromium.launch(executable_path=chromium, args=list(BROWSER))) as running,
    ):

        def open_page(**options):
            page = running.new_page(**options)
            page.set_default_timeout(1000 * within(30))
            return page

        yield open_page
