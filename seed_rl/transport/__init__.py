"""Actors and learner over gRPC: messages, codec, server, client, credentials. Never imports TensorFlow."""

import os

# gRPC's own log has a line for each handshake that fails, so that strangers could fill a disk with it.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
