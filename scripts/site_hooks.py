"""What mkdocs does besides its own when it builds the site (see mkdocs.yml).

Pages of `docs/` are written for two readers: of the site, and of the repository on a code host or a disk. So they link
to files and folders of the repository by relative paths, and write equations into ```math fences. On the site

- each file or folder that is linked gets a page of its own, under `source/`, that shows it;
- a fenced equation becomes a picture of curves, drawn while the site is built: no script, no font.
"""

from __future__ import annotations

import html
import io
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[1]

BORROWED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that are files at the root of the repository."""

_LINK = re.compile(r"(?<!!)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LANGUAGES = {
    ".gin": "python",
    ".json": "json",
    ".md": "markdown",
    ".proto": "protobuf",
    ".py": "python",
    ".sh": "bash",
    ".toml": "toml",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the fence for equations."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": equation})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the borrowed pages, and one for each file and folder of the repository that a page links to."""
    for name, source in BORROWED.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    waiting = sorted({target for file in files.documentation_pages() for target in _linked(file, files)})
    for target in waiting:  # grows
        if files.get_file_from_path(_page_of(target)) is None:
            shown = _shown(target, files)
            files.append(File.generated(config, _page_of(target), content=shown, inclusion=InclusionLevel.NOT_IN_NAV))
            if target.is_dir():
                waiting += [member for member in _members(target) if not _in_site(member, files)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files of the repository into links to their pages."""

    def relinked(link: re.Match[str]) -> str:
        target = _target(page.file, link[1], files)
        if target is None:
            return link[0]
        return f"]({_relative(_name_of(target, files), page.file.src_uri)}{link[2] or ''})"

    return _outside_code(markdown, lambda text: _LINK.sub(relinked, text))


def _linked(file: File, files: Files) -> Iterator[pathlib.Path]:
    """The files and folders of the repository that a page links to and that the site doesn't have."""
    found: list[str] = []
    _outside_code(file.content_string, lambda text: found.extend(link[1] for link in _LINK.finditer(text)) or text)
    for link in found:
        target = _target(file, link, files)
        if target is not None and _name_of(target, files) == _page_of(target):
            yield target


def _target(file: File, link: str, files: Files) -> pathlib.Path | None:
    """The path in the repository that a link of a page leads to; None if it is one of the site, or nowhere."""
    if file.src_uri.startswith("source/"):
        return None
    place = ROOT / BORROWED[file.src_uri] if file.src_uri in BORROWED else ROOT / "docs" / file.src_uri
    target = pathlib.Path(os.path.normpath(place.parent / link))
    if not target.exists() or not target.is_relative_to(ROOT):
        return None
    return None if _in_site(target, files) and file.src_uri not in BORROWED else target


def _in_site(target: pathlib.Path, files: Files) -> bool:
    """Whether the site has a path of the repository as it is."""
    return target.is_relative_to(ROOT / "docs") and files.get_file_from_path(_docs_name(target)) is not None


def _docs_name(target: pathlib.Path) -> str:
    return target.relative_to(ROOT / "docs").as_posix()


def _name_of(target: pathlib.Path, files: Files) -> str:
    """The page of the site that shows a path of the repository."""
    for name, source in BORROWED.items():
        if target == ROOT / source:
            return name
    return _docs_name(target) if _in_site(target, files) else _page_of(target)


def _page_of(target: pathlib.Path) -> str:
    name = target.relative_to(ROOT).as_posix()
    return f"source/{name}/index.md" if target.is_dir() else f"source/{name}.md"


def _relative(name: str, page: str) -> str:
    """The link from one page of the site to another."""
    return os.path.relpath(name, os.path.dirname(page) or ".")


def _members(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files below a folder that are text."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path for path in files if path.suffix not in (".png", ".gif", ".mp4"))


def _shown(target: pathlib.Path, files: Files) -> str:
    """A page, in Markdown, that shows a file or lists a folder."""
    name = target.relative_to(ROOT).as_posix()
    head = f"---\ntitle: {name}\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# `{name}`\n\n"
    if target.is_dir():
        return head + "".join(
            f"- [`{member.relative_to(target).as_posix()}`]({_relative(_name_of(member, files), _page_of(target))})\n"
            for member in _members(target)
        )
    text = target.read_text(encoding="utf-8").rstrip("\n")
    fence = "`" * (2 + max((len(ticks) for ticks in re.findall("`+", text)), default=1))
    fence = fence if len(fence) > 2 else "```"
    return f"{head}{fence} {_LANGUAGES.get(target.suffix, 'text')}\n{text}\n{fence}\n"


def _outside_code(markdown: str, change: Callable[[str], Any]) -> str:
    """Markdown with what isn't code changed."""
    parts, end = [], 0
    for code in _FENCED.finditer(markdown):
        parts += [change(markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(markdown[end:])])


def equation(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """A fence with an equation in LaTeX, as a picture in the color of the text."""
    return f'<div class="{css_class}">{_drawn(" ".join(source.split()))}</div>'


def _drawn(latex: str) -> str:
    figure = Figure()
    figure.text(0, 0, f"${latex}$", fontsize=14)
    drawn = io.StringIO()
    with rc_context({"mathtext.fontset": "stix", "svg.fonttype": "path", "svg.hashsalt": latex}):
        figure.savefig(
            drawn,
            format="svg",
            transparent=True,
            bbox_inches="tight",
            pad_inches=0.02,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="(figure|patch|text)_\d+"', "", svg)  # the same in each picture
    label = html.escape(latex, quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" fill="currentColor" ', 1)
