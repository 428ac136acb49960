"""The commands that the scripts of this folder start, and what docker/cloud/ shares with them."""

import argparse
import functools
import hashlib
import inspect
import os
import pathlib
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import NoReturn

DOCKER = pathlib.Path(__file__).resolve().parent
ROOT = DOCKER.parent
_OPENSSL = """[req]\nprompt = no\ndistinguished_name = subject\nx509_extensions = extensions
[subject]\ncommonName = learner
[extensions]\nbasicConstraints = critical, CA:TRUE, pathlen:0\nkeyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth\nsubjectAltName = """


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, with exit code 2."""

    name = ""  # of the command

    def __init__(self, prog: str, description: str):
        Parser.name = prog
        raw, text = argparse.RawDescriptionHelpFormatter, inspect.cleandoc(description)
        super().__init__(prog=prog, description=text, formatter_class=raw, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): ", r"\1 ", message)
        self.exit(2, f"{self.prog}: {message}; --help lists the flags\n")


def mistake(sentence: str) -> NoReturn:
    """Ends the command because of a mistake of the caller."""
    print(f"{Parser.name}: {sentence}", file=sys.stderr)
    sys.exit(2)


def form(pattern: str, description: str) -> Callable[[str], str]:
    """The type of a flag whose whole text must match a pattern."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"must be {description}, got {text!r}")
        return text

    return check


def count(text: str) -> int:
    """The type of a flag that is a number of things."""
    return int(form(r"[1-9][0-9]{0,14}", "a whole number from 1 on")(text))


binding = form(r"[A-Za-z_][\w./]* *=[^\n\r]*", "a gin binding such as Atari.game='pong'")
repository = form(r"[a-z0-9][a-z0-9._:/-]*", "a registry and a path in lower case")
tag = form(r"\w[\w.-]{0,127}", "a tag of letters, digits, dots and dashes")


def add_common_flags(parser: Parser) -> None:
    """Those of every command that starts a run."""
    add = parser.add_argument
    add("--gin_param", type=binding, action="append", default=[], help="a setting; may be repeated")
    suites = ("atari", "football", "dmlab", "mujoco", "pettingzoo")
    add("--suite", choices=suites, help="decides the images (mujoco: also Box2D); default: the experiment's")
    add("--secrets", type=pathlib.Path, default=DOCKER / "secrets", help="of make_secrets.sh, made if missing")
    add("--dry_run", action="store_true", help="print the commands without running them")


def check_experiment(name: str) -> str:
    """The name without its extension; it must be in this repository, from which the images are built."""
    name = name.removesuffix(".gin")
    if not re.fullmatch(r"\w+/\w+", name) or not (ROOT / "configs" / f"{name}.gin").is_file():
        mistake(f"there is no experiment {name!r} in configs/, such as atari/vtrace_pong; seed_rl configs lists them")
    return name


def check_secrets(directory: pathlib.Path) -> None:
    """Checks that a directory is one of secrets, or does not exist yet."""
    missing = [name for name in ("cert.pem", "key.pem", "token") if not (directory / name).is_file()]
    if directory.exists() and missing:
        mistake(f"--secrets must be new or a directory of docker/make_secrets.sh; {directory} has no {missing[0]}")


def choose_images(suite: str, device: str) -> tuple[str, str, list[str]]:
    """The images of learner and actors for an experiment or a suite, and the settings that they require.

    A learner needs the packages of environments whose spaces it reads from them.
    """
    if suite.startswith("football"):
        return device, "football", ["Football.backend='gfootball'"]
    for extra in ("mujoco", "pettingzoo"):
        if suite.startswith(extra) or (suite, extra) == ("gym/lunar_lander", "mujoco"):
            return f"{device}-{extra}", f"actor-{extra}", []
    return device, "dmlab" if suite.startswith("dmlab") else "actor", []


class Runner:
    """Runs commands, or prints them so that they can be pasted into a shell."""

    def __init__(self, dry_run: bool, *needed: str):
        """A dry run does without the `needed` programs."""
        self.dry_run = dry_run
        for name in () if dry_run else needed:
            if shutil.which(name) is None:
                mistake(f"{name} is not installed, or not on the PATH; --dry_run does without it")

    def __call__(self, *command: object, text: str = "") -> None:
        """Runs a command, with a text on its standard input."""
        words = [str(word) for word in command]
        if self.dry_run:
            print(shlex.join(words) + (f" <<'EOF'\n{text}EOF" if text else ""))
        else:
            subprocess.run(words, check=True, **({"input": text.encode()} if text else {}))

    def shell(self, line: str) -> None:
        """Runs a line with pipes, already quoted."""
        print(line) if self.dry_run else self("bash", "-o", "pipefail", "-c", line)


@functools.cache
def commit() -> str:
    """The commit, and with changes a hash of all files, since nodes keep an image of the same tag; "" without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout

    try:
        found, changed = git("rev-parse", "--short=12", "HEAD").strip(), git("status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        return ""
    if changed:
        names = git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        files = [ROOT / name for name in names if (ROOT / name).is_file()]
        digest = hashlib.sha256(b"".join(f"{file}\0".encode() + file.read_bytes() for file in files))
        found += f"-{digest.hexdigest()[:12]}"
    return found


def image_name(image: str, where: str | None, tag: str) -> str:
    """Its full name; without a repository it is local."""
    return f"{(where or '').rstrip('/')}/seed_rl-{image}:{tag}".lstrip("/")


def build_images(run: Runner, images: Sequence[str], where: str | None, tag: str, push: bool) -> None:
    revision = commit()
    for image in images:
        (kind, _, extra), name = image.partition("-"), image_name(image, where, tag)
        target, lock = kind if kind in ("football", "dmlab") else "image", kind if kind.endswith("pu") else "actor"
        command = [f"--file={DOCKER}/Dockerfile", f"--target={target}", f"--tag={name}", f"--build-arg=IMAGE={lock}"]
        command += [f"--build-arg=EXTRA={extra}", f"--build-arg=COMMIT={revision}"]
        command += [f"--label=org.opencontainers.image.revision={revision}"]
        # Pushed images run on the cloud's machines, which may differ from this one.
        run("env", "DOCKER_BUILDKIT=1", "docker", "build", *command, *["--platform=linux/amd64"] * push, ROOT)
        if push:
            run("docker", "push", name)


def build(arguments: Sequence[str]) -> None:
    """Builds images and tags them seed_rl-IMAGE:TAG. IMAGE is one of

    cpu, gpu, tpu                      learner, TensorBoard and every other command
    actor, atari, football, dmlab      actors without TensorFlow; atari is another name of actor
    cpu-mujoco, actor-mujoco, ...      the same with MuJoCo and Box2D
    cpu-pettingzoo, ...                the same with PettingZoo
    """
    parser = Parser("build.sh", build.__doc__ or "")
    known = r"(cpu|gpu|tpu|actor)(-mujoco|-pettingzoo)?|atari|football|dmlab"
    words = "cpu, gpu, tpu or actor, one of them with -mujoco or -pettingzoo, atari, football or dmlab"
    parser.add_argument("images", type=form(known, words), nargs="+", metavar="IMAGE")
    parser.add_argument("--repository", type=repository, help="to push to, such as registry.example/rl")
    parser.add_argument("--tag", type=tag, default="latest")
    parser.add_argument("--push", action="store_true", help="push the images after building them")
    parser.add_argument("--dry_run", action="store_true", help="print the commands without running them")
    asked = parser.parse_args(arguments)
    if asked.push and not asked.repository:
        parser.error("--push needs --repository")
    build_images(Runner(asked.dry_run, "docker"), asked.images, asked.repository, asked.tag, asked.push)


def make_secrets(arguments: Sequence[str]) -> None:
    """Makes the secrets of learner and actors, in a new directory that only its owner can read:

    cert.pem   a self-signed certificate: the learner's --tls_cert, the actors' --tls_ca
    key.pem    its private key: the learner's --tls_key
    token      a random secret: --token_file of both
    """
    parser = Parser("make_secrets.sh", make_secrets.__doc__ or "")
    parser.add_argument("directory", type=pathlib.Path, metavar="DIRECTORY")
    name = form(r"[0-9a-f]*:[0-9a-f:]+|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", "a host name or an IP address")
    parser.add_argument(
        "names", type=name, nargs="*", metavar="NAME", help="hosts of the learner, in addition to learner and localhost"
    )
    parser.add_argument("--days", type=count, default=365, help="validity of the certificate; default: 365")
    asked = parser.parse_args(arguments)
    if asked.directory.exists():
        mistake(f"{asked.directory} exists already: its secrets are left alone; remove it, or name another")
    Runner(False, "openssl")
    names = ["learner", "localhost", "127.0.0.1", "::1", *asked.names]
    text = _OPENSSL + ",".join(f"{'IP' if re.fullmatch('[0-9.]+|.*:.*', name) else 'DNS'}:{name}" for name in names)
    os.umask(0o077)
    asked.directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".secrets.", dir=asked.directory.parent) as made:  # all of them, or none
        os.mkdir(f"{made}/all")
        pathlib.Path(f"{made}/all/token").write_text(f"{secrets.token_hex(32)}\n")
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{made}/all/key.pem"]
        flags = ["-sha256", "-days", str(asked.days), "-out", f"{made}/all/cert.pem", "-config", "/dev/stdin"]
        done = subprocess.run(["openssl", "req", "-x509", *key, *flags], input=text, capture_output=True, text=True)
        if done.returncode:
            mistake(f"openssl failed: {done.stderr}")
        os.rename(f"{made}/all", asked.directory)
    print(f"Made cert.pem, key.pem and token in {asked.directory}", file=sys.stderr)


def run_local(arguments: Sequence[str]) -> None:
    """Builds the images and starts a learner, actors and TensorBoard in containers; Ctrl-C ends them with a last
    checkpoint. Repeating the command continues the run."""
    parser = Parser("run_local.sh", run_local.__doc__ or "")
    add = parser.add_argument
    add("gin_file", metavar="EXPERIMENT", help="such as atari/vtrace_pong; seed_rl configs lists them")
    add("actors", type=count, metavar="ACTORS", help="actor containers")
    add("envs", type=count, metavar="ENVS", help="environments in each")
    add_common_flags(parser)
    add("--runs", type=pathlib.Path, default="runs", metavar="DIRECTORY", help="of all runs; default: runs")
    name = form(r"\w[\w.-]*", "one name of letters, digits, dots and dashes")
    add("--run", type=name, help="the run's own directory in it; default: the experiment's name")
    add("--gpu", action="store_true", help="the learner runs on this machine's NVIDIA GPUs")
    asked = parser.parse_args(arguments)
    gin_file = check_experiment(asked.gin_file)
    check_secrets(asked.secrets)
    run = Runner(asked.dry_run, "docker", "openssl")
    learner, actor, settings = choose_images(asked.suite or gin_file, "gpu" if asked.gpu else "cpu")
    # Two groups, so that one steps while the other waits for actions.
    groups = 1 if asked.envs % 2 else 2
    sizes = [f"Actors.groups_per_actor={groups}", f"Actors.envs_per_group={asked.envs // groups}"]
    flags = [f"--gin_param={each}" for each in (*sizes, *settings, *asked.gin_param)]
    # Files belong to the caller, or to the image's own user if the caller is root.
    user = f"{os.getuid()}:{os.getgid()}" if os.getuid() else "1000:1000"
    runs, keys, own = asked.runs.resolve(), asked.secrets.resolve(), asked.run or gin_file.replace("/", "_")
    build_images(run, [learner, actor], None, "latest", push=False)
    if not keys.exists():
        run(DOCKER / "make_secrets.sh", keys)
    run("mkdir", "-p", runs / own)
    if not os.getuid():
        run("chown", "-R", user, runs / own, keys)
    variables = {
        "SEED_RL_USER": user,
        "SEED_RL_RUNS": str(runs),
        "SEED_RL_SECRETS": str(keys),
        "SEED_RL_LEARNER_IMAGE": learner,
        "SEED_RL_ACTOR_IMAGE": actor,
        "SEED_RL_GIN_FILE": gin_file,
        "SEED_RL_RUN": own,
        "SEED_RL_ACTORS": str(asked.actors),
        "SEED_RL_LEARNER_FLAGS": shlex.join(["--accelerator=gpu"] * asked.gpu + flags),
    }
    if run.dry_run:
        print(f"export {shlex.join(f'{name}={value}' for name, value in variables.items())}")
    else:
        os.environ.update(variables)
    project = f"seed_rl-{hashlib.sha256(str(runs / own).encode()).hexdigest()[:12]}"  # of this run alone
    compose = ["docker", "compose", f"--project-name={project}", "--file", f"{DOCKER}/compose.yaml"]
    compose += ["--file", f"{DOCKER}/compose.gpu.yaml"] * asked.gpu
    try:
        run(*compose, "up", "--detach", "--scale", f"actor={asked.actors}")
        print(f"TensorBoard: http://localhost:{os.environ.get('SEED_RL_TENSORBOARD_PORT', 6006)}", file=sys.stderr)
        run(*compose, "logs", "--follow", "--no-log-prefix", "learner")  # ends with the learner
        if not run.dry_run:
            found = subprocess.check_output([*compose, "ps", "--all", "--quiet", "learner"], text=True).strip()
            sys.exit(int(subprocess.check_output(["docker", "inspect", "--format", "{{.State.ExitCode}}", found])))
    finally:
        run(*compose, "down")  # the learner writes its last checkpoint


def main(command: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> None:
    """Runs a command to its end, or to the failure of a program, which has said why."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # cleans up
    try:
        command(arguments)
    except subprocess.CalledProcessError as error:
        sys.exit(max(1, error.returncode))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main({"build": build, "make_secrets": make_secrets, "run_local": run_local}[sys.argv[1]], sys.argv[2:])
