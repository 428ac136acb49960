"""Actors and learner over gRPC: messages, codec, server, client, credentials. Never imports TensorFlow."""
