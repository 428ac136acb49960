"""A log directory that follows the directory in which a learner of another node writes."""

import os
import random
import re

import pytest

from seed_rl.launch.mirror import Mirror
from seed_rl.launch.on_ray.directory import Piece, RemoteStore


def content(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def pair(tmp_path):
    """The log directory, the learner's, and a function that sends the changes and returns the pieces."""
    logdir, learners = tmp_path / "logdir", tmp_path / "learners"
    logdir.mkdir()
    (logdir / "metrics.jsonl").write_bytes(b"before\n")
    pieces = []
    store = RemoteStore(["metrics.jsonl", "lock"], lambda name: (logdir / name).read_bytes(), pieces.append)
    mirror = Mirror("logdir", store, str(learners))
    mirror.pull()

    def follow():
        mirror.push()
        sent = list(pieces)
        pieces.clear()
        for piece in sent:
            piece.apply(str(logdir))
        return sent

    return logdir, learners, follow


def test_the_learner_starts_with_the_files_and_later_only_new_parts_are_sent(pair):
    logdir, learners, follow = pair
    assert content(learners) == {"metrics.jsonl": b"before\n"}
    assert follow() == []
    for line in (b"first\n", b"second\n"):
        with open(learners / "metrics.jsonl", "ab") as file:
            file.write(line)
        sent = follow()
    assert [piece.data for piece in sent] == [b"second\n"]
    assert content(logdir) == {"metrics.jsonl": b"before\nfirst\nsecond\n"}


def test_every_change_arrives(pair):
    logdir, learners, follow = pair
    chance = random.Random(1)
    names = ["metrics.jsonl", "checkpoints/a", "checkpoints/b", "actors/deep/er.log"]
    for _ in range(200):
        path = learners / chance.choice(names)
        path.parent.mkdir(parents=True, exist_ok=True)
        change, data = chance.choice(["append", "replace", "shorten", "remove"]), chance.randbytes(chance.randrange(30))
        if change == "append":
            with open(path, "ab") as file:
                file.write(data)
        elif change == "replace":
            path.with_suffix(".partial").write_bytes(data)
            os.replace(path.with_suffix(".partial"), path)
        elif change == "shorten" and path.exists():
            os.truncate(path, path.stat().st_size // 2)
        elif change == "remove" and "checkpoints" in str(path):  # nothing else is removed
            path.unlink(missing_ok=True)
        if chance.random() < 0.5:
            follow()
            assert content(logdir) == content(learners)
    follow()
    assert content(logdir) == content(learners) != {}


def test_a_large_file_comes_in_pieces_and_appears_when_it_is_complete(pair):
    logdir, learners, follow = pair
    data = os.urandom(9 << 20)
    (learners / "replay.npz").write_bytes(data)
    first, second = follow()
    assert (len(first.data) + len(second.data), second.last) == (len(data), True)
    assert (logdir / "replay.npz").read_bytes() == data
    Piece("later.npz", 0, b"1", replaces=True, last=False).apply(str(logdir))
    assert not (logdir / "later.npz").exists()


def test_a_file_that_lacks_a_part_is_not_continued_with_a_hole(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b"1234")
    with pytest.raises(OSError, match=re.escape("metrics.jsonl lacks pieces")):
        Piece("metrics.jsonl", 5, b"6").apply(str(tmp_path))
    Piece("metrics.jsonl", 4, b"5").apply(str(tmp_path))
    assert (tmp_path / "metrics.jsonl").read_bytes() == b"12345"
