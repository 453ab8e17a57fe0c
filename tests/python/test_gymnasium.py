"""The Gymnasium environments: its own checkers, three ways to begin the next game, seeds, copies, processes, memory."""

import copy
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import snake_ddp
from snake_ddp.envs import SnakeVectorEnv, TeamEnv, TeamVectorEnv

ID = "snake_ddp/Snakes3v3-v0"
MODES = list(AutoresetMode)
LENGTH = 7  # of short games


def moves(env, steps, seed=3):
    """The same random moves for every environment with these many rows."""
    return np.random.default_rng(seed).integers(4, size=(steps, *env.action_space.shape))


def play(env, actions):
    """What each step returned; arrays are copied."""
    return [[copy.deepcopy(part) for part in env.step(action)] for action in actions]


def same(one, other):
    """Equal, through dicts, lists and arrays."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) and one.dtype == object:
        return same(list(one), list(other))
    return type(one) is type(other) and np.array_equal(one, other)


# Checkers


@pytest.mark.parametrize("obs", ["26", "30", "window", "view", "ahead"])
def test_the_checker_of_gymnasium_passes(obs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(TeamEnv(obs=obs), skip_render_check=True)
        check_env(gymnasium.make(ID, obs=obs, render_mode="ansi").unwrapped)  # with each mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("obs", ["30", "view"])
def test_vector_environments_stay_within_their_spaces(mode, obs):
    envs = gymnasium.make_vec(ID, num_envs=4, obs=obs, autoreset_mode=mode)
    assert envs.metadata["autoreset_mode"] is mode and envs.spec.id == ID
    seen, info = envs.reset(seed=1)
    assert envs.observation_space.shape == (4, 3, snake_ddp.obs_size(obs)) and seen in envs.observation_space and info == {}
    for action in moves(envs, 420):
        assert action in envs.action_space
        seen, rewards, terminated, truncated, info = envs.step(action)
        assert seen in envs.observation_space and seen.flags.c_contiguous
        assert rewards.shape == terminated.shape == truncated.shape == (4,)
        assert rewards.dtype == np.float32 and terminated.dtype == truncated.dtype == bool and not truncated.any()
        if mode is AutoresetMode.DISABLED and terminated.any():
            envs.reset(options={"reset_mask": terminated})
    envs.close()


# When games end


@pytest.mark.parametrize("face", [TeamVectorEnv, SnakeVectorEnv])
@pytest.mark.parametrize("length, cut_off", [(LENGTH, True), (200, False)])
def test_games_end_where_they_should(face, length, cut_off):
    for mode, period in ((AutoresetMode.NEXT_STEP, length + 1), (AutoresetMode.SAME_STEP, length)):
        envs = face(6, episode_length=length, autoreset_mode=mode)
        envs.reset(seed=1)
        for step, (_, _, terminated, truncated, _) in enumerate(play(envs, moves(envs, 2 * period)), start=1):
            ends = step % period == length % period
            assert (truncated if cut_off else terminated).tolist() == [ends] * 6, step
            assert not (terminated if cut_off else truncated).any()


@pytest.mark.parametrize("face", [TeamVectorEnv, SnakeVectorEnv])
@pytest.mark.parametrize("opponent", ["territory", "none"])
def test_three_ways_to_begin_the_next_game_show_the_same_games(face, opponent):
    made = {mode: face(12, episode_length=LENGTH, opponent=opponent, autoreset_mode=mode) for mode in MODES}
    first = {mode: envs.reset(seed=5)[0] for mode, envs in made.items()}
    actions = moves(made[AutoresetMode.DISABLED], LENGTH)
    steps = {mode: play(envs, actions) for mode, envs in made.items()}
    nxt, now, off = (steps[mode] for mode in MODES)
    for mode in MODES:
        assert np.array_equal(first[mode], first[AutoresetMode.DISABLED])
        assert same([s[:4] for s in steps[mode][:-1]], [s[:4] for s in off[:-1]])
        assert same(steps[mode][-1][1:4], off[-1][1:4])
        assert all(step[4] == {} for step in steps[mode][:-1])
    assert same(nxt[-1], off[-1])
    # The last observation of a game is the same; where the next one has begun, it is in the infos.
    info = now[-1][4]
    assert info["_final_obs"].all() and same(list(info["final_obs"]), list(off[-1][0]))
    assert same(info["final_info"], off[-1][4]) and info["_final_info"].all()
    # The next game: started by hand, in the step after the end, or in the same step.
    by_hand = made[AutoresetMode.DISABLED].reset(options={"reset_mask": np.ones(12, dtype=bool)})[0]
    ignored = (actions[0] + 1) % 4
    dealt, rewards, terminated, truncated, info = made[AutoresetMode.NEXT_STEP].step(ignored)
    assert not rewards.any() and not terminated.any() and not truncated.any() and info == {}
    assert np.array_equal(by_hand, dealt) and np.array_equal(by_hand, now[-1][0])
    assert not np.array_equal(by_hand, first[AutoresetMode.DISABLED])


def test_boards_end_at_different_steps_once_some_were_reset_alone():
    envs = TeamVectorEnv(4, episode_length=LENGTH, autoreset_mode="SameStep")
    envs.reset(seed=2)
    play(envs, moves(envs, 3))
    mask = np.array([False, True, False, True])
    before = envs.reset(options={"reset_mask": mask})[0]
    ends = [step[3].tolist() for step in play(envs, moves(envs, LENGTH))]
    expected = [[False] * 4] * LENGTH
    expected[LENGTH - 4], expected[LENGTH - 1] = (~mask).tolist(), mask.tolist()
    assert ends == expected
    other = TeamVectorEnv(4, episode_length=LENGTH, autoreset_mode="SameStep")
    other.reset(seed=2)
    unmasked = play(other, moves(other, 3))[-1][0]
    assert np.array_equal(before[~mask], unmasked[~mask]) and not np.array_equal(before[mask], unmasked[mask])
    for wrong in ([True] * 4, np.ones(4), np.ones(5, dtype=bool)):
        with pytest.raises(ValueError, match="reset_mask"):
            envs.reset(options={"reset_mask": wrong})
    for more in ({"seed": 1, "options": {"reset_mask": mask}}, {"options": {"reset_mask": mask, "game_seed": 1}}):
        with pytest.raises(ValueError, match="seed"):
            envs.reset(**more)
    snakes = SnakeVectorEnv(6)
    snakes.reset(seed=1)
    with pytest.raises(ValueError, match="whole boards"):
        snakes.reset(options={"reset_mask": np.array([True, False, False] * 2)})


def test_an_ended_game_must_be_reset_where_that_is_left_to_the_caller():
    envs = TeamVectorEnv(2, episode_length=LENGTH, autoreset_mode="Disabled")
    envs.reset(seed=1)
    play(envs, moves(envs, LENGTH))
    with pytest.raises(ValueError, match="reset"):
        envs.step(moves(envs, 1)[0])
    single = TeamEnv(episode_length=LENGTH)
    single.reset(seed=1)
    last = play(single, moves(single, LENGTH))[-1]
    assert last[2:4] == [False, True] and last[4]["scores"].shape == (2,)
    with pytest.raises(ValueError, match="reset"):
        single.step(np.zeros(3, dtype=int))


def test_scores_are_those_of_the_game_and_rewards_add_up_to_them():
    envs = TeamVectorEnv(8, opponent="none", autoreset_mode="Disabled")
    envs.reset(seed=4)
    random = np.random.default_rng(1)
    steps = [envs.step((random.random((8, 3, 4)) * envs.open_moves()).argmax(axis=2)) for _ in range(200)]
    returns = np.sum([step[1] for step in steps], axis=0)
    scores = steps[-1][4]["scores"]
    assert steps[-1][4]["_scores"].all() and np.array_equal(returns, scores[:, 0])
    assert np.array_equal(scores[::2], scores[1::2, ::-1]), "team B's are A's the other way round"
    assert len(np.unique(scores)) > 2


def test_snakes_share_rewards_as_asked():
    def rewards(share):
        envs = SnakeVectorEnv(30, own_share=share)
        envs.reset(seed=1)
        return np.array([step[1] for step in play(envs, moves(envs, 60))]).reshape(60, 10, 3)

    own, half, none = map(rewards, (1.0, 0.5, 0.0))
    mean = own.mean(axis=2, keepdims=True)
    assert own.any() and np.allclose(half, own / 2 + mean / 2) and np.allclose(none, mean + 0 * own)
    team = TeamVectorEnv(10)
    team.reset(seed=1)
    steps = play(team, moves(SnakeVectorEnv(30), 60).reshape(60, 10, 3))
    assert np.array_equal([step[1] for step in steps], own.sum(axis=2))


@pytest.mark.parametrize("mode", MODES)
def test_gymnasium_counts_the_episodes(mode):
    envs = RecordEpisodeStatistics(TeamVectorEnv(4, episode_length=LENGTH, autoreset_mode=mode))
    envs.reset(seed=1)
    info = play(envs, moves(envs, LENGTH))[-1][4]
    counted = info.get("final_info", info)["episode"] if "episode" not in info else info["episode"]
    assert counted["l"].tolist() == [LENGTH] * 4


# Seeds


def whole_game(env, seed, options=None):
    begun = env.reset(seed=seed, options=options)[0].copy()
    return [begun, *play(env, moves(env, 200))]


@pytest.mark.parametrize("make", [TeamEnv, lambda: TeamVectorEnv(3), lambda: SnakeVectorEnv(9, opponent="territory")])
def test_whole_games_follow_from_the_seed(make):
    one, other, same_one = whole_game(make(), 1), whole_game(make(), 2), make()
    assert same(one, whole_game(same_one, 1)) and same(one, whole_game(same_one, 1)), "a used one, too"
    assert not same(one[0], other[0])
    assert same(whole_game(make(), None, {"game_seed": 9})[0], whole_game(make(), 5, {"game_seed": 9})[0])


def test_without_a_seed_games_continue_from_the_first_one():
    one, other = TeamEnv(), TeamEnv()
    first = [env.reset(seed=7)[0] for env in (one, other)]
    later = [[env.reset()[0] for _ in range(3)] for env in (one, other)]
    assert same(*first) and same(*later)
    assert len({begun.tobytes() for begun in [first[0], *later[0]]}) == 4
    assert not same(TeamEnv().reset()[0], TeamEnv().reset()[0]), "nor do fresh ones all play the same game"


# Arrays


def test_copies_stay_and_views_follow_the_boards():
    for keep in (True, False):
        envs = TeamVectorEnv(4, obs="view", copy=keep)
        begun, _ = envs.reset(seed=1)
        image = begun.copy()
        first = envs.step(moves(envs, 1)[0])
        again = envs.step(moves(envs, 1, seed=4)[0])
        for at in (0, 2, 3):
            assert np.shares_memory(first[at], again[at]) is not keep
        assert np.array_equal(begun, image) is keep


def test_actions_of_a_wrong_kind_are_rejected():
    envs, single = TeamVectorEnv(2), TeamEnv()
    envs.reset(seed=1), single.reset(seed=1)
    for kind in (np.uint8, np.int32, np.int64):
        envs.step(np.zeros((2, 3), dtype=kind))
    envs.step([[0, 1, 2], [3, 0, 1]])
    for wrong in (4, -1, 256):
        with pytest.raises(ValueError, match="action"):
            envs.step(np.full((2, 3), wrong))
    for shape in ((3, 2), (6,), (1, 3), (2, 4)):
        with pytest.raises(ValueError, match="shape"):
            envs.step(np.zeros(shape, dtype=int))
    with pytest.raises(ValueError, match="shape"):
        single.step(np.zeros((1, 3), dtype=int))
    with pytest.raises(TypeError):
        envs.step(np.zeros((2, 3)))


def test_wrong_settings_are_rejected_with_the_reason():
    for make, words in (
        (lambda: TeamEnv(opponent="none"), "TeamVectorEnv"),
        (lambda: SnakeVectorEnv(4), "multiple"),
        (lambda: TeamVectorEnv(3, opponent="none"), "multiple"),
        (lambda: TeamVectorEnv(0), "num_envs"),
        (lambda: TeamVectorEnv(2, autoreset_mode="later"), "later"),
        (lambda: SnakeVectorEnv(3, own_share=1.5), "own_share"),
        (lambda: TeamEnv(opponent="level9"), "level9"),
        (lambda: TeamEnv(obs="31"), "31"),
        (lambda: TeamEnv(obs="none"), "none"),
        (lambda: TeamEnv(reward="points"), "points"),
    ):
        with pytest.raises(ValueError, match=words):
            make()


def test_a_large_batch_makes_its_spaces_when_they_are_read():
    envs = TeamVectorEnv(4096, obs="view")
    assert "observation_space" not in vars(envs) and "action_space" not in vars(envs)
    assert envs.observation_space is envs.observation_space and envs.observation_space.shape == (4096, 3, 309)


def test_open_moves_are_those_that_are_not_fatal():
    teams, snakes = TeamVectorEnv(5), SnakeVectorEnv(15)
    teams.reset(seed=1), snakes.reset(seed=1)
    assert teams.open_moves().shape == (5, 3, 4) and teams.open_moves().any(axis=2).all()
    assert np.array_equal(teams.open_moves().reshape(15, 4), snakes.open_moves()) and not snakes.open_moves().all()
    single = TeamEnv()
    single.reset(seed=1)
    assert single.action_masks().shape == (12,) and single.action_masks().dtype == bool


def test_boards_are_rendered_as_text(capsys):
    env, envs = TeamEnv(render_mode="ansi"), SnakeVectorEnv(6, render_mode="ansi")
    env.reset(seed=1), envs.reset(seed=1)
    assert len(env.render().splitlines()[0]) == 20 and set("ABCDEF") <= set(env.render())
    pictures = envs.render()
    assert len(pictures) == 6 and pictures[0] == pictures[2] != pictures[3] == pictures[5]
    printing = TeamEnv(render_mode="human")
    printing.reset(seed=1)
    assert capsys.readouterr().out == env.render() + "\n" and printing.render() is None


def cells_of(picture):
    """The colour in the middle of each cell and the one beside its border."""
    assert picture.shape == (160, 320, 3) and picture.dtype == np.uint8
    cells = picture.reshape(10, 16, 20, 16, 3).swapaxes(1, 2).reshape(200, 16, 16, 3)
    return [tuple(cell) for cell in cells[:, 8, 8]], [tuple(cell) for cell in cells[:, 2, 2]]


def test_boards_are_rendered_as_pictures():
    env, boards = TeamEnv(render_mode="rgb_array", opponent="territory"), snake_ddp.Boards(1, opponent="territory")
    env.reset(options={"game_seed": 3}), boards.reset(seed=3)
    colours = {}  # by what is on a cell: middle and border
    for action in moves(env, 120):
        middles, borders = cells_of(env.render())
        assert np.array_equal(env.render(), boards.image(0)) and env.boards.picture(0) == boards.picture(0)
        for cell, text in enumerate("".join(boards.picture(0).splitlines()[:10])):
            code = int(boards.states[0]["cells"][cell]) & 7
            kind = ("head" if text.isupper() else "body", code)
            assert colours.setdefault(kind, (middles[cell], borders[cell])) == (middles[cell], borders[cell]), (cell, text)
        env.step(action), boards.step(action.reshape(1, 3))
    assert len(set(colours.values())) == len(colours) == 2 + 6 + 6
    for snake in range(2, 8):
        head, body = colours["head", snake], colours["body", snake]
        assert head[0] != body[0] == body[1] == head[1]
        red, _, blue = map(int, body[0])
        assert (blue > red) == (snake < 5), "team A is blue, team B orange"


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_each_sub_environment_shows_its_board(mode):
    envs = SnakeVectorEnv(6, render_mode=mode)
    envs.reset(seed=1)
    show = {"ansi": envs.boards.picture, "rgb_array": envs.boards.image}[mode]
    frames = envs.render()
    assert isinstance(frames, tuple) and same(list(frames), [show(0)] * 3 + [show(1)] * 3) and not same(show(0), show(1))
    assert envs.metadata["render_modes"] == ["ansi", "rgb_array"] and envs.metadata["render_fps"] > 0


def test_gymnasium_collects_pictures():
    env = gymnasium.make(ID, render_mode="rgb_array_list")
    env.reset(seed=1)
    play(env, moves(env, 3))
    frames = env.render()
    assert len(frames) == 4 and {frame.shape for frame in frames} == {(160, 320, 3)} and not np.array_equal(*frames[:2])
    with pytest.raises(RuntimeError, match="reset"):
        TeamEnv(render_mode="rgb_array").render()


def test_without_a_render_mode_a_warning_says_which_there_are():
    for env in (TeamEnv(), TeamVectorEnv(2)):
        env.reset(seed=1)
        with pytest.warns(UserWarning, match="render_mode.*ansi, rgb_array"):
            assert env.render() is None


@pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
@pytest.mark.parametrize("make", [
    TeamEnv, lambda **mode: TeamVectorEnv(2, **mode), lambda **mode: SnakeVectorEnv(3, **mode), lambda **mode: gymnasium.make(ID, **mode),
    lambda **mode: gymnasium.make_vec(ID, num_envs=2, **mode)])
def test_unknown_render_modes_are_rejected_with_those_that_there_are(make):
    for mode in ("depth_array", ""):
        with pytest.raises(ValueError, match="'ansi', 'rgb_array' or None"):
            make(render_mode=mode)


# Copies of running games, and other processes


@pytest.mark.parametrize("again", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_a_running_environment_continues_equally(again):
    for env in (TeamEnv(), TeamVectorEnv(4, autoreset_mode="SameStep", copy=False), SnakeVectorEnv(6, obs="view")):
        env.reset(seed=3)
        play(env, moves(env, 150))
        twin = again(env)
        if isinstance(env, TeamEnv):
            assert same(play(env, moves(env, 50)), play(twin, moves(env, 50)))
            assert same(env.reset()[0], twin.reset()[0])
        else:
            assert same(play(env, moves(env, 150)), play(twin, moves(env, 150)))


def test_sub_processes_play_the_same_games():
    # A fresh process knows the id once it has imported the package, which the first part of the name does.
    made = [lambda: gymnasium.make(f"snake_ddp:{ID}", obs="view")] * 2
    separate, together = AsyncVectorEnv(made, context="spawn"), SyncVectorEnv(made)
    try:
        assert same(separate.reset(seed=1), together.reset(seed=1))
        actions = moves(together, 30)
        assert same(play(separate, actions), play(together, actions))
    finally:
        separate.close()


def child(env, actions, pipe):
    pipe.send(play(env, actions))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_children_step_what_their_parent_made(way):
    context = multiprocessing.get_context(way)
    env = TeamVectorEnv(2, obs="view")
    env.reset(seed=1)
    actions = moves(env, 20)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(env, actions, there))
    process.start()
    assert here.poll(90)
    theirs = here.recv()
    process.join()
    assert process.exitcode == 0 and same(theirs, play(env, actions))


# Memory


LEAKS = """
import gc, resource, sys
import numpy as np
from snake_ddp.envs import SnakeVectorEnv, TeamEnv, TeamVectorEnv
def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1])
def one_round():
    for _ in range(200):
        envs = TeamVectorEnv(256, obs="view", copy=False, autoreset_mode="SameStep", episode_length=2)
        envs.reset(seed=1)
        for _ in range(2):
            kept = envs.step(np.zeros((256, 3), dtype=np.uint8))
        envs.myself = envs
    return resident()
first = one_round()
second = one_round()
env = TeamEnv()
env.reset(seed=1)
def blocks():
    for _ in range(5000):
        if any(env.step(np.zeros(3, dtype=np.uint8))[2:4]):
            env.reset()
    gc.collect()
    return sys.getallocatedblocks()
blocks()
print(second - first, blocks() - blocks())
"""


def leaving(script, **variables):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **variables})


def test_nothing_leaks():
    done = leaving(LEAKS, SNAKE_DDP_LEAKS="1")  # nanobind reports leaked objects at exit
    assert done.returncode == 0 and done.stderr == "", done.stderr
    pages, blocks = map(int, done.stdout.split())
    assert pages < 10000, f"200 environments left {pages * 4} kB"  # their observations alone have 100,000 pages
    assert abs(blocks) < 100


def test_the_package_does_not_import_torch_or_pettingzoo():
    code = "import sys, snake_ddp, snake_ddp.envs; print(sorted({'torch', 'pettingzoo', 'stable_baselines3'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    assert done.stdout == "[]\n", done.stderr


def test_objects_kept_until_the_end_are_reported_on_request_only():
    keep = "import ctypes, snake_ddp; ctypes.pythonapi.Py_IncRef(ctypes.py_object(snake_ddp.Team('level0')._team))"
    assert leaving(keep).stderr == ""
    assert 'of type "snake_ddp._core' in leaving(keep, SNAKE_DDP_LEAKS="1").stderr
