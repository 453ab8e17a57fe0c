"""The PettingZoo environments: PettingZoo's seven checkers, and what these do not cover."""

import copy
import warnings

import numpy as np
import pytest
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)

from snake_ddp import multiagent
from snake_ddp.envs import TeamVectorEnv

CHECKS = {
    "parallel_api": lambda: parallel_api_test(multiagent.parallel_env(), num_cycles=1000),
    "parallel_seed": lambda: parallel_seed_test(multiagent.parallel_env),
    "max_cycles": lambda: max_cycles_test(multiagent),
    "api": lambda: api_test(multiagent.env(), 300),
    "seed": lambda: seed_test(multiagent.env, 300),
    "render": lambda: render_test(multiagent.env),
    "state": lambda: state_test(multiagent.env(), multiagent.parallel_env()),
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_checkers_of_pettingzoo_pass(check):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CHECKS[check]()


def whole_game(env, seed):
    """Every observation, reward, end and info of a game of 200 steps."""
    random = np.random.default_rng(1)
    shown = [env.reset(seed=seed)]
    while env.agents:
        assert len(shown) <= 200
        shown.append(env.step({agent: int(random.integers(4)) for agent in env.agents}))
    return copy.deepcopy(shown)


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


@pytest.mark.parametrize("obs", ["30", "view"])
def test_whole_games_follow_from_the_seed(obs):
    one, used = whole_game(multiagent.parallel_env(obs=obs), 1), multiagent.parallel_env(obs=obs)
    whole_game(used, 2)
    assert len(one) == 201 and same(one, whole_game(used, 1))
    assert not same(one[0], whole_game(used, 2)[0])
    assert not same(used.reset()[0], multiagent.parallel_env(obs=obs).reset()[0]), "without a seed, another game"


def test_the_agents_are_the_snakes_of_a_board_that_is_moved_by_both_teams():
    env, teams = multiagent.parallel_env(), TeamVectorEnv(2, opponent="none", autoreset_mode="Disabled")
    seen, infos = env.reset(options={"game_seed": 8})
    rows, _ = teams.reset(options={"game_seed": 8})
    random = np.random.default_rng(2)
    while env.agents:
        assert list(seen) == list(infos) == env.agents == ["a_0", "a_1", "a_2", "b_0", "b_1", "b_2"]
        assert np.array_equal(list(seen.values()), rows.reshape(6, -1))
        assert np.array_equal(env.state(), rows.reshape(-1)) and env.state() in env.state_space
        for agent, mask in zip(seen, teams.open_moves().reshape(6, 4), strict=True):
            assert infos[agent]["action_mask"].dtype == np.int8 and np.array_equal(infos[agent]["action_mask"], mask)
        moves = random.integers(4, size=(2, 3))
        seen, rewards, terminated, truncated, infos = env.step(dict(zip(env.agents, moves.reshape(-1), strict=True)))
        rows, team_rewards, ends, _, info = teams.step(moves)
        assert np.array_equal(np.reshape(list(rewards.values()), (2, 3)).sum(axis=1), team_rewards)
        assert all(type(flag) is bool for flag in [*terminated.values(), *truncated.values()])
    assert ends.all() and all(terminated.values()) and not any(truncated.values())
    assert np.array_equal(infos["a_1"]["scores"], info["scores"][0]) and np.array_equal(infos["b_2"]["scores"], info["scores"][1])
    with pytest.raises(ValueError, match="reset"):
        env.step(dict.fromkeys(multiagent.AGENTS, 0))


def test_wrong_calls_are_rejected():
    env = multiagent.parallel_env()
    with pytest.raises(ValueError, match="reset"):
        env.step(dict.fromkeys(multiagent.AGENTS, 0))
    env.reset(seed=1)
    with pytest.raises(ValueError, match="action"):
        env.step(dict.fromkeys(multiagent.AGENTS, 4))
    for action in (2.7, "1", None):
        with pytest.raises(TypeError):
            env.step(dict.fromkeys(multiagent.AGENTS, action))
    with pytest.raises(KeyError, match="b_2"):
        env.step(dict.fromkeys(multiagent.AGENTS[:5], 0))
    for make in (multiagent.parallel_env, multiagent.env):
        with pytest.raises(ValueError, match="'human', 'ansi', 'rgb_array' or None"):
            make(render_mode="depth_array")


def test_six_agents_share_one_picture():
    env, turns = (make(render_mode="rgb_array") for make in (multiagent.parallel_env, multiagent.env))
    env.reset(seed=1), turns.reset(seed=1)
    assert env.render().shape == (160, 320, 3) and np.array_equal(env.render(), turns.render())
    assert env.metadata["render_modes"] == turns.metadata["render_modes"] == ["human", "ansi", "rgb_array"]
    with pytest.warns(UserWarning, match="render_mode"):
        assert multiagent.parallel_env().render() is None
