"""Hooks for building the site with mkdocs (see mkdocs.yml).

The pages in `docs/` must also be readable in the repository. They therefore link to files and folders of the repository
by relative paths, and write equations in ```math fences. On the site,

- each linked file or folder gets a page under `source/` that shows it;
- the origin of each table that a script writes is folded below it;
- the search leaves out cards and the reference's internals, and finds guides before the reference;
- each equation becomes a vector image, drawn when the site is built, so that it needs no script or font.
"""

import html
import io
import os
import pathlib
import re
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[1]

_CODE_OR_LINK = re.compile(
    r"^(`{3,}|~{3,}).*?^\1[ \t]*$|`[^`\n]+`|(?<!!)\]\((?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)",
    re.MULTILINE | re.DOTALL,
)
_ORIGIN = re.compile(r"^(`scripts/[^`\n]+`, \d{4}-\d\d-\d\d, .*)$", re.MULTILINE)
"""The line of `scripts/pages.py` below a table."""
_INTERNALS = "The inside"
"""The section of the reference (see mkdocs.yml) for those who change the library."""
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
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": equation})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file and folder of the repository linked from a page."""
    pages = list(files.documentation_pages())
    for page in pages:  # grows, because the page of a folder links to its files
        for target in filter(None, (_target(page, match) for match in _CODE_OR_LINK.finditer(page.content_string))):
            name = _name_in_site(target, files)
            if files.get_file_from_path(name) is None:
                made = File.generated(config, name, content=_shown(target), inclusion=InclusionLevel.NOT_IN_NAV)
                files.append(made)
                pages.append(made)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to their pages, and fold the origins of tables."""
    if page.file.src_uri.startswith("pretrained/") or (page.parent and page.parent.title == _INTERNALS):
        page.meta["search"] = {"exclude": True}
    elif page.file.src_uri.startswith("api/"):
        page.meta["search"] = {"boost": 0.5}

    def relinked(match: re.Match[str]) -> str:
        target = _target(page.file, match)
        if target is None:
            return match[0]
        link = os.path.relpath(_name_in_site(target, files), os.path.dirname(page.file.src_uri) or ".")
        return f"]({link}{match['anchor'] or ''})"

    return _ORIGIN.sub(
        r'??? note "Command, date, machine, versions"\n\n    \1\n', _CODE_OR_LINK.sub(relinked, markdown)
    )


def _target(page: File, match: re.Match[str]) -> pathlib.Path | None:
    """Return the file or folder of the repository behind a link; None for code and broken links."""
    if match["path"] is None:
        return None
    name = page.src_uri
    if name.startswith("source/"):
        folder = ROOT / os.path.dirname(name.removeprefix("source/"))
    else:
        folder = (ROOT / "docs" / name).resolve().parent  # docs/changelog.md is a link to a file above it
    target = pathlib.Path(os.path.normpath(folder / match["path"]))
    return target if target.exists() and target.is_relative_to(ROOT) else None


def _name_in_site(target: pathlib.Path, files: Files) -> str:
    """Return the place of a file on the site: itself if it is in `docs/`, otherwise the page that shows it."""
    name = target.relative_to(ROOT).as_posix()
    if name.startswith("docs/") and files.get_file_from_path(name.removeprefix("docs/")) is not None:
        return name.removeprefix("docs/")
    return f"source/{name}/index.md" if target.is_dir() else f"source/{name}.md"


def _shown(target: pathlib.Path) -> str:
    name = target.relative_to(ROOT).as_posix()
    head = f"---\ntitle: {name}\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# `{name}`\n\n"
    if target.is_dir():
        members = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
        return head + "".join(f"- [`{member}`]({member})\n" for member in members if "__pycache__" not in member)
    text = target.read_text(encoding="utf-8").rstrip("\n")
    fence = "`" * max([3, *(1 + len(ticks) for ticks in re.findall("`+", text))])
    return f"{head}{fence} {_LANGUAGES.get(target.suffix, 'text')}\n{text}\n{fence}\n"


def equation(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """Turn a fence with a LaTeX equation into an image in the color of the text."""
    latex = " ".join(source.split())
    figure = Figure()
    figure.text(0, 0, f"${latex}$", fontsize=14)
    drawn = io.StringIO()
    with rc_context({"mathtext.fontset": "stix", "svg.fonttype": "path", "svg.hashsalt": latex}):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(drawn, format="svg", transparent=True, bbox_inches="tight", pad_inches=0.02, metadata=metadata)
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="(figure|patch|text)_\d+"', "", svg)  # identical in each image
    label = html.escape(latex, quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" fill="currentColor" ', 1)
    return f'<div class="{css_class}">{svg}</div>'
