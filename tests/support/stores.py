"""Object stores for tests: those of fsspec that need no network, a fake with buckets, and S3 as moto serves it."""

import functools
import importlib.util
import io
import os

import fsspec
from fsspec.spec import AbstractFileSystem

WITH_BUCKETS = ("bucket", *(("s3",) if importlib.util.find_spec("moto") else ()))
"""`s3` only if moto[server] and s3fs have been added, whose dependencies contradict requirements/dev.lock."""
KINDS = ("file", "memory", *WITH_BUCKETS)


class Buckets(AbstractFileSystem):
    """Objects by key in buckets that must exist. As in s3fs and gcsfs, `makedirs` would create the bucket of a key."""

    protocol = "bucket"
    objects: dict[str, dict[str, bytes]] = {}  # noqa: RUF012

    def makedirs(self, path, exist_ok=False):
        self.objects.setdefault(path.partition("/")[0], {})

    def ls(self, path, detail=True, **_):
        assert (path, detail) == ("", False), "other listings are those of `find`"
        return list(self.objects)

    def find(self, path, **_):
        bucket, _, prefix = path.partition("/")
        return [f"{bucket}/{key}" for key in self._bucket(path) if f"{key}/".startswith(f"{prefix}/")]

    def info(self, path, **_):
        key, bucket = path.partition("/")[2], self._bucket(path)
        if key not in bucket and not self.find(path):
            raise FileNotFoundError(path)
        return {"name": path, "type": "file" if key in bucket else "directory", "size": len(bucket.get(key, b""))}

    def _bucket(self, path):
        try:
            return self.objects[path.partition("/")[0]]
        except KeyError:
            raise FileNotFoundError("The specified bucket does not exist") from None

    def _open(self, path, mode="rb", **_):
        key, upload = path.partition("/")[2], Upload()
        if mode == "rb":
            if key not in self._bucket(path):
                raise FileNotFoundError(path)
            return io.BytesIO(self._bucket(path)[key])
        upload.complete = functools.partial(self.pipe_file, path)
        return upload

    def pipe_file(self, path, value, **_):
        self._bucket(path)[path.partition("/")[2]] = value

    def cp_file(self, path1, path2, **_):
        self.pipe_file(path2, self.cat_file(path1))

    def rm_file(self, path):
        if self._bucket(path).pop(path.partition("/")[2], None) is None:
            raise FileNotFoundError(path)

    _rm = rm_file


class Upload(io.BytesIO):
    """An object that is there once it is closed."""

    def close(self):
        if not self.closed:
            self.complete(self.getvalue())
        super().close()


fsspec.register_implementation("bucket", Buckets, clobber=True)


@functools.cache
def serve_s3():
    """Starts a server for S3, to which this process's requests go."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


def directory(kind, path):
    """URL of a directory that is named by an absolute path, in a bucket that exists if the store has buckets."""
    if kind == "s3":
        serve_s3()
    if kind in ("file", "memory"):
        return f"{kind}://{path}"
    fsspec.filesystem(kind).makedirs("bucket", exist_ok=True)
    return f"{kind}://bucket{path}"
