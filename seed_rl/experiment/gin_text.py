"""Settings as the text of a gin file, with their documentation if wanted."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
from typing import Any

from seed_rl.experiment import Experiment
from seed_rl.experiment.saved_config import groups
from seed_rl.settings import Settings


def to_gin(experiment: Experiment, documented: bool = False) -> str:
    """Format a self-contained gin file that binds every setting, each below its documentation if `documented`."""
    every = list(groups(experiment))
    imports = {f"import {type(group).__module__}" for group in every if type(group).__module__ != Experiment.__module__}
    texts = [bindings(group, documented) for group in every]
    return "\n\n".join(["\n".join(sorted(imports)), *texts]) + "\n"


def bindings(group: Settings, documented: bool = False) -> str:
    """Format the gin bindings of a group of settings; see `to_gin`."""
    name, docs = type(group).__name__, documentation(type(group)) if documented else {}
    values = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
    texts = {key: f"@{type(v).__name__}()" if dataclasses.is_dataclass(v) else repr(v) for key, v in values.items()}
    return "\n".join(f"{_comment(docs.get(key, ''))}{name}.{key} = {text}" for key, text in texts.items())


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 100))


def documentation(kind: type[Any]) -> dict[str, str]:
    """The text below each field of a dataclass or its base classes, on one line, by name of the field."""
    found: dict[str, str] = {}
    for declaring in (own for own in reversed(kind.__mro__) if dataclasses.is_dataclass(own)):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(declaring))).body
        for field, text in itertools.pairwise(getattr(definition, "body", ())):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found
