"""Everything public has a docstring, and every module of the packages in the reference stands in it."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("agents", "envs", "seed_rl")
EXEMPT = ("tests/support/", "seed_rl/transport/seed_rl_pb2")
"""Functions that only tests run, and generated code."""

NOT_IN_REFERENCE = ("benchmarks.", "seed_rl.launch.")
"""The command line and what it measures: reached by commands, not by name."""

Classes = dict[str, ast.ClassDef]


def sources() -> dict[str, ast.Module]:
    """The modules of the project, by path; the links in seed_rl/ are not followed."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in names.items()
        if not re.match(r"seed_rl/(agents|envs|configs)/", name) and not name.startswith(EXEMPT)
    }


def undocumented(modules: dict[str, ast.Module]) -> list[str]:
    """Names of what is public and has no docstring.

    A method needs none that does what a base class in the project says. A field needs one if it is a setting that gin
    files give, or an array, whose type does not tell its shape.
    """
    classes = {
        node.name: node for module in modules.values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)
    }
    return [f"{path}: {name}" for path, module in modules.items() for name in _lacking(module, path, classes)]


def _lacking(module: ast.Module, path: str, classes: Classes) -> Iterator[str]:
    if ast.get_docstring(module) is None:
        yield path
    for node in module.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None:
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from _lacking_in_class(node, classes)


def _lacking_in_class(node: ast.ClassDef, classes: Classes) -> Iterator[str]:
    documented = {name for each in _with_bases(node, classes) for name in _documented(each)}
    for member in node.body:
        if isinstance(member, (ast.FunctionDef, ast.ClassDef)):
            name, needed = member.name, True
        elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            name, needed = member.target.id, _is_setting(node, member) or _is_array(node, member)
        else:
            continue
        if needed and not name.startswith("_") and name not in documented:
            yield f"{node.name}.{name}"


def _with_bases(node: ast.ClassDef, classes: Classes) -> Iterator[ast.ClassDef]:
    yield node
    for base in node.bases:
        name = ast.unparse(base).rpartition(".")[2]
        if name in classes and classes[name] is not node:
            yield from _with_bases(classes[name], classes)


def _documented(node: ast.ClassDef) -> Iterator[str]:
    for member, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(member, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(member) is not None:
            yield member.name
        text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and text:
            yield member.target.id


def _is_setting(node: ast.ClassDef, field: ast.AnnAssign) -> bool:
    configurable = any("gin.configurable" in ast.unparse(decorator) for decorator in node.decorator_list)
    return configurable and not ast.unparse(field.annotation).startswith("ClassVar")


def _is_array(node: ast.ClassDef, field: ast.AnnAssign) -> bool:
    return re.search(r"\b(Tensor|ndarray|Any)\b", ast.unparse(field.annotation)) is not None


def test_everything_public_has_a_docstring():
    modules = sources()
    assert len(modules) > 100
    assert undocumented(modules) == []


def test_each_public_module_stands_in_the_reference():
    pages = (ROOT / "docs" / "api").glob("*.md")
    shown = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    modules = {
        re.sub(r"^seed_rl\.seed_rl\.", "seed_rl.", f"seed_rl.{path.removesuffix('.py').replace('/', '.')}"): module
        for path, module in sources().items()
    }
    wanted = {
        name.removesuffix(".__init__")
        for name, module in modules.items()
        if not name.startswith(NOT_IN_REFERENCE)
        and any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_" for node in module.body)
    }
    assert sorted(wanted - set(shown)) == []
    assert len(shown) == len(set(shown))


def found_in(text: str) -> list[str]:
    return undocumented({"module.py": ast.parse(f'"""A module."""\n{text}')})


def test_a_function_and_a_class_without_a_docstring_are_found():
    assert found_in("def f(): pass\nclass C: pass") == ["module.py: f", "module.py: C"]


def test_a_method_needs_none_that_overrides_a_documented_one():
    text = """
class Base:
    '''A base.'''
    def f(self):
        '''What it does.'''
class Derived(Base):
    '''Derived.'''
    def f(self): pass
    def g(self): pass
"""
    assert found_in(text) == ["module.py: Derived.g"]


def test_a_setting_and_an_array_need_one_and_plain_data_does_not():
    text = """
@gin.configurable
class Config:
    '''Settings.'''
    rate: float = 0.1
    size: int = 1
    '''In pixels.'''
class Pair(NamedTuple):
    '''Data.'''
    name: str
    values: np.ndarray
"""
    assert found_in(text) == ["module.py: Config.rate", "module.py: Pair.values"]


def test_what_has_a_leading_underscore_needs_none():
    assert (
        found_in("def _f(): pass\nclass C:\n    '''C.'''\n    def _g(self): pass\n    def __call__(self): pass") == []
    )
