"""The metrics of a run: their tags in TensorBoard and Weights & Biases, their units and their meanings."""

from __future__ import annotations

from collections.abc import Sequence

from seed_rl.types import Metric

METRICS = {
    "episodes/return": Metric("episode_return", "reward", "mean over the last 100 episodes, unscaled"),
    "episodes/length": Metric("episode_length", "agent steps", "mean over the same episodes"),
    "evaluation/return": Metric("eval/episode_return", "reward", "mean over the last 30 evaluation episodes, unscaled"),
    "evaluation/length": Metric("eval/episode_length", "agent steps", "mean over the same episodes"),
    "loss/total": Metric("loss/total", "", "the loss that is minimised; of SAC, critics plus actor"),
    "optimizer/gradient_norm": Metric("gradient_norm", "", "global norm before clipping"),
    "optimizer/gradient_to_clip": Metric("gradient_to_clip", "", "gradient norm over `Optimizer.clip_norm`"),
    "optimizer/learning_rate": Metric("learning_rate", "", "current value of the schedule"),
    "optimizer/left_out_steps": Metric("left_out_steps", "steps", "not made, for want of finite gradients, in total"),
    "speed/frames_per_second": Metric("frames_per_second", "frames/s", "environment frames learned from"),
    "speed/updates_per_second": Metric("updates_per_second", "1/s", "learner updates"),
    "time/learner_waiting": Metric("time/learner_waiting", "share", "of the learner's time: waiting for a batch"),
    "time/inference_acting": Metric("time/inference_acting", "share", "of inference time: choosing actions"),
    "time/inference_waiting": Metric("time/inference_waiting", "share", "of inference time: waiting for observations"),
    "time/inference_blocked": Metric("time/inference_blocked", "share", "of inference time: blocked by a full queue"),
    "time/actors_waiting": Metric("time/actors_waiting", "share", "of the environments' time: waiting for actions"),
    "time/cpu": Metric("time/cpu", "share", "utilisation of all cores of the learner's machine"),
    "inference/batch_size": Metric("inference_batch_size", "environments", "mean per act step"),
    "inference/padding": Metric("inference_padding", "share", "rows of padding over rows of environments"),
    "inference/updates_behind": Metric("inference_updates_behind", "updates", "age of the acting weights, mean"),
    "inference/actors": Metric("actors", "actors", "connected now"),
    "inference/environments": Metric("environments", "environments", "served now"),
    "unrolls/policy_lag": Metric("policy_lag", "updates", "from the start of an unroll until it is learned from, mean"),
    "unrolls/queue_fill": Metric("queue_fill", "share", "finished unrolls in the queue over its capacity, mean"),
    "unrolls/discarded": Metric("discarded_unrolls", "unrolls", "lost unfinished with their actor, in total"),
    "unrolls/unrecorded_steps": Metric("unrecorded_steps", "agent steps", "before the first unrolls, in total"),
    "replay/size": Metric("replay/size", "sequences", "stored in the replay"),
    "replay/ratio": Metric("replay/ratio", "", "samples per inserted sequence, mean"),
    "progress/env_frames": Metric("env_frames", "frames", "learned from, with action repeats; the horizontal axis"),
    "progress/agent_steps": Metric("agent_steps", "agent steps", "learned from"),
    "progress/learner_updates": Metric("learner_updates", "updates", "of the learner"),
    "progress/optimizer_steps": Metric("optimizer_steps", "steps", "several in an update with passes or minibatches"),
    "progress/episodes": Metric("episodes", "episodes", "finished, evaluation excluded"),
    "progress/total_return": Metric("total_return", "reward", "sum of the returns of these episodes, unscaled"),
    "progress/seconds": Metric("seconds", "s", "of training, summed over all starts of the run"),
}
"""The metrics of every agent's runs, by tag. An agent's own are listed with the agent: `AgentConfig.metrics`."""

_TAGS = {metric.name: tag for tag, metric in METRICS.items()}


def tag(name: str) -> str:
    """The tag of a metric. An agent's metric `group/name` is its own tag; without a group it belongs to `other`."""
    return _TAGS.get(name) or (name if "/" in name else f"other/{name}")


CHARTS: dict[str, dict[str, Sequence[str]]] = {
    "Returns": {
        "return": ("episodes/return$", "evaluation/return$"),
        "episode length": ("episodes/length$", "evaluation/length$"),
    },
    "Losses": {
        "loss and its parts": ("loss/",),
        "gradient norm": ("optimizer/gradient_norm$",),
    },
    "Shares of time": {
        "waiting": ("time/learner_waiting$", "time/inference_waiting$", "time/actors_waiting$"),
        "inference and cores": ("time/inference_acting$", "time/inference_blocked$", "time/cpu$"),
    },
    "Speed": {
        "environment frames per second": ("speed/frames_per_second$",),
        "updates per second": ("speed/updates_per_second$",),
    },
}
"""TensorBoard's custom scalars: by category and title of the chart, regular expressions that tags begin with. Equal in
all runs, because TensorBoard merges the layouts of those it shows."""
