"""The site as a reader's browser sees it. The strict build has checked the links between pages."""

from __future__ import annotations

import pathlib
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from PIL import Image


def pages_of(site: pathlib.Path) -> list[str]:
    """Paths of all pages, as they are linked."""
    found = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [f"/{name.removesuffix('index.html')}" for name in found if name != "404.html"]


def visit(browser, *urls: str) -> list[str]:
    """A phrase for each problem that the browser has with these pages."""
    wrong, url = [], ""
    page = browser.new_page()
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


class Loaded(HTMLParser):
    """Paths of what a page loads: its scripts in order, and its pictures, styles and icons."""

    def __init__(self, page: pathlib.Path):
        super().__init__()
        self._folder = page.parent
        self.scripts: list[pathlib.Path] = []
        self.others: set[pathlib.Path] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        is_loaded = tag != "a" and named.get("rel") not in ("prev", "next")
        url = named.get("src") or (named.get("href") if is_loaded else None)
        if url is not None:
            path = (self._folder / url).resolve()  # a file that isn't there if it is on another host
            self.scripts.append(path) if tag == "script" else self.others.add(path)


def test_every_page_of_the_documentation_is_there_and_loads_files_of_the_site_only(site):
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    names = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")}
    wanted = {f"/{name.removesuffix('README').removesuffix('index').rstrip('/')}/".replace("//", "/") for name in names}
    assert len(wanted) > 20
    assert wanted <= set(pages_of(site))
    loaded = [Loaded(site / page[1:] / "index.html") for page in pages_of(site)]
    assert all(each.scripts == loaded[0].scripts for each in loaded), "what a browser says about one page holds for all"
    files = {*loaded[0].scripts, *(path for each in loaded for path in each.others)}
    assert [path for path in files if not (path.is_file() and path.is_relative_to(site.resolve()))] == []
    pictures = [path for path in files if path.suffix == ".png"]
    assert len(pictures) > 20
    for path in pictures:
        with Image.open(path) as picture:
            picture.verify()


def test_pages_of_every_kind_load_without_an_error_or_a_request_to_another_host(server, browser):
    kinds = ("", "concepts/", "api/agents/", "results/", "source/envs/gym.py/")
    assert visit(browser, *(f"{server}/{page}" for page in kinds)) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<script src="http://127.0.0.2:9/a.js"></script>', "{url}/ requests http://127.0.0.2:9/a.js"),
        ('<link rel="icon" href="data:,"><img src="curve.png">', "{url}/ shows no picture {url}/curve.png"),
        ('<link rel="icon" href="data:,"><script>missing()</script>', "{url}/ fails with missing is not defined"),
    ],
)
def test_a_problem_is_found(tmp_path, serve, browser, html, problem):
    (tmp_path / "index.html").write_text(html)
    url = serve(tmp_path)
    assert problem.format(url=url) in visit(browser, f"{url}/")


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


def test_equations_have_the_color_of_the_text_and_links_to_the_repository_show_the_file(server, browser):
    page = browser.new_page(color_scheme="dark")
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
