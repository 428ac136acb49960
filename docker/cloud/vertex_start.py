"""Starts the learner or an actor in a worker of a Vertex AI custom job: vertex_start.py FLAGS learner|actor ARGUMENT...

Vertex AI says in CLUSTER_SPEC where the learner is. It has no way to hand secrets to a container, so this fetches them
from Secret Manager, as the job's service account, into files that only this user can read: NAME-cert, NAME-token and,
for the learner, NAME-key.
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
    parser.add_argument("--secret", required=True, help="what the secrets' names begin with")
    parser.add_argument("--endpoint", default="https://secretmanager.googleapis.com", help="of Secret Manager")
    parser.add_argument("role", choices=["learner", "actor"])
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="arguments of `seed_rl learner` or `seed_rl actor`")
    arguments = parser.parse_args()
    try:
        command = [*_command(arguments), *arguments.rest]
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"vertex_start.py: {error}")
    os.execvp(command[0], command)


def _command(arguments: argparse.Namespace) -> list[str]:
    host, port = learner_address(os.environ.get("CLUSTER_SPEC", ""))
    names = ["cert", "token", *(["key"] if arguments.role == "learner" else [])]
    files = _fetch(arguments.endpoint, arguments.project, arguments.secret, names)
    command = ["seed_rl", arguments.role, f"--token_file={files['token']}"]
    if arguments.role == "learner":
        return [
            *command,
            f"--server_address=0.0.0.0:{port}",
            f"--tls_cert={files['cert']}",
            f"--tls_key={files['key']}",
        ]
    return [*command, f"--server_address={host}:{port}", f"--tls_ca={files['cert']}", "--tls_server_name=learner"]


def learner_address(cluster: str) -> tuple[str, int]:
    """Host and port of the first worker of the first pool.

    Raises:
      ValueError: the text is not what Vertex AI puts into CLUSTER_SPEC.
    """
    try:
        host, _, port = json.loads(cluster)["cluster"][LEARNER_POOL][0].rpartition(":")
        return host, int(port)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"CLUSTER_SPEC must name the workers of Vertex AI's {LEARNER_POOL}, got {cluster!r}"
        ) from error


def _fetch(endpoint: str, project: str, prefix: str, names: list[str]) -> dict[str, str]:
    """Paths of new files with the newest versions of secrets."""
    bearer = _access_token()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="seed_rl-secrets-"))  # for this user alone
    files = {}
    for name in names:
        url = f"{endpoint}/v1/projects/{project}/secrets/{prefix}-{name}/versions/latest:access"
        reply = _get(url, {"Authorization": f"Bearer {bearer}"})
        path = directory / name
        path.write_bytes(base64.b64decode(reply["payload"]["data"]))
        files[name] = str(path)
    return files


def _access_token() -> str:
    """Of the job's service account, from the metadata server that every machine of Google Cloud has."""
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
