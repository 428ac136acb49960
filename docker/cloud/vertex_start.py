"""Starts the learner or an actor in a worker of a Vertex AI custom job: vertex_start.py FLAGS learner|actor ARGUMENT...

CLUSTER_SPEC, set by Vertex AI, holds the learner's address. Custom jobs cannot mount secrets, so this script fetches
NAME-cert, NAME-token and, for the learner, NAME-key from Secret Manager, as the job's service account, into files that
only this user can read.
"""

import argparse
import base64
import json
import os
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request

LEARNER_POOL = "workerpool0"
_SECONDS = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--project", required=True, help="Google Cloud project of the secrets")
    parser.add_argument("--secret", required=True, help="prefix of the secrets' names")
    parser.add_argument("--endpoint", default="https://secretmanager.googleapis.com", help="of Secret Manager")
    parser.add_argument("role", choices=["learner", "actor"])
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="arguments of `seed_rl learner` or `seed_rl actor`")
    arguments = parser.parse_args()
    try:
        flags = _flags(arguments)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"vertex_start.py: {error}")
    os.execvp("seed_rl", ["seed_rl", arguments.role, *flags, *arguments.rest])


def _flags(arguments: argparse.Namespace) -> list[str]:
    """The flags of the role's address and credentials."""
    host, port = _learner_address(os.environ.get("CLUSTER_SPEC", ""))
    bearer = _access_token()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="seed_rl-secrets-"))  # mode 700

    def secret(name: str) -> str:
        path = f"projects/{arguments.project}/secrets/{arguments.secret}-{name}/versions/latest:access"
        reply = _get(f"{arguments.endpoint}/v1/{path}", {"Authorization": f"Bearer {bearer}"})
        (directory / name).write_bytes(base64.b64decode(reply["payload"]["data"]))
        return str(directory / name)

    flags = [f"--token_file={secret('token')}"]
    if arguments.role == "learner":
        return [
            *flags,
            f"--server_address=0.0.0.0:{port}",
            f"--tls_cert={secret('cert')}",
            f"--tls_key={secret('key')}",
        ]
    return [*flags, f"--server_address={host}:{port}", f"--tls_ca={secret('cert')}", "--tls_server_name=learner"]


def _learner_address(cluster: str) -> tuple[str, int]:
    """Host and port of the first worker of the first pool."""
    try:
        host, _, port = json.loads(cluster)["cluster"][LEARNER_POOL][0].rpartition(":")
        return host, int(port)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"CLUSTER_SPEC must name the workers of Vertex AI's {LEARNER_POOL}, got {cluster!r}"
        ) from error


def _access_token() -> str:
    """The token of the job's service account, from Google Cloud's metadata server."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    return _get(url, {"Metadata-Flavor": "Google"})["access_token"]


def _get(url: str, headers: dict[str, str]) -> dict:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_SECONDS) as reply:
            return json.load(reply)
    except urllib.error.URLError as error:
        raise OSError(f"{url} can't be read: {getattr(error, 'reason', error)}") from error


if __name__ == "__main__":
    main()
