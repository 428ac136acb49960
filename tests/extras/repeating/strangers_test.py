"""Bundles and journals of strangers: an error, in little memory and time."""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import time

import pytest

from seed_rl.cli.main import main
from seed_rl.experiment import config_files
from seed_rl.extras.repeating import bundle, file
from seed_rl.system.host_memory import allocating_at_most
from seed_rl.system.machine import processor, versions
from seed_rl.weights import checkpoints
from tests.evaluation.conftest import save_run

UPDATES = 2
SETTINGS = config_files.load(["catch/vtrace"], ["Actors.num_actors = 1"])
DIGEST = "0123456789abcdef 0123"
LINES = ("weights", "join [[[0],1],[[1],2]]", "act 0 0 1", "weights", "act 0 1 0", "weights", f"digest 2 {DIGEST}")
MOST_MEMORY, MOST_SECONDS = 1 << 29, 60.0


def start(**changes):
    machine = {"processor": processor(), "threads": 2} | changes.pop("machine", {})
    settings = SETTINGS.to_json() | changes.pop("settings", {})
    common = {"updates": 0, "frames": 0, "variables": ["agent/kernel"], "versions": versions()}
    return f"run {json.dumps({**common, 'machine': machine, 'settings': settings, **changes})}"


def packed(*chunks):
    """A journal."""
    data, link = b"", ""
    for number, lines in enumerate(chunks):
        chunk = gzip.compress("\n".join([f"chunk {number} {link}".rstrip(), *lines, ""]).encode())
        data, link = data + chunk, hashlib.sha256(chunk).hexdigest()[:16]
    return data


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The log directory of a run with a journal, of which a bundle can be made."""
    logdir = tmp_path_factory.mktemp("honest") / "run"
    save_run(str(logdir), "catch/vtrace", "Logs.wandb_project = 'mine/secret'")
    (logdir / "metrics.jsonl").write_text("")
    state = {"counters": {"learner_updates": UPDATES, "env_frames": 700}}
    weights = checkpoints.weights_in(checkpoints.chosen(str(logdir), None)[1])
    checkpoints.save(str(logdir / "checkpoints"), 8, weights, state, keep=1)
    (logdir / file.NAME).write_bytes(packed([start(), *LINES]))
    return logdir


@pytest.fixture
def contents(honest, tmp_path):
    """The files of an honest bundle by name."""
    bundle.write_bundle(str(honest), str(tmp_path / "honest.tar"))
    with tarfile.open(tmp_path / "honest.tar") as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def tar(contents, *odd, manifest=None):
    """A bundle with these files, the hashes of these, and odd entries with their data."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items() if name != "manifest.json"}
    whole = contents | {"manifest.json": json.dumps(hashes).encode() if manifest is None else manifest}
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry, data in (*((tarfile.TarInfo(name), data) for name, data in whole.items()), *odd):
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return output.getvalue()


def recorded(contents, *lines):
    return tar(contents | {file.NAME: packed(lines)})


def entry(name, kind=tarfile.REGTYPE, size=0, link=""):
    found = tarfile.TarInfo(name)
    found.type, found.size, found.linkname = kind, size, link
    return found


def header(*entry_arguments):
    """Nothing but a header and a block of zeros."""
    return entry(*entry_arguments).tobuf(tarfile.GNU_FORMAT) + bytes(512)


BUNDLES = {
    "a name of 900 MB": (lambda _: header("././@LongLink", b"L", 9 * 10**8), "unexpected entry"),
    "a policy of 1 GB": (lambda _: header("policy.npz", tarfile.REGTYPE, 10**9), "is missing"),
    "a size below zero": (lambda _: header("policy.npz", tarfile.REGTYPE, -1), "unexpected entry"),
    "a hole of 8 GiB": (lambda _: header("policy.npz", tarfile.REGTYPE, 2**32), "expected at most"),
    "a policy of 4 GiB": (lambda _: header("policy.npz", tarfile.REGTYPE, 2**32), "unexpected entry"),
    "two policies": (lambda own: tar(own, (entry("policy.npz"), b"more")), "unexpected entry 'policy.npz'"),
    "a file elsewhere": (lambda own: tar(own, (entry("../mine/file"), b"x")), "unexpected entry '../mine/file'"),
    "a link": (lambda own: tar(own, (entry("metrics.jsonl", b"2", link="/etc/passwd"), b"")), "unexpected entry"),
    "compressed": (lambda own: gzip.compress(tar(own)), "is not a bundle: "),
    "a nested manifest": (lambda own: tar(own, manifest=b"[" * 10**5), "is not a bundle: it is nested too deeply"),
    "a missing file": (
        lambda own: tar({name: data for name, data in own.items() if name != "policy.npz"}),
        "policy.npz in .* is missing",
    ),
    "a changed file": (
        lambda own: tar(own | {"metrics.jsonl": b"1"}, manifest=own["manifest.json"]),
        "metrics.jsonl in .* is changed",
    ),
    "a policy of another update": (
        lambda own: recorded(own, start(), *LINES, "act 0 0 1", "weights"),
        "checkpoint of update 2",
    ),
    "weights from elsewhere": (
        lambda own: recorded(own, start(settings={"init_from": "s3://mine/run"}), *LINES),
        "began with the weights of 's3://mine/run'",
    ),
    "an easier beginning": (
        lambda own: recorded(own, start(settings={"env.rows": 3}), *LINES, start(updates=2), f"digest 2 {DIGEST}"),
        "is not the configuration that was recorded: env.rows was 3 and is now 10",
    ),
    "a late beginning": (
        lambda own: recorded(own, start(updates=1), *LINES[:4], f"digest 2 {DIGEST}"),
        "is recorded from update 1 on",
    ),
    "a machine of others": (
        lambda own: recorded(own, start(machine={"processor": "\x1b[2J" * 10**5}), *LINES),
        "'processor' was .*, here it is '",
    ),
}
HOLES = {"a name of 900 MB": 10**9, "a policy of 1 GB": 10**9 + 512, "a hole of 8 GiB": 2**33}
"""The size of those that end with a hole, bytes."""
MUCH = "learners, actors and digests in .* need more than 536,870,912 bytes"
JOURNALS = {
    "300 million lines": (packed(["w"] * 10**7), "has more than 16,777,216 bytes of text"),
    "an object in an object": (packed([f"run {'[' * 10**6}"]), "line 0 of .* is not understood"),
    "a number of 5,000 digits": (packed([start(), f"digest {'9' * 5000} {DIGEST}"]), "is not understood"),
    "an actor twice": (packed([start(), "weights", "join [[[0],1],[[0],2]]"]), "line 2 of .* is not understood"),
    "actors that come again and again": (
        packed([start(), *(f"join [[[0],{n}]]" for n in range(99)), *(f"act 0 {n}" for n in [*range(99)] * 2)]),
        "has 99 actors and environment 0, its settings 32 environments",
    ),
    "a million actors": (packed([start(), *["join [[[0],1]]"] * 10**6]), MUCH),
    "learners without end": (packed(*[[start()] * (12 * 10**6 // len(start()))] * 2), MUCH),
    "half a million digests": (packed([start(), *[f"digest 1 {DIGEST}"] * 525_000]), MUCH),
    "a device without number": (packed([start(), "join [[[0],1]]", "act 99999 0"]), "a device below 256"),
    "an empty digest": (packed([start(), "digest 20 "]), "expected digests, got ''"),
    "names that are none": (packed([start(variables=[1, 2]), *LINES]), "names of variables and a processor, got 1"),
    "threads without end": (packed([start(machine={"threads": 10**9}), *LINES]), "threads are"),
}
DIFFERENT = {
    "a name that commands the terminal": {"variables": ["\x1b[2J\x07" * 10**5]},
    "settings without end": {"settings": {f"\x1b[2J setting {n}": n for n in range(10**4)}},
}


@pytest.fixture
def attacked(tmp_path, monkeypatch, capsys):
    """What a command says, whose code, time and memory are as they should be, and which leaves nothing behind."""
    (mine := tmp_path / "mine").mkdir()
    (mine / "file").write_text("precious")
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(mine)

    def run(*command):
        began = time.process_time()
        with allocating_at_most(MOST_MEMORY):
            code = main(command)
        assert time.process_time() - began < MOST_SECONDS, "of the processor, whatever else it does"
        said = capsys.readouterr()
        assert code in (1, 2), said
        assert said.out == ""
        assert all(map(str.isprintable, said.err.replace("\n", "")))
        assert len(said.err) < 3000
        assert "Traceback" not in said.err
        assert os.listdir(mine) == ["file"]
        assert (mine / "file").read_text() == "precious"
        assert os.listdir(temporary) == []
        assert str(temporary) not in said.err
        return said.err

    return run


@pytest.mark.parametrize("name", BUNDLES)
def test_a_strangers_bundle(name, contents, attacked, tmp_path):
    attack, sentence = BUNDLES[name]
    path = tmp_path / "bundle.tar"
    path.write_bytes(attack(contents))
    os.truncate(path, HOLES.get(name, path.stat().st_size))
    assert re.search(sentence, said := attacked("verify", str(path))), said


def test_a_bundle_names_no_places(honest, contents):
    assert all("mine/secret" in (honest / name).read_text() for name in ("config.json", "config.gin"))
    assert not [name for name, data in contents.items() if b"mine/secret" in data]


@pytest.mark.parametrize(("content", "sentence"), JOURNALS.values(), ids=JOURNALS)
def test_a_strangers_journal(content, sentence, attacked, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / file.NAME).write_bytes(content)
    assert re.search(sentence, said := attacked("replay", str(tmp_path / "run"))), said


@pytest.mark.parametrize("changes", DIFFERENT.values(), ids=DIFFERENT)
def test_two_journals_of_strangers_are_compared_in_a_sentence(changes, tmp_path, capsys):
    for name, own in (("one", {}), ("other", changes)):
        (tmp_path / name).mkdir()
        digest = DIGEST if own else DIGEST.replace("0", "f")
        (tmp_path / name / file.NAME).write_bytes(packed([start(**own), *LINES[:-1], f"digest 2 {digest}"]))
    assert main(["diff", str(tmp_path / "other"), str(tmp_path / "one")]) == 1
    said = capsys.readouterr()
    assert all(map(str.isprintable, said.out.strip().replace("\n", "")))
    assert "after 2 updates, " in said.out
    assert len(said.out) < 10_000
    assert said.err == ""
