"""Arguments of wrong shapes are refused by name in every function of steps and sequences; results are float32."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import checks, diagnostics, losses, q_learning
from seed_rl.rl.exploration import epsilon_greedy
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.vtrace import vtrace

SEQUENCES, STEPS, VALUES = (3,), (4, 3), (4, 3, 5)  # [B], [T, B], [T, B, A]
EPSILON_GREEDY = (epsilon_greedy, {"q": (3, 5), "epsilon": (3,), "seed": (2,)})


def of_steps(function, *names, **more):
    """A function and the shapes of its arguments: [T, B], and others in `more`."""
    return function, dict.fromkeys(names, STEPS) | more


FUNCTIONS = [
    of_steps(vtrace, "log_rhos", "discount_t", "r_t", "values", "last_t", bootstrap_value=SEQUENCES),
    of_steps(functools.partial(n_step_returns, n=2), "r_t", "discount_t", "v_t", "last_t"),
    (q_learning.q_of_actions, {"q": VALUES, "actions": STEPS}),
    (q_learning.quantile_huber_losses, {"quantiles": VALUES, "targets": VALUES}),
    (q_learning.double_q_terms, {"online_q": VALUES}),
    of_steps(functools.partial(q_learning.sequence_priorities, last_t=np.zeros(STEPS, bool)), "td_errors"),
    of_steps(functools.partial(losses.clipped_ratio_loss, epsilon=0.2), "log_ratios", "advantages"),
    of_steps(losses.baseline_loss, "values", "targets"),
    of_steps(diagnostics.explained_variance, "values", "targets", "weights"),
]


@pytest.mark.parametrize(("function", "shapes"), [*FUNCTIONS, EPSILON_GREEDY])
def test_a_wrong_shape_is_named_even_if_it_would_broadcast(function, shapes):
    arguments = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
    for index, (name, shape) in enumerate(shapes.items()):
        # The first argument tells the others' length: alone it is not wrong.
        for wrong in (shape[1:], (*shape[:-1], 1)) if index else (shape[1:],):
            with pytest.raises(ValueError, match=rf"^{name} must have (shape \(.*\)|rank \d), got "):
                function(**arguments | {name: np.zeros(wrong, np.int32)})


@pytest.mark.parametrize(("function", "shapes"), FUNCTIONS)
def test_results_are_float32_even_of_bfloat16(function, shapes):
    dtypes = {"last_t": tf.bool, "actions": tf.int32}
    results = function(**{name: tf.zeros(shape, dtypes.get(name, tf.bfloat16)) for name, shape in shapes.items()})
    assert {result.dtype for result in tf.nest.flatten(results)} == {tf.float32}


def test_dimensions_unknown_while_tracing_pass_but_not_as_a_length():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    def function(x):
        checks.check_shape("x", x, [5, 3])
        with pytest.raises(ValueError, match="x must have a first axis"):
            checks.static_length("x", x)
        return x

    function(tf.zeros([2, 3]))
