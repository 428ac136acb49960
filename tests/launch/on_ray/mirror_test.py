"""Directories that become equal."""

import os
import random

import pytest

from seed_rl.launch.on_ray import mirror
from seed_rl.launch.on_ray.mirror import Piece, Watched, apply


def content(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def pair(tmp_path):
    """A directory, one that is to become like it, and what brings that about."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    watched = Watched(str(here), leave_out=("lock",))

    def follow():
        pieces = list(watched.changes())
        for piece in pieces:
            apply(str(there), piece)
        return pieces

    return here, there, follow


def test_whatever_is_written_replaced_and_removed_comes_over(pair, monkeypatch):
    monkeypatch.setattr(mirror, "_PIECE_BYTES", 7)
    here, there, follow = pair
    chance = random.Random(1)
    names = ["metrics.jsonl", "checkpoints/a", "checkpoints/b", "actors/deep/er.log"]
    for _ in range(200):
        path = here / chance.choice(names)
        path.parent.mkdir(parents=True, exist_ok=True)
        what, data = chance.choice(["append", "replace", "shorten", "remove"]), chance.randbytes(chance.randrange(30))
        if what == "append":
            with open(path, "ab") as file:
                file.write(data)
        elif what == "replace":
            path.with_suffix(".partial").write_bytes(data)
            os.replace(path.with_suffix(".partial"), path)
        elif path.exists():
            if what == "shorten":
                os.truncate(path, path.stat().st_size // 2)
            else:
                path.unlink()
        if chance.random() < 0.5:
            follow()
            assert content(there) == content(here)
    follow()
    assert content(there) == content(here)
    assert content(here)


def test_only_what_is_new_comes_over(pair):
    here, _, follow = pair
    (here / "metrics.jsonl").write_bytes(b"first\n")
    assert len(follow()) == 1
    assert follow() == []
    with open(here / "metrics.jsonl", "ab") as file:
        file.write(b"second\n")
    assert [piece.data for piece in follow()] == [b"second\n"]


def test_what_each_has_for_itself_and_what_is_half_written_stays(pair):
    here, there, follow = pair
    (here / "lock").write_bytes(b"mine")
    (here / "checkpoint.partial").write_bytes(b"half")
    follow()
    assert content(there) == {}


def test_what_is_there_already_can_be_passed_over(tmp_path):
    (tmp_path / "old").write_bytes(b"known")
    watched = Watched(str(tmp_path))
    watched.skip()
    (tmp_path / "new").write_bytes(b"unknown")
    assert [piece.path for piece in watched.changes()] == ["new"]


def test_a_file_that_lacks_a_part_is_not_continued_with_a_hole(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b"1234")
    with pytest.raises(OSError, match="metrics.jsonl lacks what could not be written before"):
        apply(str(tmp_path), Piece("metrics.jsonl", 5, b"6"))
    apply(str(tmp_path), Piece("metrics.jsonl", 4, b"5"))
    assert (tmp_path / "metrics.jsonl").read_bytes() == b"12345"
