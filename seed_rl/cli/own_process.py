"""Settings of the command line's process, which a library must leave to the program that uses it."""

import os

from seed_rl.system.machine import has_tpu
from seed_rl.system.native_output import HIDDEN


def claim() -> None:
    """Set up gRPC, TPUs and Keras in this process, before they are loaded; settings of the user count."""
    HIDDEN.update({"matplotlib", "cv2", "IPython"})  # Keras would load them for its plots and notebooks
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it logs failed handshakes: strangers could fill a disk that way
    if not has_tpu():
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # TPU builds would query a metadata server for minutes
    # Let the thread that polls a server's queue read its connections as well. By default, threads of gRPC's event
    # engine read them and wake the polling thread for each message. gRPC reads the variable once, on import. It is
    # unset again because other libraries and child processes bring their own gRPC.
    if "GRPC_EXPERIMENTS" not in os.environ:
        os.environ["GRPC_EXPERIMENTS"] = "-event_engine_listener"
        import grpc  # noqa: F401

        del os.environ["GRPC_EXPERIMENTS"]
