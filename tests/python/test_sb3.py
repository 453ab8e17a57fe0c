"""The Stable-Baselines3 environment: its checker, and its conventions compared with TeamVectorEnv and SnakeVectorEnv."""

import pickle
import warnings

import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from snake_ddp.envs import SnakeVectorEnv, TeamEnv, TeamVectorEnv
from snake_ddp.sb3 import SnakesVecEnv

FACES = {"team": TeamVectorEnv, "snake": SnakeVectorEnv}


def moves(envs, steps):
    return np.random.default_rng(1).integers(4, size=(steps, envs.num_envs, *envs.action_space.shape))


@pytest.mark.parametrize("obs", ["30", "view"])
def test_the_checker_of_stable_baselines_passes(obs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "We recommend you to use a symmetric and normalized|.*Your observation .* has an unconventional shape")
        check_env(TeamEnv(obs=obs))


@pytest.mark.parametrize("per", FACES)
def test_steps_are_those_of_the_vector_environment(per):
    envs = SnakesVecEnv(6, per=per, episode_length=7, opponent="territory")
    plain = FACES[per](6, episode_length=7, opponent="territory", autoreset_mode="SameStep")
    assert envs.observation_space == plain.single_observation_space and envs.action_space == plain.single_action_space
    envs.seed(5)
    assert np.array_equal(envs.reset(), plain.reset(seed=5)[0])
    for step, action in enumerate(moves(envs, 20), start=1):
        seen, rewards, dones, infos = envs.step(action)
        expected, expected_rewards, terminated, truncated, info = plain.step(action)
        assert np.array_equal(seen, expected) and np.array_equal(rewards, expected_rewards)
        assert np.array_equal(dones, terminated | truncated) and dones.all() == dones.any() == (step % 7 == 0)
        assert type(infos) is list and len({id(one) for one in infos}) == 6
        for i, one in enumerate(infos):
            if dones[i]:
                assert np.array_equal(one["terminal_observation"], info["final_obs"][i]) and one["TimeLimit.truncated"] is True
                assert np.array_equal(one["scores"], info["final_info"]["scores"][i])
            else:
                assert one == {}
    again = envs.reset()
    assert not np.array_equal(again, FACES[per](6, opponent="territory").reset(seed=5)[0]), "a seed is for one reset"
    whole = SnakesVecEnv(3)
    whole.reset()
    for action in moves(whole, 200):
        *_, infos = whole.step(action)
    assert infos[0]["TimeLimit.truncated"] is False, "the 200th step is the game's own end"


def test_the_environment_is_made_by_its_name():
    envs = make_vec_env("snake_ddp/Snakes3v3-v0", n_envs=2, seed=1)
    assert envs.reset().shape == (2, 3, 30) and envs.render().shape == (320, 320, 3) and envs.metadata["render_modes"]
    assert PPO("MlpPolicy", "snake_ddp/Snakes3v3-v0", n_steps=16, batch_size=16, device="cpu").learn(16).num_timesteps == 16


@pytest.mark.parametrize("per, on_board", [("snake", 3), ("team", 1)])
def test_boards_are_rendered_once_each_and_sub_environments_by_themselves(per, on_board):
    envs = VecMonitor(SnakesVecEnv(6, per=per, render_mode="rgb_array"))
    envs.reset()
    boards = [envs.venv.vector.boards.image(board) for board in range(6 // on_board)]
    images = envs.get_images()
    assert len(images) == 6 and all(np.array_equal(image, boards[i // on_board]) for i, image in enumerate(images))
    whole = envs.render()
    assert whole.dtype == np.uint8 and whole.size == boards[0].size * len(boards)
    assert np.array_equal(whole[:160, :320], boards[0]) and np.array_equal(whole[160:320, :320], boards[1 if per == "snake" else 2])
    assert envs.venv.metadata == {"render_modes": ["human", "rgb_array"], "render_fps": 8} and envs.get_attr("render_mode") == ["rgb_array"] * 6
    text = VecMonitor(SnakesVecEnv(6, per=per, render_mode="ansi"))
    text.reset()
    assert text.render() == [text.venv.vector.boards.picture(board) for board in range(6 // on_board)]
    assert text.env_method("render", indices=[5]) == [text.render()[-1]] and text.get_images() == [None] * 6
    with pytest.warns(UserWarning, match="render_mode"):
        assert SnakesVecEnv(6, per=per).render() is None
    with pytest.raises(ValueError, match="'ansi', 'rgb_array' or None"):
        SnakesVecEnv(6, per=per, render_mode="depth_array")


def test_masks_are_there_for_maskable_ppo():
    for per, shape in (("snake", (6, 4)), ("team", (6, 12))):
        envs = VecMonitor(SnakesVecEnv(6, per=per))
        envs.reset()
        assert is_masking_supported(envs) and np.array_equal(get_action_masks(envs), envs.venv.vector.open_moves().reshape(shape))
    single = DummyVecEnv([TeamEnv])
    single.reset()
    assert is_masking_supported(single) and get_action_masks(single).shape == (1, 12)


def test_what_environments_share_is_rejected_for_one_of_them():
    envs = SnakesVecEnv(6)
    assert envs.get_attr("num_envs", indices=[0, 2]) == [6, 6] and envs.env_is_wrapped(VecMonitor) == [False] * 6
    assert len(envs.env_method("action_masks", indices=1)) == 1 if envs.reset() is not None else False
    with pytest.raises(AttributeError, match="vector"):
        envs.env_method("reset")
    with pytest.raises(ValueError, match="all of them"):
        envs.set_attr("own_share", 0.5, indices=[1])
    envs.set_attr("own_share", 0.5)
    assert envs.vector.own_share == 0.5
    with pytest.raises(ValueError, match="snake"):
        SnakesVecEnv(6, per="board")


def test_a_copy_of_running_games_continues_equally():
    envs = SnakesVecEnv(6, obs="view")
    envs.reset()
    twin = pickle.loads(pickle.dumps(envs))
    for action in moves(envs, 210):
        one, other = envs.step(action), twin.step(action)
        assert all(np.array_equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))
