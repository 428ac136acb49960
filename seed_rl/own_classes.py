"""Classes of users, named in a setting by `module:Class`."""

import importlib
import importlib.util
import inspect
import re
import sys
from typing import Any, TypeVar, cast

from seed_rl.settings import OneOf
from seed_rl.specs import CannotAct
from seed_rl.system.files import explaining

T = TypeVar("T")


class OneOfOrOwn(OneOf):
    """A constraint of a setting: one of some names, or `module:Class` of a module that exists, not imported yet."""

    def __init__(self, *choices: str):
        super().__init__(*choices, "module:Class")

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError unless the value is allowed."""
        if not re.fullmatch(r"[\w.]+:\w+", value):
            super().check(name, value)
        elif (top := re.split("[.:]", value)[0]) not in sys.modules and importlib.util.find_spec(top) is None:
            raise ValueError(f"{name} = {value!r}: there is no module {top}; is its directory on PYTHONPATH?")


def own_class(setting: str, path: str, base: type[T]) -> type[T]:
    """Import the class that `module:Class` names; raise CannotAct if there is none that derives from `base`."""
    module, _, name = path.partition(":")
    with explaining(CannotAct, f"{setting} = {path!r}", ImportError):
        found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        came = f"{module} has no {name}" if found is None else f"{name} is something else"
        raise CannotAct(f"{setting} = {path!r}: expected a subclass of {base.__name__}, but {came}")
    return found


def build_own_class(setting: str, path: str, base: type[T], **arguments: Any) -> T:
    """Build an `own_class`; raise CannotAct if it doesn't take the arguments."""
    kind: Any = own_class(setting, path, base)
    called = f"{setting} = {path!r} is called with {', '.join(arguments)}"
    with explaining(CannotAct, called, TypeError):
        inspect.signature(kind.__init__).bind(None, **arguments)
    return cast(T, kind(**arguments))
