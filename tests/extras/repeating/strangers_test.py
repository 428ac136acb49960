"""Bundles and journals of strangers: a sentence, in little memory and time."""

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
MOST_MEMORY, MOST_SECONDS = 1 << 30, 10.0


def start(**changes):
    """The first line of a journal."""
    machine = {"processor": processor(), "threads": 2} | changes.pop("machine", {})
    settings = SETTINGS.to_json() | changes.pop("settings", {})
    common = {"updates": 0, "frames": 0, "variables": ["agent/kernel"], "versions": versions()}
    return f"run {json.dumps({**common, 'machine': machine, 'settings': settings, **changes})}"


def packed(lines, number=0, link=""):
    """A chunk of a journal."""
    return gzip.compress("\n".join([f"chunk {number} {link}".rstrip(), *lines, ""]).encode())


def chunks(*parts):
    """A journal of several chunks."""
    found, link = [], ""
    for number, lines in enumerate(parts):
        found.append(packed(lines, number, link))
        link = hashlib.sha256(found[-1]).hexdigest()[:16]
    return b"".join(found)


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


class Bundle:
    """A bundle to be changed."""

    def __init__(self, honest, path):
        self.path = path
        bundle.write_bundle(str(honest), str(path))
        with tarfile.open(path) as archive:
            self.contents = {entry.name: archive.extractfile(entry).read() for entry in archive}

    def write(self, *odd, manifest=None, **changed):
        """Write it again with other contents, the hashes of these, and odd entries."""
        self.contents |= {name.replace("__", "."): data for name, data in changed.items()}
        hashes = {
            name: hashlib.sha256(data).hexdigest() for name, data in self.contents.items() if name != "manifest.json"
        }
        self.contents["manifest.json"] = json.dumps(hashes).encode() if manifest is None else manifest
        with tarfile.open(self.path, "w", format=tarfile.GNU_FORMAT) as archive:
            for name, data in self.contents.items():
                self.add(archive, tarfile.TarInfo(name), data)
            for entry, data in odd:
                self.add(archive, entry, data)

    @staticmethod
    def add(archive, entry, data=b""):
        entry.size = entry.size or len(data)
        archive.addfile(entry, io.BytesIO(data.ljust(entry.size, b"\0")) if data else None)

    def headers(self, *entries, size=0):
        """Nothing but headers, and behind them a hole."""
        with open(self.path, "wb") as output:
            for entry in entries:
                output.write(entry)
            output.truncate(size or None)


def entry(name, kind=tarfile.REGTYPE, size=0, **more):
    """The header of an entry."""
    found = tarfile.TarInfo(name)
    found.type, found.size = kind, size
    for key, value in more.items():
        setattr(found, key, value)
    return found


def header(name, kind=tarfile.REGTYPE, size=0, **more):
    return entry(name, kind, size, **more).tobuf(tarfile.GNU_FORMAT)


SPARSE = {
    "GNU.sparse.major": "1",
    "GNU.sparse.minor": "0",
    "GNU.sparse.name": "policy.npz",
    "GNU.sparse.realsize": "8000000000",
}
BUNDLES = {
    "sparse by an extended header": (
        lambda b: b.headers(entry("policy.npz", size=512, pax_headers=SPARSE).tobuf(tarfile.PAX_FORMAT), bytes(512)),
        "has an unexpected entry",
    ),
    "sparse": (lambda b: b.headers(header("policy.npz", tarfile.GNUTYPE_SPARSE, 512), bytes(512)), "unexpected entry"),
    "a name of 4 GiB": (lambda b: b.headers(header("././@LongLink", b"L", 2**32), size=2**33), "unexpected entry"),
    "headers of 4 GiB": (lambda b: b.headers(header("x", b"x", 2**32), size=2**33), "unexpected entry 'x'"),
    "a policy of 4 GiB": (lambda b: b.headers(header("policy.npz", size=2**32), size=2**33), "unexpected entry"),
    "a negative size": (lambda b: b.headers(header("policy.npz", size=-512)), "unexpected entry 'policy.npz'"),
    "more than there is": (lambda b: b.headers(header("policy.npz", size=10**6), bytes(99)), "unexpected entry"),
    "two policies": (lambda b: b.write((entry("policy.npz"), b"more")), "unexpected entry 'policy.npz'"),
    "checkpoints without end": (
        lambda b: b.headers(*(header(f"frames-{n:012d}.npz") for n in range(3000))),
        "manifest.json in .* is missing",
    ),
    "a file elsewhere": (lambda b: b.write((entry("../mine/file"), b"x")), "unexpected entry '../mine/file'"),
    "an absolute name": (lambda b: b.write((entry("/tmp/mine"), b"x")), "unexpected entry"),
    "a link": (lambda b: b.write((entry("frames-000000000001.npz", b"2", linkname="/etc/passwd"), b"")), "unexpected"),
    "a device": (lambda b: b.write((entry("frames-000000000001.npz", b"3"), b"")), "unexpected entry"),
    "an odd header": (lambda b: b.headers(os.urandom(512)), "is not a bundle: "),
    "compressed": (lambda b: b.path.write_bytes(gzip.compress(b.path.read_bytes())), "is not a bundle: "),
    "nothing": (lambda b: b.path.write_bytes(b""), "manifest.json in .* is missing"),
    "a directory": (lambda b: (b.path.unlink(), b.path.mkdir()), "is not a bundle: "),
    "a manifest of 2 MB": (lambda b: b.write(manifest=b" " * 2**21), "is not a bundle: expected at most"),
    "a nested manifest": (lambda b: b.write(manifest=b"[" * 10**5), "is not a bundle: it is nested too deeply"),
    "another list": (lambda b: b.write(manifest=b"[]"), "is not a bundle: expected an object"),
    "a missing file": (lambda b: (b.contents.pop("policy.npz"), b.write()), "policy.npz in .* is missing"),
    "a damaged policy": (lambda b: b.write(policy__npz=b"damaged"), "bundle.tar/policy.npz is damaged"),
    "a policy of another update": (
        lambda b: b.write(journal__gz=packed([start(), *LINES, "act 0 0 1", "weights"])),
        "checkpoint of update 2",
    ),
    "weights from elsewhere": (
        lambda b: b.write(journal__gz=packed([start(settings={"init_from": "s3://mine/run"}), *LINES])),
        "began with the weights of 's3://mine/run'",
    ),
    "an easier beginning": (
        lambda b: b.write(
            journal__gz=packed([start(settings={"env.rows": 3}), *LINES, start(updates=2), f"digest 2 {DIGEST}"])
        ),
        "is not the configuration that was recorded: env.rows was 3 and is now 10",
    ),
    "a machine of others": (
        lambda b: b.write(journal__gz=packed([start(machine={"processor": "\x1b[2J" * 10**5}), *LINES])),
        "'processor' was .*, here it is '",
    ),
}
JOURNALS = {
    "300 million lines": (packed(["w"] * 10**7), "has more than 16,777,216 bytes of text"),
    "lines of nothing": (chunks([start()], *[["w"] * 10**6] * 3), "line 1 of .* is not understood"),
    "a join of millions": (packed([start(), f"join [{'[[0],1],' * 2 * 10**6}[[1],2]]"]), "bytes of memory"),
    "digests of millions": (
        chunks([start()], *[[f"digest {n} {DIGEST}" for n in range(4 * 10**5)]] * 4),
        "bytes of memory",
    ),
    "an object in an object": (packed([f"run {'[' * 10**6}"]), "line 0 of .* is not understood"),
    "a number of 5,000 digits": (packed([start(), f"digest {'9' * 5000} {DIGEST}"]), "is not understood"),
    "40 actors": (
        packed([start(), "weights", *(f"join [[[{n}],{n}]]" for n in range(40))]),
        "has 0 actors and environment 39, its settings 32 environments",
    ),
    "an actor twice": (packed([start(), "weights", "join [[[0],1],[[0],2]]"]), "line 2 of .* is not understood"),
    "actors that come again and again": (
        packed([start(), *(f"join [[[0],{n}]]" for n in range(99)), *(f"act 0 {n}" for n in [*range(99)] * 2)]),
        "has 99 actors and environment 0, its settings 32 environments",
    ),
    "a hundred thousand actors": (
        packed(
            [start(settings={"actors.num_actors": 10**5})]
            + [f"join [[[{n}],1]]" for n in range(10**5)]
            + [f"act 0 {n}" for n in [*range(10**5)] * 2]
        ),
        "needs more memory than is free for 100000 actors at a time",
    ),
    "environments without end": (
        packed([start(settings={"actors.num_actors": 10**15}), *LINES]),
        "needs more memory than is free for 1 actors at a time of 32000000000000000 environments",
    ),
    "a device without number": (packed([start(), "join [[[0],1]]", "act 99999 0"]), "a device below 256"),
    "an empty digest": (packed([start(), "digest 20 "]), "expected digests, got ''"),
    "names that are none": (packed([start(variables=[1, 2]), *LINES]), "names of variables and a processor, got 1"),
    "weights from elsewhere": (
        packed([start(settings={"init_from": "s3://mine/run"}), *LINES]),
        "'s3://mine/run': give them as --init_from",
    ),
    "threads without end": (packed([start(machine={"threads": 10**9}), *LINES]), "threads are"),
}
DIFFERENT = {
    "a name that commands the terminal": {"variables": ["\x1b[2J\x07" * 10**5]},
    "a setting that commands the terminal": {"settings": {"\x1b[2J" * 10**5: "\x1b[2J" * 10**5}},
    "settings without end": {"settings": {f"setting {n}": n for n in range(10**4)}},
    "nested settings": {"settings": {"nested": json.loads('{"a":' * 900 + "1" + "}" * 900)}},
    "no names": {"variables": []},
}


def attacked(command, tmp_path, monkeypatch, capsys):
    """What a command says, whose code, time and memory are as they should be, and which leaves nothing behind."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("precious")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(mine)
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


@pytest.mark.parametrize(("attack", "sentence"), BUNDLES.values(), ids=BUNDLES)
def test_a_strangers_bundle(attack, sentence, honest, tmp_path, monkeypatch, capsys):
    attack(Bundle(honest, tmp_path / "bundle.tar"))
    command = ["verify", str(tmp_path / "bundle.tar")]
    assert re.search(sentence, said := attacked(command, tmp_path, monkeypatch, capsys)), said


def test_a_bundle_names_no_places(honest, tmp_path):
    assert all("mine/secret" in (honest / name).read_text() for name in ("config.json", "config.gin"))
    contents = Bundle(honest, tmp_path / "bundle.tar").contents
    assert not [name for name, data in contents.items() if b"mine/secret" in data]


@pytest.mark.parametrize(("content", "sentence"), JOURNALS.values(), ids=JOURNALS)
def test_a_strangers_journal(content, sentence, tmp_path, monkeypatch, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / file.NAME).write_bytes(content)
    command = ["replay", str(tmp_path / "run")]
    assert re.search(sentence, said := attacked(command, tmp_path, monkeypatch, capsys)), said


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
