"""The site as a reader's browser sees it: all pages, links, pictures and the search."""

from __future__ import annotations

import html.parser
import pathlib
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import pytest


class Parsed(NamedTuple):
    """What a page refers to and can be referred to by."""

    ids: set[str]
    links: list[str]
    """Of anchors, pictures, scripts and styles, as they are written."""


class Parser(html.parser.HTMLParser):
    """Collects ids and links."""

    def __init__(self):
        super().__init__()
        self.parsed = Parsed(set(), [])

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.parsed.ids.add(value)
            elif name in ("href", "src") and value is not None and tag != "base":
                self.parsed.links.append(value)


def parse(text: str) -> Parsed:
    parser = Parser()
    parser.feed(text)
    return parser.parsed


def file_of(site: pathlib.Path, path: str) -> pathlib.Path:
    """The file that a server gives for a path of an address."""
    file = site / unquote(path).lstrip("/")
    return file / "index.html" if path.endswith("/") else file


def pages_of(site: pathlib.Path) -> list[str]:
    """Paths of all pages, as they are linked."""
    found = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [f"/{name.removesuffix('index.html')}" for name in found if name != "404.html"]


def broken_links(site: pathlib.Path) -> list[str]:
    """A phrase for each link of a page that leads to no file, or to no place in its page."""
    parsed = {page: parse(file_of(site, page).read_text(encoding="utf-8")) for page in pages_of(site)}
    broken = []
    for page, found in parsed.items():
        for link in found.links:
            target = urlsplit(urljoin(f"http://site{page}", link))
            if target.scheme not in ("http", "https") or target.netloc != "site":
                continue
            if not file_of(site, target.path).is_file():
                broken.append(f"{page} links to {link}, which is not there")
            elif target.fragment and unquote(target.fragment) not in parsed[target.path].ids:
                broken.append(f"{page} links to {link}, which has no such place")
    return broken


def visit(browser, *urls: str) -> list[str]:
    """A phrase for everything that is wrong with pages, as the browser shows them one after the other."""
    wrong, url = [], ""
    page = browser.new_page()
    page.on("console", lambda message: message.type == "error" and wrong.append(f"{url} says {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{url} fails with {error}"))
    page.on("request", lambda request: _is_foreign(request.url, url) and wrong.append(f"{url} asks {request.url}"))
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


def test_the_site_has_a_page_for_each_file_of_the_documentation(site):
    root = pathlib.Path(__file__).resolve().parents[2] / "docs"
    names = {path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.md")}
    wanted = {f"/{name.removesuffix('README').removesuffix('index').rstrip('/')}/".replace("//", "/") for name in names}
    assert len(wanted) > 20
    assert wanted <= set(pages_of(site))


def test_every_page_loads_without_an_error_a_missing_picture_or_a_request_to_another_host(site, server, browser):
    pages = pages_of(site)
    assert len(pages) > 30
    assert visit(browser, *(f"{server}{page}" for page in pages)) == []


def test_every_internal_link_and_anchor_leads_somewhere(site):
    assert broken_links(site) == []


def test_the_search_box_finds_the_replay_ratio(server, browser):
    page = browser.new_page()
    page.goto(server)
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("replay ratio")
    hit = page.locator(".md-search-result__link", has_text="replay ratio").first
    hit.wait_for()
    page.goto(urljoin(f"{server}/", hit.get_attribute("href")))
    assert "replay ratio" in page.locator("article").inner_text().lower()
    page.close()


def test_equations_are_drawn_with_the_color_of_the_text(server, browser):
    page = browser.new_page(color_scheme="dark")
    page.goto(f"{server}/concepts/")
    equation = page.locator(".math svg").first
    assert "rho" in equation.get_attribute("aria-label")
    text = page.locator("article p").first.evaluate("e => getComputedStyle(e).color")
    assert equation.locator("use").first.evaluate("e => getComputedStyle(e).fill") == text
    page.close()


def test_a_link_to_a_file_of_the_repository_shows_the_file(server, browser):
    page = browser.new_page()
    page.goto(f"{server}/environments/")
    page.get_by_role("link", name="envs/gym.py").click()
    page.wait_for_url("**/source/envs/gym.py/")
    assert "class Gym(EnvConfig)" in page.locator("article").inner_text()
    page.close()


@pytest.fixture
def small_site(tmp_path):
    """Makes a folder with the given pages."""

    def make(**pages: str) -> pathlib.Path:
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text)
        return tmp_path

    return make


def test_a_link_to_a_missing_page_is_found(small_site):
    site = small_site(index='<a href="other.html">', one='<a href="index.html">')
    assert broken_links(site) == ["/ links to other.html, which is not there"]


def test_a_link_to_a_missing_anchor_is_found(small_site):
    site = small_site(index='<p id="here"><a href="#here"><a href="one.html#there">', one="")
    assert broken_links(site) == ["/ links to one.html#there, which has no such place"]


def test_a_request_to_another_host_is_found(small_site, serve, browser):
    url = serve(small_site(index='<script src="http://127.0.0.2:9/script.js"></script>'))
    assert f"{url}/ asks http://127.0.0.2:9/script.js" in visit(browser, f"{url}/")


def test_a_missing_picture_is_found(small_site, serve, browser):
    url = serve(small_site(index='<link rel="icon" href="data:,"><img src="curve.png">'))
    assert f"{url}/ shows no picture {url}/curve.png" in visit(browser, f"{url}/")


def test_an_error_of_a_script_is_found(small_site, serve, browser):
    url = serve(small_site(index='<link rel="icon" href="data:,"><script>missing()</script>'))
    assert visit(browser, f"{url}/") == [f"{url}/ fails with missing is not defined"]
