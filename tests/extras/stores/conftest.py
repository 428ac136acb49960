"""What tests of object stores share."""

import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.runs import conftest as runs

small_catch = runs.small_catch


@pytest.fixture
def fetched(monkeypatch):
    """Paths of what is fetched from `file://`, a store that needs no network."""
    paths = []
    get_file = LocalFileSystem.get_file

    def get_and_note(store, path, *arguments, **options):
        paths.append(path)
        return get_file(store, path, *arguments, **options)

    monkeypatch.setattr(LocalFileSystem, "get_file", get_and_note)
    return paths
