"""Actors and learner over gRPC: messages, codec, server, client, credentials. Never imports TensorFlow."""

import os

# gRPC's own log has a line for each handshake that fails, so that strangers could fill a disk with it.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# Let the thread that polls a server's queue read its connections as well. By default threads of gRPC's event engine
# read them and wake the polling thread for each message. gRPC looks at the variable once, when it is imported; other
# libraries in this process, and child processes, have a gRPC of their own and shouldn't see it.
if "GRPC_EXPERIMENTS" not in os.environ:
    os.environ["GRPC_EXPERIMENTS"] = "-event_engine_listener"
    import grpc  # noqa: F401

    del os.environ["GRPC_EXPERIMENTS"]
