"""bench/networks_in_play.py: are its returns those of docs/learners/pqn.md, and does it learn?"""

import sys

import numpy as np
import pytest
import torch

from processes import SOURCE
from snake_ddp import Boards, Team, evaluate, obs_size

sys.path.insert(0, str(SOURCE / "bench"))
import networks_in_play as in_play  # noqa: E402

torch.set_num_threads(1)


class Constant(torch.nn.Module):
    """All moves are worth as much."""

    reads_boards = False

    def __init__(self, worth):
        super().__init__()
        self.worth = worth

    def forward(self, observations):
        return torch.full((*observations.shape[:2], 4), self.worth)


def test_returns_are_lambda_returns_that_end_with_the_game():
    boards = Boards(in_play.BOARDS, obs="ahead", opponent="none")
    boards.reset(1)
    random = np.random.default_rng(1)
    learned = 0
    for _ in range(26):  # two games
        before = boards.states["steps"].copy()
        _, _, moves, returns = in_play.rollout(Constant(2.0), boards, random)
        learned += len(moves)
    steps = 26 * in_play.STEPS
    assert learned == in_play.BOARDS * (steps - steps // 201), "a step that starts a new game is not learned from"
    assert (boards.states["steps"] != before).all()

    class NoRewards:
        """Boards without points, whose games end in the fourth step of the rollout."""

        def __init__(self):
            self.inner, self.terminated, self.count = Boards(in_play.BOARDS, obs="ahead", opponent="none"), np.zeros(in_play.BOARDS, bool), 0
            self.inner.reset(1)

        def __getattr__(self, name):
            return getattr(self.inner, name)

        @property
        def rewards(self):
            return np.ones((in_play.BOARDS, 6), np.float32)

        def step(self, moves):
            self.inner.step(moves)
            self.count += 1
            self.terminated[:] = self.count == 4

    _, _, _, returns = in_play.rollout(Constant(2.0), NoRewards(), random)
    returns = returns.reshape(in_play.STEPS - 1, in_play.BOARDS, 2)
    reward, worth = 3 * (1 - in_play.RIVAL), 6.0  # of three snakes
    wanted, following = [], worth
    for t in reversed(range(in_play.STEPS)):
        following = reward if t == 3 else reward + in_play.GAMMA * ((1 - in_play.LAMBDA) * worth + in_play.LAMBDA * following)
        wanted.append(following)
    wanted = np.delete(wanted[::-1], 4)  # the step that starts the next game
    assert np.allclose(returns, wanted[:, None, None], rtol=1e-5)


@pytest.mark.parametrize("shape", ["plain", "small_torus"])
def test_a_network_learns_in_play(shape):
    network = in_play.made(shape, 1)
    assert network(torch.zeros(2, 6, obs_size("ahead")), *in_play.extras(network, Boards(2).states)).shape == (2, 6, 4)
    before = {name: value.clone() for name, value in network.named_parameters()}
    in_play.learn(network, 4 * in_play.UPDATES if shape == "plain" else in_play.UPDATES, 1)
    assert all(not torch.equal(before[name], value) for name, value in network.named_parameters())
    if shape == "plain":
        fresh, learned = (evaluate(Team.of_values(in_play.values_of(n)), "level1", 100).wins for n in (in_play.made("plain", 1), network))
        assert learned > fresh + 10
