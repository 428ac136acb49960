"""Errors of gin and of settings as sentences."""

import dataclasses
import re
from importlib import metadata, resources

from seed_rl.envs import registry
from seed_rl.experiment import opponents
from seed_rl.foreign import without_gin
from seed_rl.settings import Settings, did_you_mean, subclasses
from seed_rl.system.entry_points import declared


def sentence(error: BaseException, in_file: bool = True) -> str:
    """Extract the informative first part of a gin or dataclass error, on one line, with advice for a file or a flag."""
    place = re.search(r'In file "([^"]+)", line (\d+)', " ".join(str(error).split()))
    text = without_gin(error)
    text = re.sub(
        r"^malformed node or string.* Failed to parse token '(.*?)'( \(line \d+\))?",
        r"expected a value such as 1e-4, True, None, 'text' or ('GPU:0',), got \1; JSON needs quotes, as in '{...}'",
        text,
    )
    text = re.sub(r"^\('EOF in multi-line statement'.*", "a bracket or quote is not closed", text)
    text = re.sub(r"^No bindings specified for '(.+)/gin.macro'", r"the macro %\1 has no value", text)
    if "No values supplied by Gin or caller" in text:
        return "the gin files must set Experiment.env and Experiment.agent"
    text += _guess(text, in_file)
    return f"{text} ({place[1]}, line {place[2]})" if place and place[1] != "None" else text


def _guess(text: str, in_file: bool) -> str:
    """Suggest what a gin error may be about, as a question, or how to get it; may be empty."""
    groups = {group.__name__: group for group in subclasses(Settings)}
    if unknown := re.match(r"No configurable matching (?:reference )?'@?(?:[\w.]+[/.])*(\w+)", text):
        others = {**_suites(), **_agents(), **_opponents()}
        if unknown[1] not in others:
            return did_you_mean(unknown[1], [*groups, *others])
        module, flags = others[unknown[1]]
        line, other = f"Add the line `import {module}` to the file.", f"The files given don't use it: {flags}."
        return f" {line if in_file else other}"
    found = re.search(r"Configurable '(\w+)' doesn't have a parameter named '(\w+)'", text)
    if found and found[1] in groups:
        return did_you_mean(found[2], [field.name for field in dataclasses.fields(groups[found[1]])])
    return ""


def _suites() -> dict[str, tuple[str, str]]:
    """Find the module of each installed suite, and the flags that choose it, by the name of its class."""
    found = {}
    for suite in metadata.entry_points(group=registry.ENTRY_POINTS):
        flags = f"--gin_param='import {suite.module}' --gin_param='Experiment.env = @{suite.attr}()' does"
        folder = resources.files("seed_rl.configs") / suite.name
        shipped = sorted(file.name.removesuffix(".gin") for file in folder.iterdir()) if folder.is_dir() else []
        if shipped:
            flags = f"--gin_file={suite.name}/{'any' if 'any' in shipped else shipped[0]} or {flags}"
        found[suite.attr] = suite.module, flags
    return found


def _opponents() -> dict[str, tuple[str, str]]:
    """Find the module of each installed kind of opponents, and the flag that imports it, by the name of its class."""
    entries = declared(opponents.ENTRY_POINTS)
    return {entry.attr: (entry.module, f"--gin_param='import {entry.module}' does") for entry in entries}


def _agents() -> dict[str, tuple[str, str]]:
    """Find the module of each shipped agent, and the flag that chooses it, by the name of its class."""
    found = {}
    for file in (resources.files("seed_rl.configs") / "agents").iterdir():
        text = file.read_text(encoding="utf-8")
        module, name = re.findall(r"^import (\S+)|^Experiment.agent = @(\w+)", text, re.MULTILINE)[:2]
        found[name[1]] = module[0], f"--agent={file.name.removesuffix('.gin')} does"
    return found
