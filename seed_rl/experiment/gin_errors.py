"""Errors of gin and of settings as sentences."""

import dataclasses
import re
from importlib import metadata, util

from seed_rl.envs import registry
from seed_rl.settings import Settings, did_you_mean, subclasses


def sentence(error: BaseException) -> str:
    """Extract the informative first part of a gin or dataclass error, on one line."""
    text = " ".join(str(error).split())
    place = re.search(r'In file "([^"]+)", line (\d+)', text)
    text = re.split(r"\s+In call to configurable|\s+In bindings string|\s+In file | in config string", text)[0]
    text = re.sub(
        r"^malformed node or string.* Failed to parse token '(.*?)'( \(line \d+\))?",
        r"expected a value such as 1e-4, True, None, 'text' or ('GPU:0',), got \1; JSON needs quotes, as in '{...}'",
        text,
    )
    text = re.sub(r"^\('EOF in multi-line statement'.*", "a bracket or quote is not closed", text)
    text = re.sub(r"^No bindings specified for '(.+)/gin.macro'", r"the macro %\1 has no value", text)
    if "No values supplied by Gin or caller" in text:
        return "the gin files must set Experiment.env and Experiment.agent"
    text += _guess(text)
    return f"{text} ({place[1]}, line {place[2]})" if place and place[1] != "None" else text


def _guess(text: str) -> str:
    """Suggest the setting or group of settings that a gin error may be about, as a question; may be empty."""
    groups = {group.__name__: group for group in subclasses(Settings)}
    unknown = re.match(r"No configurable matching (?:reference )?'@?(\w+)", text)
    if unknown and (module := _module_of(unknown[1])):
        return f" Add the line `import {module}` to the file."
    if found := re.search(r"matching '([\w.]+)'", text):
        return did_you_mean(found[1], groups)
    found = re.search(r"Configurable '(\w+)' doesn't have a parameter named '(\w+)'", text)
    if found and found[1] in groups:
        return did_you_mean(found[2], [field.name for field in dataclasses.fields(groups[found[1]])])
    return ""


def _module_of(name: str) -> str | None:
    """Find the module of a shipped agent or an installed suite by the name of its class; None if there is none."""
    suites = {suite.attr: suite.module for suite in metadata.entry_points(group=registry.ENTRY_POINTS)}
    agent = f"seed_rl.agents.{name.lower()}"
    return suites.get(name) or (agent if util.find_spec(agent) else None)
