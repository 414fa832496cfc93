"""An actor of OpenSpiel's AlphaZero that plays Connect Four. Usage: openspiel_actor.py SECONDS SIMULATIONS BLOCKS CHANNELS linen|nnx|compiled

Needs OpenSpiel with what its AlphaZero imports (tools/openspiel-venv). It is OpenSpiel's own actor with the net that it starts with; nobody
learns meanwhile, so that its cache of evaluations is never emptied. linen and nnx are its two ways to write the net, as they come.
compiled: linen's, and what asks it compiled by JAX, which OpenSpiel leaves undone. The first moves, in which JAX compiles, are not timed.
Prints, as "name value" lines, moves and seconds, and for each game that ended its moves.
"""

import contextlib
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts
from open_spiel.python.algorithms.alpha_zero import alpha_zero, model_linen
from open_spiel.python.utils import spawn

UNTIMED = 3
SAMPLED = 7  # moves that are drawn by visits, as many as ours


def compiled_inference(self, observation, legals_mask):
    if not hasattr(self, "compiled"):

        @jax.jit
        def predict(params, batch_stats, observation, mask):
            logits, value = self._state.apply_fn({"params": params, "batch_stats": batch_stats}, observation, training=False, mutable=False)
            return value, jax.nn.softmax(jnp.where(mask, logits, jnp.finfo(jnp.float32).min))

        self.compiled = predict
    value, policy = self.compiled(self._state.params, self._state.batch_stats, np.float32(observation), np.bool_(legals_mask))
    return float(value), np.asarray(policy)


class Count:
    """What the actor takes for the queue to its learner, who never has new weights; counts moves and games, and ends after the time."""

    def __init__(self, seconds):
        self.seconds, self.moves, self.start, self.lengths = seconds, 0, None, []

    def get_nowait(self):
        raise spawn.Empty

    def put(self, trajectory):
        self.lengths.append(len(trajectory.states))

    def moved(self):
        self.moves += 1
        if self.moves == UNTIMED:
            self.start = time.monotonic()
        if self.moves > UNTIMED and time.monotonic() - self.start >= self.seconds:
            sys.exit()


def main():
    seconds, simulations, blocks, channels = float(sys.argv[1]), *map(int, sys.argv[2:5])
    way = sys.argv[5]
    count, search = Count(seconds), mcts.MCTSBot.mcts_search

    def counted(bot, state):
        root = search(bot, state)
        count.moved()
        return root

    mcts.MCTSBot.mcts_search = counted
    if way == "compiled":
        model_linen.Model.inference = compiled_inference
    game = pyspiel.load_game("connect_four")
    moves = game.num_distinct_actions()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        config = alpha_zero.Config(
            game="connect_four", path=folder, learning_rate=0.001, weight_decay=1e-4, decouple_weight_decay=False, train_batch_size=256,
            replay_buffer_size=100000, replay_buffer_reuse=4, max_steps=0, checkpoint_freq=100, actors=1, evaluators=0, evaluation_window=1,
            eval_levels=2, uct_c=1.8, max_simulations=simulations, policy_alpha=10 / moves, policy_epsilon=0.25, temperature=1,
            temperature_drop=SAMPLED, nn_model="resnet", nn_width=channels, nn_depth=blocks, observation_shape=game.observation_tensor_shape(),
            output_size=moves, verbose=False, quiet=True, nn_api_version="linen" if way == "compiled" else way)  # fmt: skip
        try:
            alpha_zero.actor(config=config, game=game, queue=count)
        except SystemExit:
            took = time.monotonic() - count.start
    print(f"moves {count.moves - UNTIMED}\nseconds {took}")
    for length in count.lengths:
        print(f"game_moves {length}")


if __name__ == "__main__":
    main()
