"""Commands that write policies for others, and list those that ship with the package."""

import importlib.util

from seed_rl.cli import flags
from seed_rl.cli.commands.policies import CHOOSING, HERE, POLICY, place_of, usable_run
from seed_rl.cli.flags import command
from seed_rl.errors import UsageError
from seed_rl.system.files import explaining


@command(
    "seed_rl export --logdir=runs/pong --output=pong_policy",
    *POLICY,
    flags.string("output", None, f"Directory, of ONNX a file; default: policy.onnx or export {HERE}."),
    flags.OVERWRITE,
    flags.choice("format", "saved_model", ["saved_model", "onnx", "hub"], "For programs without seed_rl, or the Hub."),
    flags.integer("batch_size", 1, "Environments per call of a SavedModel or ONNX model.", lower_bound=1),
    flags.group(
        "for the Hub", *CHOOSING, flags.integer("episodes", 100, "Episodes to play for the score.", lower_bound=2)
    ),
)
def export(values: flags.FlagValues) -> int:
    """Writes a policy as a SavedModel or ONNX model, or for the Hugging Face Hub."""
    others = ("batch_size",) if values.format == "hub" else ("greedy", "seed", "episodes")
    if given := [flag for flag in others if values[flag].present]:
        raise UsageError(f"--{given[0]} has no effect on --format={values.format}")
    onnx = values.format == "onnx"
    if onnx and importlib.util.find_spec("tf2onnx") is None:
        raise UsageError("--format=onnx needs tf2onnx: pip install tf2onnx")
    name = "policy.onnx" if onnx else "export"
    with usable_run(values, place_of(values), name, directories=not onnx) as (logdir, (directory,)):
        with explaining(UsageError, f"--output {directory} can't be written"):
            if values.format == "hub":
                from seed_rl.extras.sharing import hub

                how = {"episodes": values.episodes, "greedy": values.greedy, "seed": values.seed}
                hub.export(logdir, directory, values.checkpoint, **how)
            else:
                from seed_rl.evaluation.policy import load_policy
                from seed_rl.extras.sharing.export import export, export_onnx

                policy = load_policy(logdir, values.checkpoint, float32=True)
                (export_onnx if onnx else export)(policy, directory, values.batch_size)
        print(directory)
        if values.format == "hub":
            print(f"to publish it under a name of your account: hf upload ACCOUNT/NAME {directory}")
    return 0


@command("seed_rl pretrained")
def pretrained(values: flags.FlagValues) -> int:
    """Lists the pretrained policies: task, agent, mean return, 95 % interval, size."""
    from seed_rl.extras.sharing import published

    for name in published.names():
        about = published.about(name)
        score = f"{about['mean']:>10,.2f} ({about['low']:,.2f} to {about['high']:,.2f})"
        print(f"{name:16} {about['task']:24} {about['agent']:6} {score:36} {about['bytes'] / 1e6:4.2f} MB")
    return 0
