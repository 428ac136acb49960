"""What a command does with the files of a stranger: it says a sentence, in little memory and time."""

import os
import time

from seed_rl.cli.main import main
from seed_rl.system.host_memory import allocating_at_most

MOST_MEMORY, MOST_SECONDS = 1 << 30, 10.0


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
