"""Everything public has a docstring, and every public module is in the reference."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import griffe
import pytest

from seed_rl import api

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_IN_REFERENCE = ("seed_rl.cli.", "seed_rl.runs.", "seed_rl.__main__")
"""The command line, which users reach by its commands."""


@pytest.fixture(scope="module")
def modules() -> list[griffe.Module]:
    """The modules of the package, except generated ones."""
    package = griffe.load("seed_rl", search_paths=[ROOT], allow_inspection=False)

    def below(module: griffe.Module) -> Iterator[griffe.Module]:
        yield module
        for member in module.modules.values():
            yield from below(member)

    return [module for module in below(package) if "_pb2" not in module.path]


def own_members(owner: griffe.Object) -> list[griffe.Object]:
    """What a module or class defines itself, other than modules."""
    return [member for member in owner.members.values() if not member.is_alias and not member.is_module]


def undocumented(owner: griffe.Object) -> Iterator[str]:
    """The public functions, classes, methods, settings and arrays of a module or class that lack a docstring.

    A method or field needs none if a base class documents it. Other fields need none: their type says enough.
    """
    bases = owner.mro() if owner.is_class else []
    for member in own_members(owner):
        needed = not member.is_attribute or _is_setting(owner, member) or _is_array(owner, member)
        documented = (member.name in each.members and each.members[member.name].has_docstring for each in bases)
        if needed and not member.name.startswith("_") and not member.has_docstring and not any(documented):
            yield member.path
        if member.is_class and not member.name.startswith("_"):
            yield from undocumented(member)


def _is_setting(owner: griffe.Object, field: griffe.Attribute) -> bool:
    configurable = owner.is_class and any("gin.configurable" in str(each.value) for each in owner.decorators)
    return configurable and "instance-attribute" in field.labels  # and so not a ClassVar


def _is_array(owner: griffe.Object, field: griffe.Attribute) -> bool:
    return owner.is_class and re.search(r"\b(Tensor|ndarray|Any)\b", str(field.annotation)) is not None


def test_everything_public_has_a_docstring(modules):
    assert len(modules) > 80
    lacking = [module.path for module in modules if not module.has_docstring]
    assert lacking + [name for module in modules for name in undocumented(module)] == []


def test_each_public_module_is_in_the_reference(modules):
    pages = (ROOT / "docs" / "api").glob("*.md")
    shown = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    assert len(shown) == len(set(shown))
    public = {
        module.path
        for module in modules
        if not module.path.startswith(NOT_IN_REFERENCE)
        and module.name != "commands"
        and any((each.is_class or each.is_function) and each.name[0] != "_" for each in own_members(module))
    }
    assert sorted(public - set(shown)) == []


def test_each_public_name_is_in_the_table_of_those_who_need_it():
    index = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\|.*", index, re.MULTILINE))
    named = re.findall(r"\[`(\w+)`\]\[[\w.]+\]", rows)
    assert sorted(named) == sorted(api.__all__)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass\nclass C: pass\ndef _f(): pass", ["m.f", "m.C"]),
        ("class B:\n '''B.'''\n def f(self):\n  '''F.'''\nclass C(B):\n '''C.'''\n def f(self): pass", []),
        ("class C:\n '''C.'''\n def f(self): pass\n def _g(self): pass\n def __call__(self): pass", ["m.C.f"]),
        ("@gin.configurable\nclass C:\n '''C.'''\n a: int = 1\n b: int = 2\n '''Pixels.'''", ["m.C.a"]),
        ("class C(NamedTuple):\n '''C.'''\n name: str\n values: np.ndarray", ["m.C.values"]),
    ],
)
def test_a_missing_docstring_is_found(source, names):
    with griffe.temporary_visited_module(source, module_name="m") as module:
        assert list(undocumented(module)) == names
