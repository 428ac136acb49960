"""A log directory that follows the directory in which a learner of another node writes."""

import os
import queue
import random
import re
import threading

import pytest

from seed_rl.runs.mirror import Mirror
from seed_rl.runs.ray.learner import Piece, UsersDirectory


def content(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def pair(tmp_path):
    """The log directory, the learner's, and a function that sends the changes and returns the pieces."""
    logdir, learners, pieces, events = tmp_path / "logdir", tmp_path / "learners", [], queue.Queue()
    logdir.mkdir()
    learners.mkdir()
    mirror = Mirror(UsersDirectory({}, events), str(learners))

    def apply():
        for piece in iter(events.get, None):
            piece.apply(str(logdir))
            pieces.append(piece)
            events.task_done()
        events.task_done()

    def follow():
        pieces.clear()
        applying = threading.Thread(target=apply)
        applying.start()
        mirror.push()
        events.put(None)
        applying.join()
        return list(pieces)

    return logdir, learners, follow


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
    assert (len(first.data) + len(second.data), first.last, second.last) == (len(data), False, True)
    assert (logdir / "replay.npz").read_bytes() == data
    Piece("later.npz", 0, b"1").apply(str(logdir))
    assert not (logdir / "later.npz").exists()


def test_a_file_that_lacks_a_piece_does_not_appear(tmp_path):
    Piece("replay.npz", 0, b"1234").apply(str(tmp_path))
    with pytest.raises(OSError, match=re.escape("replay.npz lacks pieces")):
        Piece("replay.npz", 5, b"6", last=True).apply(str(tmp_path))
    assert not (tmp_path / "replay.npz").exists()


def test_each_side_has_a_learner_log_of_its_own(pair):
    _, learners, follow = pair
    (learners / "learner.log").write_text("here")
    assert follow() == []
