"""TorchRL accepts the environments unchanged: its own checker of specs."""

import pytest
import torch
from torchrl.envs import GymWrapper, MarlGroupMapType, PettingZooWrapper
from torchrl.envs.utils import check_env_specs

from snake_ddp import multiagent
from snake_ddp.envs import SnakeVectorEnv, TeamEnv, TeamVectorEnv


@pytest.mark.parametrize("make", [
    lambda: TeamEnv(obs="view"),
    lambda: TeamVectorEnv(4, autoreset_mode="SameStep"),
    lambda: TeamVectorEnv(4, autoreset_mode="Disabled"),
    lambda: SnakeVectorEnv(6, obs="view", autoreset_mode="SameStep"),
], ids=["single", "teams", "teams without autoreset", "snakes"])
def test_specs_hold_for_gymnasium_s_faces(make):
    check_env_specs(GymWrapper(make()))


def test_specs_hold_for_agents_in_two_teams():
    env = PettingZooWrapper(multiagent.parallel_env(), use_mask=False, return_state=True)
    check_env_specs(env)
    assert env.group_map == {"a": ["a_0", "a_1", "a_2"], "b": ["b_0", "b_1", "b_2"]}
    one = PettingZooWrapper(multiagent.parallel_env(), group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)
    check_env_specs(one)
    masks = one.rollout(3)["agents", "action_mask"]
    assert masks.shape == (3, 6, 4) and masks.dtype == torch.bool and masks.any(-1).all() and not masks.all()


def test_a_rollout_over_the_end_of_games_holds_their_last_observations():
    env = GymWrapper(TeamVectorEnv(2, episode_length=5, autoreset_mode="SameStep"))
    steps = env.rollout(8, break_when_any_done=False)
    assert steps["next", "truncated"].squeeze(-1).nonzero().tolist() == [[0, 4], [1, 4]]
    assert not torch.equal(steps["next", "observation"][:, 4], steps["observation"][:, 5])
    assert torch.equal(steps["next", "observation"][:, 3], steps["observation"][:, 4])
