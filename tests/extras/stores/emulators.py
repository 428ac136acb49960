"""Object stores for tests: those of fsspec that need no network, and emulators of S3 and Google Cloud Storage."""

import functools
import os

import fsspec
from fsspec.asyn import AsyncFileSystem

from tests.support.ports import free_addresses

WITH_BUCKETS = ("s3", "gs")
KINDS = ("file", "memory", *WITH_BUCKETS)


@functools.cache
def _serve(kind):
    """Starts a server, to which the requests of this process and its children go."""
    if kind == "s3":
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
        os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    else:
        # The emulator has no gRPC, by which gcsfs asks for a bucket's type, and can't move objects; gcsfs then does,
        # after retries, what is set here.
        os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
        from gcp_storage_emulator.server import create_server
        from gcsfs import GCSFileSystem

        GCSFileSystem._mv_file = AsyncFileSystem._mv_file
        fsspec.config.conf["gcs"] = {"token": "anon"}
        (address,) = free_addresses(1)
        server = create_server("localhost", int(address.rpartition(":")[2]), in_memory=True)
        server._api.daemon = True  # ends with this process
        server.start()
        os.environ |= {"STORAGE_EMULATOR_HOST": f"http://{address}", "FSSPEC_GCS_TOKEN": "anon"}


def directory(kind, path):
    """URL of a directory that is named by an absolute path, in a bucket that exists if the store has buckets."""
    if kind in ("file", "memory"):
        return f"{kind}://{path}"
    _serve(kind)
    if "bucket" not in buckets(kind):
        fsspec.filesystem(kind).mkdir("bucket")
    return f"{kind}://bucket{path}"


def buckets(kind):
    store = fsspec.filesystem(kind)
    store.invalidate_cache()
    return [name.strip("/") for name in store.ls("", detail=False)]
