"""The command that serves a policy."""

import contextlib
import os
import time

from seed_rl.cli import flags
from seed_rl.cli.commands.policies import CHOOSING, POLICY, place_of, usable_run
from seed_rl.cli.flags import command
from seed_rl.reporting.text import quantity
from seed_rl.system.signals import signals


@command(
    "seed_rl serve runs/pong --server_address=localhost:8686",
    *POLICY,
    *CHOOSING,
    flags.string("server_address", flags.DEFAULT_TCP_ADDRESS, "host:port or unix:/path for clients."),
    flags.integer("max_envs", 1024, "Environments that may be connected.", lower_bound=1),
    flags.SECURITY,
    arguments="a log directory, bundle or URL, instead of --logdir.",
)
def serve(values: flags.FlagValues, *places: str) -> int:
    """Serves a run's policy to actors and other clients, as its learner would."""
    place = place_of(values, *places)
    security = flags.server_security(values, values.server_address)
    with signals() as stopped, usable_run(values, place) as (logdir, _):
        stopped.raises = True
        from seed_rl.extras.serving.policy_server import PolicyServer

        server = PolicyServer(logdir, values.checkpoint, values.greedy, values.seed, values.max_envs)
        with contextlib.closing(server.serve(values.server_address, security, stopped)) as rows:
            for row in rows:
                stopped.asks()
                environments = quantity(int(row["environments"]), "environment")
                line = f"{environments} of {quantity(int(row['actors']), 'client')}"
                line += f", {row['steps_per_second']:,.0f} steps/s"
                if row["episodes"]:
                    line += f", return {row['episode_return']:.2f} after {quantity(int(row['episodes']), 'episode')}"
                weights = f"{os.path.basename(server.checkpoint)} ({server.env_frames:,} frames)"
                print(f"{time.strftime('%H:%M:%S')} {line}, {weights}", flush=True)
    return stopped.exit_code
