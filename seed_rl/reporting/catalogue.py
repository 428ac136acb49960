"""Catalogue of a run's metrics: tags in TensorBoard and Weights & Biases, units and meanings."""

from seed_rl.types import Metric

METRICS = {
    "episodes/return": Metric("episode_return", "reward", "mean over the last 100 episodes, without reward scaling"),
    "episodes/length": Metric("episode_length", "agent steps", "mean over the last 100 episodes"),
    "evaluation/return": Metric("eval/episode_return", "reward", "mean over the last 30 evaluation episodes"),
    "evaluation/length": Metric("eval/episode_length", "agent steps", "mean over the last 30 evaluation episodes"),
    "loss/total": Metric("loss/total", "", "loss that is minimised (for SAC: critics plus actor)"),
    "optimizer/gradient_norm": Metric("gradient_norm", "", "gradient norm before clipping (SAC: of the critics)"),
    "optimizer/gradient_to_clip": Metric("gradient_to_clip", "", "gradient norm divided by `Optimizer.clip_norm`"),
    "optimizer/learning_rate": Metric("learning_rate", "", "current learning rate"),
    "optimizer/left_out_steps": Metric("left_out_steps", "steps", "steps skipped: NaN or Inf gradients (cumulative)"),
    "speed/frames_per_second": Metric("frames_per_second", "frames/s", "training throughput in environment frames"),
    "speed/updates_per_second": Metric("updates_per_second", "1/s", "learner updates per second"),
    "time/learner_waiting": Metric("time/learner_waiting", "share", "learner time spent waiting for a batch"),
    "time/inference_acting": Metric("time/inference_acting", "share", "inference time spent choosing actions"),
    "time/inference_waiting": Metric("time/inference_waiting", "share", "inference time spent without observations"),
    "time/inference_blocked": Metric("time/inference_blocked", "share", "inference time spent blocked by a full queue"),
    "time/actors_waiting": Metric("time/actors_waiting", "share", "environment time spent waiting for actions"),
    "time/cpu": Metric("time/cpu", "share", "CPU utilisation of the learner machine, all cores"),
    "inference/batch_size": Metric("inference_batch_size", "environments", "mean number of environments per act step"),
    "inference/padding": Metric("inference_padding", "share", "padding rows (wasted compute) per environment row"),
    "inference/updates_behind": Metric("inference_updates_behind", "updates", "mean age of the acting weights"),
    "inference/actors": Metric("actors", "actors", "currently connected actors"),
    "inference/environments": Metric("environments", "environments", "currently connected environments"),
    "inference/environments_hanging": Metric("environments_hanging", "environments", "whose group does not step"),
    "inference/groups_hung": Metric("groups_hung", "groups", "groups that have left while hanging (since this start)"),
    "unrolls/policy_lag": Metric("policy_lag", "updates", "mean age of an unroll, from its start to the update"),
    "unrolls/queue_fill": Metric("queue_fill", "share", "mean fill level of the queue of finished unrolls"),
    "unrolls/discarded": Metric("discarded_unrolls", "unrolls", "unrolls lost with their actor (cumulative)"),
    "unrolls/unrecorded_steps": Metric("unrecorded_steps", "agent steps", "before the first unrolls (cumulative)"),
    "replay/size": Metric("replay/size", "sequences", "sequences currently in the replay"),
    "replay/ratio": Metric("replay/ratio", "", "samples per sequence inserted after the first `Replay.min_size`"),
    "progress/env_frames": Metric("env_frames", "frames", "trained on (at first: acted), with repeats; x-axis"),
    "progress/agent_steps": Metric("agent_steps", "agent steps", "agent steps trained on"),
    "progress/acted_steps": Metric("acted_steps", "agent steps", "acted since this start, trained on or not"),
    "progress/learner_updates": Metric("learner_updates", "updates", "updates of the learner"),
    "progress/optimizer_steps": Metric("optimizer_steps", "steps", "several per update with passes or minibatches"),
    "progress/episodes": Metric("episodes", "episodes", "finished training episodes"),
    "progress/evaluation_episodes": Metric("eval/episodes", "episodes", "finished evaluation episodes"),
    "progress/total_return": Metric("total_return", "reward", "sum of the returns of all training episodes"),
    "progress/seconds": Metric("seconds", "s", "training time, including earlier starts of the run"),
}
"""Metrics common to all agents, by tag. `AgentConfig.metrics` lists those specific to an agent."""

_TAGS = {metric.name: tag for tag, metric in METRICS.items()}


def tag(name: str) -> str:
    """Return the tag of a metric: agent-specific names `group/name` are tags already, others get the group `other`."""
    return _TAGS.get(name) or (name if "/" in name else f"other/{name}")
