"""Every metric of a run: its name in `metrics.jsonl`, its tag in TensorBoard and Weights & Biases, its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Metric(NamedTuple):
    """A scalar that runs report."""

    name: str
    """In `metrics.jsonl`."""
    tag: str
    """In TensorBoard and Weights & Biases: `group/name`."""
    unit: str
    meaning: str


METRICS = (
    Metric("episode_return", "episodes/return", "reward", "mean over the last 100 episodes, unscaled"),
    Metric("episode_length", "episodes/length", "agent steps", "mean over the same episodes"),
    Metric("eval/episode_return", "evaluation/return", "reward", "mean over the last 30 of evaluation environments"),
    Metric("eval/episode_length", "evaluation/length", "agent steps", "mean over the same episodes"),
    Metric("loss/total", "loss/total", "", "what is minimised: the sum of the parts"),
    Metric("loss/policy", "loss/policy", "", "policy gradient loss (V-trace)"),
    Metric("loss/baseline", "loss/baseline", "", "squared error of the value, times `VTrace.baseline_cost`"),
    Metric("loss/entropy", "loss/entropy", "", "negative entropy of the policy, times its cost (V-trace)"),
    Metric("loss/kl", "loss/kl", "", "KL divergence between acting and learned policy, times `VTrace.kl_cost`"),
    Metric("policy/entropy", "policy/entropy", "nats", "of the learned policy, mean over steps"),
    Metric("policy/entropy_cost", "policy/entropy_cost", "", "present weight, where `VTrace.target_entropy` adapts it"),
    Metric("policy/kl_behaviour_target", "policy/kl_behaviour_target", "nats", "between acting and learned policy"),
    Metric("policy/mean_abs_advantage", "policy/mean_abs_advantage", "return", "mean size of the advantages"),
    Metric("policy/mean_value", "policy/mean_value", "return", "mean estimate of the value"),
    Metric("q/value", "q/value", "return", "mean value of the actions taken (R2D2)"),
    Metric("q/max_value", "q/max_value", "return", "the largest of them in a batch"),
    Metric("q/abs_td_error", "q/abs_td_error", "rescaled return", "mean size of the n-step temporal-difference errors"),
    Metric("gradient_norm", "optimizer/gradient_norm", "", "global norm before clipping"),
    Metric("learning_rate", "optimizer/learning_rate", "", "as the schedule has it"),
    Metric("frames_per_second", "speed/frames_per_second", "frames/s", "environment frames learned from"),
    Metric("updates_per_second", "speed/updates_per_second", "1/s", "learner updates"),
    Metric("time/learner_waiting", "time/learner_waiting", "share", "of the learner's time: waiting for a batch"),
    Metric("time/inference_acting", "time/inference_acting", "share", "of inference's: choosing actions"),
    Metric("time/inference_waiting", "time/inference_waiting", "share", "of inference's: waiting for observations"),
    Metric("time/inference_blocked", "time/inference_blocked", "share", "of inference's: blocked by a full queue"),
    Metric("time/actors_waiting", "time/actors_waiting", "share", "of environment groups' time: waiting for actions"),
    Metric("time/cpu", "time/cpu", "share", "of all cores of the learner's machine: busy"),
    Metric("inference_batch_size", "inference/batch_size", "environments", "mean per act step"),
    Metric("inference_padding", "inference/padding", "share", "rows of padding over rows of environments"),
    Metric("inference_updates_behind", "inference/updates_behind", "updates", "that acting lacked, mean per act step"),
    Metric("actors", "inference/actors", "actors", "connected at the moment"),
    Metric("environments", "inference/environments", "environments", "served at the moment"),
    Metric("policy_lag", "unrolls/policy_lag", "updates", "between the beginning of an unroll and learning from it"),
    Metric("queue_fill", "unrolls/queue_fill", "share", "finished unrolls that wait, over the queue's capacity"),
    Metric("discarded_unrolls", "unrolls/discarded", "unrolls", "lost unfinished with their actor, so far"),
    Metric("unrecorded_steps", "unrolls/unrecorded_steps", "agent steps", "played before the first unroll, so far"),
    Metric("replay/size", "replay/size", "sequences", "in the replay"),
    Metric("replay/ratio", "replay/ratio", "", "how often a sequence has been sampled on average"),
    Metric("env_frames", "progress/env_frames", "frames", "learned from, action repeats included; the horizontal axis"),
    Metric("agent_steps", "progress/agent_steps", "agent steps", "learned from"),
    Metric("learner_updates", "progress/learner_updates", "updates", "done"),
    Metric("episodes", "progress/episodes", "episodes", "finished, without those of evaluation"),
    Metric("seconds", "progress/seconds", "s", "spent training, over all starts of the run"),
)

_BY_NAME = {metric.name: metric for metric in METRICS}
_OTHERS = "other"  # group of a custom agent's metrics without one


def tag(name: str) -> str:
    """The tag of a metric; one of a custom agent is its own tag, in the group `other` if it names none."""
    if name in _BY_NAME:
        return _BY_NAME[name].tag
    return name if "/" in name else f"{_OTHERS}/{name}"


class Chart(NamedTuple):
    """Curves that are read together."""

    title: str
    tags: Sequence[str]
    """Regular expressions that match the beginning of a tag."""


CHARTS: dict[str, Sequence[Chart]] = {
    "Returns": (
        Chart("return", ("episodes/return$", "evaluation/return$")),
        Chart("episode length", ("episodes/length$", "evaluation/length$")),
    ),
    "Losses": (
        Chart("loss and its parts", ("loss/",)),
        Chart("gradient norm", ("optimizer/gradient_norm$",)),
    ),
    "Shares of time": (
        Chart("waiting for one another", ("time/learner_waiting$", "time/inference_waiting$", "time/actors_waiting$")),
        Chart("inference and cores", ("time/inference_acting$", "time/inference_blocked$", "time/cpu$")),
    ),
    "Speed": (
        Chart("environment frames per second", ("speed/frames_per_second$",)),
        Chart("updates per second", ("speed/updates_per_second$",)),
    ),
}
"""TensorBoard's custom scalars, by category. The same for all runs: it merges the layouts of those it shows."""


def table() -> str:
    """`METRICS` as a table in Markdown."""
    rows = [("metrics.jsonl", "tag", "unit", "meaning"), ("---",) * 4]
    rows += [(f"`{metric.name}`", f"`{metric.tag}`", metric.unit, metric.meaning) for metric in METRICS]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
