"""What a URL stands for: a run that is kept in an object store, and can be read from it."""

import contextlib
import fnmatch
import os
import tempfile
from collections.abc import Callable, Iterator

from seed_rl.experiment.saved_config import SAVED
from seed_rl.extras.stores.mirror import ObjectStore, reaching, working_directory
from seed_rl.reporting import metrics
from seed_rl.runs.run import Run
from seed_rl.weights import checkpoints


def opened(place: str, checkpoint: str | None) -> contextlib.AbstractContextManager[str] | None:
    """Return a context with a temporary copy of what is read of the runs in a store; a `PolicySource`.

    Fetched are settings, metrics and one checkpoint of the run at the URL, or without a checkpoint (`""`) settings and
    metrics of all runs below it.
    """
    return _copied(place, checkpoint) if "://" in place else None


@contextlib.contextmanager
def _copied(url: str, checkpoint: str | None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        with reaching(url, "read"):
            store = ObjectStore(url)
            names, pattern = store.files(), f"checkpoints/{checkpoints.file_name(checkpoint)}"
            last_part = os.path.basename if checkpoint == "" else str
            read = [name for name in names if last_part(name) in (SAVED, metrics.FILE)]
            for name in [*read, *fnmatch.filter(names, pattern)[-1:]]:
                store.fetch(name, os.path.join(directory, name))
        yield directory


def check(url: str) -> str | None:
    """Describe the place at a URL, or raise CannotUse or Failure if no run can be kept there; None if it is no URL."""
    if "://" not in url:
        return None
    with reaching(url, "read"):
        store = ObjectStore(url)
        files = store.files()
    with reaching(url, "written"):
        store.check_writable()
    return f"{url} is readable and writable and {f'has {len(files)} files' if files else 'empty'}"


def keep(run: Run) -> None:
    """Let a run whose log directory is a URL work in a local mirror of it."""
    if "://" in run.logdir:

        def flush_by(push: Callable[[], None]) -> None:
            run.flush = push

        # Until it is opened, it may get another directory, as one of several learner hosts does.
        run.directory = lambda: working_directory(run.logdir, run.experiment.logs.checkpoint_interval_s, flush_by)
