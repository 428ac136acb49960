"""Templates that are filled in strictly, and checks of what they are filled with."""

import argparse
import json
import pathlib
import re
import string
from collections.abc import Mapping
from typing import NoReturn


class Mistake(Exception):
    """Something the caller asked for that can't be; one sentence."""


class Parser(argparse.ArgumentParser):
    """Tells a wrong flag in one sentence."""

    def __init__(self, **arguments):
        super().__init__(allow_abbrev=False, **arguments)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help lists the flags\n")


def fill(template: pathlib.Path, values: Mapping[str, object]) -> str:
    """The template's text with each `${name}` replaced by its value in JSON, which YAML reads as it is.

    Comments at the beginning of a line, and lines whose value is None, are left out.

    Raises:
      KeyError: a placeholder has no value, or a value no placeholder.
    """
    lines = [
        line for line in template.read_text(encoding="utf-8").splitlines(keepends=True) if not line.startswith("#")
    ]
    found = {name for line in lines for name in _placeholders(line)}
    if found != set(values):
        raise KeyError(f"{template.name} and its values differ in {sorted(map(str, found ^ set(values)))}")
    kept = [line for line in lines if all(values[name] is not None for name in _placeholders(line))]
    return string.Template("".join(kept)).substitute({name: json.dumps(value) for name, value in values.items()})


def _placeholders(line: str) -> set[str]:
    return {match["braced"] or match["named"] for match in string.Template.pattern.finditer(line)}


def check_form(what: str, text: str, form: str, sentence: str) -> str:
    """The text, if all of it matches `form`."""
    if not re.fullmatch(form, text):
        raise Mistake(f"{what} must be {sentence}, got {text!r}")
    return text


def check_name(what: str, text: str) -> str:
    """A name that Kubernetes and Google Cloud take, short enough for what is put behind it."""
    form = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
    return check_form(what, text, form, "at most 40 of a-z, 0-9 and -, beginning with a letter")


def check_gin(binding: str) -> str:
    """A binding, if it is one line of gin."""
    return check_form("--gin_param", binding, r"[A-Za-z_][\w./]* *=[^\n\r]*", "a gin binding such as Atari.game='pong'")


def pairs(flag: str, texts: list[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as a dictionary."""
    found = {}
    for text in texts:
        check_form(flag, text, r"[A-Za-z0-9][\w./-]*=[\w.-]*", "KEY=VALUE")
        key, _, value = text.partition("=")
        if key in found:
            raise Mistake(f"{flag} names {key} twice")
        found[key] = value
    return found
