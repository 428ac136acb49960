"""Actors and learner over gRPC: messages, codec, server, client, credentials. Never imports TensorFlow."""

import os

# gRPC logs every failed handshake: strangers could fill a disk that way.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# Let the thread that polls a server's queue read its connections as well. By default, threads of gRPC's event engine
# read them and wake the polling thread for each message. gRPC reads the variable once, on import. It is unset again
# because other libraries and child processes bring their own gRPC.
if "GRPC_EXPERIMENTS" not in os.environ:
    os.environ["GRPC_EXPERIMENTS"] = "-event_engine_listener"
    import grpc  # noqa: F401

    del os.environ["GRPC_EXPERIMENTS"]
