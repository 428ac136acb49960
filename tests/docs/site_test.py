"""The site as a reader's browser sees it. The strict build has checked the links between pages."""

from __future__ import annotations

import os
import pathlib
import re
from urllib.parse import urljoin, urlsplit

from PIL import Image

LOADED = re.compile(r'<(?!a )(\w+) (?![^>]*rel="(?:prev|next)")(?:[^>]* )?(?:src|href)="([^"]*)"')
"""Tags that load something, with its address."""


def visit(new_page, *urls: str) -> list[str]:
    """A phrase for each problem that the browser has with these pages."""
    wrong, url = [], ""
    page = new_page()
    page.on("console", lambda message: message.type == "error" and wrong.append(f"{url} says {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{url} fails with {error}"))
    page.on("request", lambda request: _is_foreign(request.url, url) and wrong.append(f"{url} requests {request.url}"))
    page.on("response", lambda answer: answer.status >= 400 and wrong.append(f"{url} lacks {answer.url}"))
    for url in urls:
        page.goto(url, wait_until="load")
        empty = page.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")
        wrong += [f"{url} shows no picture {source}" for source in empty]
    page.close()
    return wrong


def _is_foreign(requested: str, url: str) -> bool:
    parts = urlsplit(requested)
    return parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(url).netloc


def loaded(page: pathlib.Path) -> tuple[list[pathlib.Path], set[pathlib.Path]]:
    """The scripts that a page loads, in order, and its pictures, styles and icons.

    What it would load from another host is a file that isn't there.
    """
    found = [(tag, (page.parent / url).resolve()) for tag, url in LOADED.findall(page.read_text(encoding="utf-8"))]
    return [path for tag, path in found if tag == "script"], {path for tag, path in found if tag != "script"}


def test_every_page_of_the_documentation_is_there_and_loads_files_of_the_site_only(site):
    pages = {path for path in site.rglob("*.html") if path.name != "404.html"}
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    for name in (path.relative_to(docs).with_suffix("") for path in docs.rglob("*.md")):
        assert site / (name.parent if name.name in ("index", "README") else name) / "index.html" in pages
    for name in ("changelog", "contributing"):
        assert os.readlink(docs / f"{name}.md") == f"../{name.upper()}.md", "a page of the site and of the repository"
    scripts, others = zip(*map(loaded, pages), strict=True)
    assert all(each == scripts[0] for each in scripts), "what a browser says about one page holds for all"
    files = set().union(scripts[0], *others)
    assert [path for path in files if not (path.is_file() and path.is_relative_to(site.resolve()))] == []
    pictures = [path for path in files if path.suffix == ".png"]
    assert len(pictures) > 20
    for path in pictures:
        with Image.open(path) as picture:
            picture.verify()


def test_pages_of_every_kind_load_without_an_error_or_a_request_to_another_host(server, new_page):
    kinds = ("", "concepts/", "api/agents/", "results/", "source/envs/gym.py/")
    assert visit(new_page, *(f"{server}/{page}" for page in kinds)) == []


def test_problems_are_found(tmp_path, new_page):
    sources = '<img src="curve.png"><script src="http://127.0.0.2:9/a.js"></script><script>missing()</script>'
    (tmp_path / "index.html").write_text(sources)
    folder = tmp_path.as_uri()
    assert {
        f"{folder}/index.html shows no picture {folder}/curve.png",
        f"{folder}/index.html requests http://127.0.0.2:9/a.js",
        f"{folder}/index.html fails with missing is not defined",
    } <= set(visit(new_page, f"{folder}/index.html"))


def test_the_search_box_finds_the_replay_ratio(server, new_page):
    page = new_page()
    page.goto(server)
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("replay ratio")
    hit = page.locator(".md-search-result__link", has_text="replay ratio").first
    hit.wait_for()
    page.goto(urljoin(f"{server}/", hit.get_attribute("href")))
    assert "replay ratio" in page.locator("article").inner_text().lower()
    page.close()


def test_equations_have_the_color_of_the_text_and_links_to_the_repository_show_the_file(server, new_page):
    page = new_page(color_scheme="dark")
    page.goto(f"{server}/concepts/")
    equation = page.locator(".math svg").first
    assert "rho" in equation.get_attribute("aria-label")
    text = page.locator("article p").first.evaluate("e => getComputedStyle(e).color")
    assert equation.locator("use").first.evaluate("e => getComputedStyle(e).fill") == text
    page.goto(f"{server}/environments/")
    page.get_by_role("link", name="envs/gym.py").click()
    page.wait_for_url("**/source/envs/gym.py/")
    assert "class Gym(EnvConfig)" in page.locator("article").inner_text()
    page.close()
