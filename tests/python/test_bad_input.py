"""Wrong use: the exception that a Python user expects, with the fault in its text, and no board has moved."""

import io
import json
import pickle
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from conftest import CHAMPION, DATA

import snake_ddp
from snake_ddp import Boards, Team

U8 = np.zeros((4, 3), np.uint8)


def wrong_at(value, dtype=np.int64):
    actions = np.zeros((4, 3), dtype)
    actions[2, 1] = value
    return actions


@pytest.fixture
def batch():
    made = Boards(4)
    made.reset(seed=1)
    return made


def fails(call, error, text):
    with pytest.raises(error, match=re.escape(text)) as caught:
        call()
    assert type(caught.value) is error
    assert "--" not in str(caught.value), "a flag of the command line"


# ---- actions -------------------------------------------------------------------------------------------------------

ACTIONS = [
    (wrong_at(4), ValueError, "the action of snake 1 on board 2 is 4, not 0..3"),
    (wrong_at(-1), ValueError, "the action of snake 1 on board 2 is -1, not 0..3"),
    (wrong_at(256), ValueError, "is 256, not 0..3"),
    (wrong_at(2**32), ValueError, "is 4294967296, not 0..3"),
    (wrong_at(2**63 - 1), ValueError, "not 0..3"),
    (wrong_at(255, np.uint8), ValueError, "is 255, not 0..3"),
    (wrong_at(-1, np.int32), ValueError, "is -1, not 0..3"),
    (np.zeros((4, 3), np.int16), TypeError, "actions: dtype is int16, not uint8, int32 or int64"),
    (np.zeros((4, 3), np.uint64), TypeError, "dtype is uint64"),
    (np.zeros((4, 3), np.float32), TypeError, "dtype is float32"),
    (np.zeros((4, 3), bool), TypeError, "dtype is bool"),
    (np.zeros((4, 6), np.uint8), ValueError, "actions: shape is (4, 6), not (4, 3)"),
    (np.zeros((3, 4), np.uint8), ValueError, "shape is (3, 4), not (4, 3)"),
    (np.zeros(12, np.uint8), ValueError, "shape is (12,), not (4, 3)"),
    (np.zeros((4, 3, 1), np.uint8), ValueError, "shape is (4, 3, 1)"),
    (np.zeros((0, 3), np.uint8), ValueError, "shape is (0, 3)"),
    (np.array(1, np.uint8), ValueError, "shape is (), not (4, 3)"),
    (np.zeros((3, 4), np.uint8).T, ValueError, "actions: not C-contiguous; use numpy.ascontiguousarray"),
    (np.zeros((4, 6), np.uint8)[:, ::2], ValueError, "not C-contiguous"),
    (np.zeros((8, 3), np.uint8)[::2], ValueError, "not C-contiguous"),
    (np.zeros((4, 3), np.uint8)[::-1], ValueError, "not C-contiguous"),
    ([[0, 0, 0]] * 4, TypeError, "step(): incompatible function arguments"),
    (None, TypeError, "step(): incompatible function arguments"),
    (np.zeros((4, 3), object), TypeError, "incompatible function arguments"),
    (np.zeros((4, 3), ">i4"), TypeError, "incompatible function arguments"),
]


@pytest.mark.parametrize("actions, error, text", ACTIONS, ids=[f"{k} {text[-40:]}" for k, (_, _, text) in enumerate(ACTIONS)])
def test_invalid_actions(batch, actions, error, text):
    before, observations = batch.hash(), batch.observations.copy()
    fails(lambda: batch.step(actions), error, text)
    assert batch.hash() == before and np.array_equal(batch.observations, observations)
    batch.step(U8)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_actions_of_each_type_do_the_same(dtype, rng):
    batch, other = (Boards(4) for _ in range(2))
    batch.reset(seed=1), other.reset(seed=1)
    for _ in range(50):
        actions = rng.integers(0, 4, (4, 3))
        batch.step(actions.astype(np.uint8))
        given = actions.astype(dtype)
        given.setflags(write=False)
        other.step(given)
    assert batch.hash() == other.hash()


# ---- batches -------------------------------------------------------------------------------------------------------

OPTIONS = [
    (dict(num_boards=0), ValueError, "num_boards is 0, not 1 to"),
    (dict(num_boards=-1), ValueError, "num_boards is -1"),
    (dict(num_boards=10**9), ValueError, "num_boards is 1000000000"),
    (dict(num_boards=2.5), TypeError, "num_boards is 2.5, not a whole number, 1 to 16777216"),
    (dict(obs="31"), ValueError, 'obs is "31", not one of: 26, 30, window, view, ahead, none'),
    (dict(obs=30), TypeError, "incompatible function arguments"),
    (dict(reward="points"), ValueError, 'reward is "points", not one of: 2021, v1_1, v1_2, score'),
    (dict(opponent="level5"), ValueError, 'opponent is "level5"; it can be one of level0,'),
    (dict(opponent="self"), ValueError, 'opponent is "self"; it can be'),
    (dict(opponent="league:0.5,level2"), ValueError, 'opponent is "league:0.5,level2"'),
    (dict(opponent="level2:-1"), ValueError, 'opponent is "level2:-1"'),
    (dict(opponent="level2,level2"), ValueError, 'opponent is "level2,level2"'),
    (dict(opponent=""), ValueError, 'opponent is ""'),
    (dict(opponent=None), TypeError, "opponent is None, neither a name nor a Team"),
    (dict(opponent=3), TypeError, "opponent is 3, neither a name nor a Team"),
    (dict(episode_length=0), ValueError, "episode_length is 0, not 1 to 200"),
    (dict(episode_length=201), ValueError, "episode_length is 201, not 1 to 200"),
    (dict(autoreset="never"), ValueError, 'autoreset is "never", not one of: next_step, same_step, disabled'),
    (dict(swap_sides=True, opponent="none"), ValueError, "swap_sides is for games against an opponent"),
]


@pytest.mark.parametrize("options, error, text", OPTIONS, ids=[str(options) for options, _, _ in OPTIONS])
def test_options_that_do_not_exist(options, error, text):
    fails(lambda: Boards(**{"num_boards": 4, **options}), error, text)


def numbers():
    """Every argument of the package that is a number: a call with it, its name, its range, and values outside of that range."""
    from snake_ddp import envs, multiagent, networks, sb3
    team, boards = Team("level2"), Boards(1)
    boards.reset(seed=1)
    most, counts = 2**24, (-1, -(2**70), 2**64, 2**70)
    seeds = "0 to 2**64 - 1", counts
    lengths = "1 to 200", (0, 201, *counts)
    reals = (-1e-9, float("nan"), float("inf"), -float("inf"), 10.5)
    values = lambda observations, states: observations  # noqa: E731
    return [
        (lambda n: Boards(n), "num_boards", f"1 to {most}", (0, most + 1, *counts)),
        (lambda n: envs.TeamVectorEnv(n), "num_envs", f"1 to {most}", (0, most + 1, *counts)),
        (lambda n: envs.TeamVectorEnv(n, opponent="none"), "num_envs", f"2 to {2 * most}", (0, 1, 2 * most + 1, *counts)),
        (lambda n: envs.SnakeVectorEnv(n), "num_envs", f"3 to {3 * most}", (0, 2, 3 * most + 1, *counts)),
        (lambda n: sb3.SnakesVecEnv(n), "num_envs", f"3 to {3 * most}", (0, 1, *counts)),
        (lambda n: sb3.SnakesVecEnv(n, per="team"), "num_envs", f"1 to {most}", (0, *counts)),
        *((lambda n, make=make: make(episode_length=n), "episode_length", *lengths)
          for make in (envs.TeamEnv, envs.TeamVectorEnv, envs.SnakeVectorEnv, lambda **o: Boards(1, **o), lambda **o: sb3.SnakesVecEnv(3, **o))),
        *((lambda n, make=make: make(max_cycles=n), "max_cycles", "1 or more", (0, -1, -(2**70)))
          for make in (multiagent.parallel_env, multiagent.env)),
        (lambda x: envs.SnakeVectorEnv(3, own_share=x), "own_share", "0 to 1", reals),
        (lambda n: boards.reset(seed=n), "seed", *seeds),
        *((lambda n, env=env: env.reset(options={"game_seed": n}), "game_seed", *seeds)
          for env in (envs.TeamEnv(), envs.TeamVectorEnv(1), multiagent.parallel_env())),
        (lambda n: snake_ddp.evaluate(team, team, games=1, seed=n), "seed", *seeds),
        (lambda n: snake_ddp.evaluate(team, team, games=n), "games", f"1 to {2**40}", (0, 2**40 + 1, *counts)),
        (lambda n: team.moves_on(boards.states, seed=n), "seed", *seeds),
        (lambda n: team.moves_on(boards.states, side=n), "side", "0 to 1", (2, *counts)),
        (lambda n: team.moves_on(boards.states, first_game=n), "first_game", f"0 to {2**40}", counts),
        (lambda n: Team(CHAMPION).moves(np.zeros((1, 3, 309), np.float32), np.ones((1, 3, 4), bool), seed=n), "seed", *seeds),
        (lambda x: Team.of_values(values, rival_reward=x), "rival_reward", "0 to 10", reals),
        (lambda x: Team.of_values(values, reward_scale=x), "reward_scale", "1e-06 to 1000000.0", (0, 1e7, *reals[:-1])),
        (lambda x: Team.of_values(values, gamma=x), "gamma", "0 to 1", reals),
        *((lambda n, kind=kind: kind(n), "features", "1 or more", (0, -1)) for kind in (networks.Actor, networks.QNetwork, networks.Mixer)),
        *((lambda n, kind=kind: kind(30, n), "hidden", "1 to 65536", (0, 65537, *counts))
          for kind in (networks.Actor, networks.Critic, networks.BiCNetActor, networks.BiCNetCritic, networks.QNetwork, networks.RecurrentQNetwork)),
    ]


def test_numbers_out_of_range_are_rejected_with_their_name_and_range():
    for call, name, limits, outside in numbers():
        for value in outside:
            fails(lambda call=call, value=value: call(value), ValueError, f"{name} is {value}, not {limits}")


def test_what_is_no_number_is_rejected_with_the_argument_s_name():
    for call, name, limits, _ in numbers():
        is_real = name in ("own_share", "rival_reward", "reward_scale", "gamma")
        for value in ("1", "x", None, [1], *([] if is_real else [1.0, 1.5, float("nan")])):
            if (name, value) == ("seed", None) or name == "game_seed" and value is None:
                continue  # draws one
            kind = "number" if is_real else "whole number"
            fails(lambda call=call, value=value: call(value), TypeError, f"{name} is {value!r}, not a {kind}, {limits}")


def test_numbers_of_numpy_are_numbers():
    assert Boards(np.int64(3)).num_boards == 3 and snake_ddp.envs.TeamVectorEnv(np.uint8(2)).num_envs == 2
    assert snake_ddp.envs.SnakeVectorEnv(3, own_share=np.float32(0.5)).own_share == 0.5


def test_an_unknown_keyword():
    with pytest.raises(TypeError, match="oppponent"):
        Boards(4, oppponent="level2")


def test_before_the_first_reset():
    fresh = Boards(4)
    for call in (lambda: fresh.step(U8), fresh.open_moves, fresh.hash, lambda: fresh.picture(0), lambda: fresh.image(0)):
        fails(call, RuntimeError, "there are no games yet: call reset first")
    fails(lambda: fresh.reset(mask=np.ones(4, bool)), ValueError, "reset all boards first, without a mask")


@pytest.mark.parametrize("keywords, error, text", [
    (dict(seed=-1), ValueError, "seed is -1, not 0 to 2**64 - 1"),
    (dict(seed=2**64), ValueError, "not 0 to 2**64 - 1"),
    (dict(seed=1, mask=np.ones(4, bool)), ValueError, "reset with a seed or with a mask, not both"),
    (dict(mask=np.ones(3, bool)), ValueError, "mask: shape is (3,), not (4,)"),
    (dict(mask=np.ones(4, np.uint8)), TypeError, "mask: dtype is uint8, not bool"),
    (dict(mask=np.ones(8, bool)[::2]), ValueError, "mask: not C-contiguous"),
    (dict(mask=[True] * 4), TypeError, "incompatible function arguments"),
])  # fmt: skip
def test_invalid_resets(batch, keywords, error, text):
    before = batch.hash()
    fails(lambda: batch.reset(**keywords), error, text)
    assert batch.hash() == before


def test_a_seed_that_is_not_a_number(batch):
    for seed in ("1", 1.5):
        with pytest.raises(TypeError):
            batch.reset(seed=seed)


def test_boards_that_do_not_exist(batch):
    for number in (-1, 4, 2**40, 2**70):
        for show in (batch.picture, batch.image):
            fails(lambda: show(number), IndexError, f"there is no board {number}: they are 0 to 3")
    for show in (batch.picture, batch.image):
        fails(lambda: show(1.5), TypeError, "board is 1.5, not a whole number, 0 to 3")


@pytest.mark.parametrize("name, array, error, text", [
    ("observations", np.empty((4, 3, 30)), TypeError, "not a numpy array of dtype float32"),
    ("observations", np.empty((4, 3, 29), np.float32), ValueError, "not 360 writable elements in C order"),
    ("observations", np.empty((30, 3, 4), np.float32).T, ValueError, "in C order"),
    ("rewards", [0.0] * 12, TypeError, "not a numpy array"),
    ("terminated", np.empty(4, np.uint8), TypeError, "not a numpy array of dtype bool"),
    ("truncated", np.empty(5, np.bool_), ValueError, "not 4 writable"),
    ("truncated", np.broadcast_to(np.bool_(0), (4,)), ValueError, "writable"),
])  # fmt: skip
def test_buffers_that_do_not_fit(batch, name, array, error, text):
    before = batch.observations, batch.rewards
    fails(lambda: batch.use_buffers(**{name: array}), error, text)
    batch.step(U8)
    assert batch.observations is before[0] and batch.rewards is before[1]


def test_buffers_that_overlap():
    batch = Boards(4, autoreset="same_step")
    flags, numbers = np.empty(6, np.bool_), np.empty(360, np.float32)
    before = dict(batch._written)
    for given, text in [
        (dict(terminated=flags[:4], truncated=flags[2:]), "terminated and truncated: they share memory"),
        (dict(terminated=batch.truncated), "terminated and truncated"),
        (dict(observations=numbers, rewards=numbers[:12]), "observations and rewards"),
        (dict(observations=batch.final_observations), "observations and final_observations"),
    ]:  # fmt: skip
        fails(lambda given=given: batch.use_buffers(**given), ValueError, text)
        assert batch._written == before
    batch.use_buffers(observations=batch.observations, rewards=numbers[:12], terminated=batch.terminated)


# ---- pickles -------------------------------------------------------------------------------------------------------

def altered(batch, **changes):
    state = batch.__getstate__()
    state["progress"].update(changes)
    return state


def test_pickles_of_something_else(batch):
    whole = batch.__getstate__()
    states = bytearray(whole["progress"]["states"])

    def with_byte(at, value):
        return bytes(states[:at]) + bytes([value]) + bytes(states[at + 1 :])

    other = Boards(5)
    other.reset(seed=1)
    for wrong, text in [
        (None, "not the state of a batch"),
        ({}, "not the state of a batch"),
        ({"arguments": 1, "seeded": True, "progress": {}}, "not the state of a batch"),
        ({**whole, "progress": {}}, '"dealt" is missing or of another type'),
        ({**whole, "progress": other.__getstate__()["progress"]}, "it has another size"),
        (altered(batch, states=b""), "it has another size"),
        (altered(batch, states=bytes(4 * 256)), "board 0: not a board of the game"),
        (altered(batch, states=b"\xff" * 1024), "board 0: not a board of the game"),
        (altered(batch, states=with_byte(200, 250)), "board 0: not a board"),  # a head
        (altered(batch, states=with_byte(256 + 212, 255)), "board 1: not a board"),  # a length
        (altered(batch, states=with_byte(512 + 240, 2)), "board 2: not a board"),  # done
        (altered(batch, games=b"123"), '"games" has 3 bytes'),
        (altered(batch, games=bytes(16)), "a game's number"),
        (altered(batch, numbers=np.full(4, 9, np.int64).tobytes()), "a game's number"),
        (altered(batch, finished=5), "the number of finished games"),
        (altered(batch, seed="1"), '"seed" is missing or of another type'),
        (altered(batch, seed=-1), '"seed" is missing or of another type'),
        (altered(batch, terminated=b"\x02\0\0\0"), "flags of a game's end"),
        (altered(batch, rewards=b""), "it has another size"),
    ]:
        fails(lambda: Boards.__new__(Boards).__setstate__(wrong), ValueError, text)
    with pytest.raises(TypeError):
        Boards.__new__(Boards).__setstate__({**whole, "arguments": {"boards": 4}})


def test_damaged_pickles(batch, rng):
    whole = pickle.dumps(batch)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            damaged[at] = rng.integers(0, 256)
        try:
            pickle.loads(bytes(damaged)).step(U8)
        except Exception:  # whatever pickle makes of it: it may not crash
            refused += 1
    assert refused > 100


# ---- teams and weights ---------------------------------------------------------------------------------------------

def test_teams_that_do_not_exist(tmp_path):
    for spec, error, text in [
        ("levl2", ValueError, 'team "levl2": neither a script (random, level0,'),
        ("", ValueError, 'team "": neither a script'),
        (str(tmp_path / "none.pth"), FileNotFoundError, "none.pth"),
        ("none.pth", FileNotFoundError, "none.pth"),
        (str(tmp_path), IsADirectoryError, str(tmp_path)),
        (f"{CHAMPION}:best", ValueError, 'unknown search "best". After a file\'s name there may be :argmax'),
        (f"{CHAMPION}:look0", ValueError, '"look0" is not a search; there are look<samples> (look4; 1 to 1000)'),
        (f"{CHAMPION}:puct", ValueError, '"puct" is not a search'),
        (f"{DATA}/upstream_actor_2000.pth:softmax:look4", ValueError, "search needs a Q-network"),
        ("level2:argmax", ValueError, "neither a script"),
    ]:
        fails(lambda: Team(spec), error, text)
    with pytest.raises(TypeError):
        Team(3)


def test_wrong_calls_of_a_team():
    script, search, network = Team("level2"), Team(f"{CHAMPION}:look4"), Team(CHAMPION)
    observations, open_moves = np.zeros((2, 3, 309), np.float32), np.ones((2, 3, 4), bool)
    batch = Boards(2)
    batch.reset(seed=1)
    for call, error, text in [
        (lambda: script.moves(observations, open_moves), ValueError, "a script sees boards, not observations: use moves_on"),
        (lambda: search.moves(observations, open_moves), ValueError, "a search sees boards, not observations: use moves_on"),
        (lambda: network.moves(observations[..., :30].copy(), open_moves), ValueError, "observations: shape is (2, 3, 30), not (2, 3, 309)"),
        (lambda: network.moves(observations.astype(float), open_moves), TypeError, "observations: dtype is float64, not float32"),
        (lambda: network.moves(observations, open_moves[:1]), ValueError, "open_moves: shape is (1, 3, 4), not (2, 3, 4)"),
        (lambda: network.moves(observations, open_moves.astype(np.uint8)), TypeError, "open_moves: dtype is uint8, not bool"),
        (lambda: network.moves_on(batch.states, side=2), ValueError, "side is 2, not 0 to 1"),
        (lambda: network.moves_on(batch.states, first_game=-1), ValueError, "first_game is -1"),
        (lambda: network.moves_on(batch.observations), TypeError, "states: not an array of dtype snake_ddp.STATE"),
        (lambda: network.moves_on(batch.states.reshape(1, 2)), ValueError, "states: shape is (1, 2)"),
        (lambda: network.moves_on(np.zeros(3, snake_ddp.STATE)), ValueError, "board 0: not a board of the game"),
        (lambda: snake_ddp.evaluate("level2", "level4", games=0), ValueError, "games is 0, not 1 to 1099511627776"),
        (lambda: snake_ddp.evaluate("level2", "level4", seed=-1), ValueError, "seed is -1"),
        (lambda: snake_ddp.evaluate("level2", "level9"), ValueError, 'team "level9"'),
        (lambda: snake_ddp.obs_size("none"), ValueError, 'obs is "none", not one of: 26, 30, window, view, ahead'),
        (lambda: snake_ddp.bounds("x"), ValueError, 'obs is "x"'),
        (lambda: Team.__new__(Team).__setstate__({"spec": "x"}), ValueError, "not the state of a team"),
    ]:
        fails(call, error, text)


def rewritten(source, target, change, **more):
    """A weights file with each entry changed by `change(name, bytes)`, None leaves it out; and with `more` entries."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = change(name.split("/", 1)[1], old.read(name))
            if data is not None:
                new.writestr(name, data)
        for name, data in more.items():
            new.writestr(f"{old.namelist()[0].split('/')[0]}/{name}", data)
    return str(target)


def test_files_that_are_not_weights(tmp_path):
    def file(name, data):
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    def pickled(value):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as new:
            new.writestr("x/data.pkl", pickle.dumps(value))
        return archive.getvalue()

    def packed(path):
        archive = io.BytesIO()
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        return archive.getvalue()

    class Evil:
        def __reduce__(self):
            return print, ("executed",)

    whole = open(CHAMPION, "rb").read()
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    for path, text in [
        (file("text.pth", b"no weights"), "it is not a file that torch.save wrote"),
        (file("empty.pth", b""), "it is empty"),
        (file("cut.pth", whole[: len(whole) // 2]), "the file is truncated or damaged (the zip directory is missing)"),
        (file("packed.pth", packed(CHAMPION)), "is compressed or encrypted, which torch.save never does"),
        (file("zip.pth", empty.getvalue()), "it is a zip archive, but torch.save did not write it (no data.pkl)"),
        (file("evil.pth", pickled(Evil())), "it holds 'builtins.print', which a weights file does not need; nothing in it was executed"),
        (file("list.pth", pickled([1, 2])), "it contains no dict of names and tensors"),
        (file("number.pth", pickled({"a": 1})), "'a' is not a tensor"),
        (rewritten(CHAMPION, tmp_path / "short.pth", lambda n, d: d[:8] if n == "data/0" else d), "has the wrong size"),
        (rewritten(CHAMPION, tmp_path / "without.pth", lambda n, d: None if n == "data/3" else d), "storage '3' is missing"),
        (rewritten(CHAMPION, tmp_path / "cut_pickle.pth", lambda n, d: d[:100] if n == "data.pkl" else d), "the file is truncated or damaged"),
        (rewritten(CHAMPION, tmp_path / "big.pth", lambda n, d: b"big" if n == "byteorder" else d), "big-endian"),
    ]:
        fails(lambda: snake_ddp.read_weights(path), ValueError, text)
        fails(lambda: Team(path), ValueError, path)
    fails(lambda: snake_ddp.read_weights(tmp_path / "absent"), FileNotFoundError, "absent")


def test_damaged_weights_files(tmp_path, rng):
    whole = open(CHAMPION, "rb").read()
    path = tmp_path / "damaged.pth"
    start = whole.index(b"data.pkl")
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(3):  # the pickle, which is first, and the directory, which is last
            damaged[rng.choice([rng.integers(start, start + 1500), rng.integers(len(whole) - 2000, len(whole))])] = rng.integers(0, 256)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged.pth"):
            Team(str(path))
            raise ValueError("damaged.pth was read: the change did no harm")


def test_records_that_contradict_the_weights(tmp_path):
    plain = {"format": 1, "version": "1", "learner": "dqn", "obs": "ahead", "view_radius": 0, "tokens": "", "head": "values",
             "hidden_size": 256, "mask_fatal": True, "reward": "score", "rival_reward": 0.5, "reward_scale": 1, "gamma": 0.99}  # fmt: skip

    def same(name, data):
        return data if name != "snake_ddp.json" else None

    def with_record(text=None, **changes):
        text = json.dumps({**plain, **changes}) if text is None else text
        return rewritten(CHAMPION, tmp_path / "record.pth", same, **{"snake_ddp.json": text})

    assert Team(with_record()).obs == "ahead"
    for changes, text in [
        (dict(format=2), "its record snake_ddp.json: format 2 is of a later version; this one reads 1"),
        (dict(obs="30"), 'it says observation "30", but the weights are for 309 features'),
        (dict(obs="all"), 'obs all: not a known value; allowed: 26, 30'),
        (dict(obs=[30]), '"obs": [30] is not a string'),
        (dict(head="softmax"), 'it says head "softmax", but the weights are a Q-network\'s'),
        (dict(view_radius=4), 'view_radius 4 with observation "ahead"'),
        (dict(tokens="tokens.pth"), 'it says observation "ahead" with tokens, but the weights are for 309 features'),
        (dict(gamma="much"), '"gamma": "much" is not a number'),
        (dict(text="{"), "its record snake_ddp.json"),
        (dict(text="[]"), "its record snake_ddp.json"),
        (dict(text="{}"), 'its record snake_ddp.json: "format" is missing'),
    ]:
        fails(lambda: Team(with_record(**changes)), ValueError, text)
    fails(lambda: Team(with_record(reward="2021") + ":look4"), ValueError, "trained for the reward 2021; it needs one trained for score")
    assert Team(with_record(reward="2021")).obs == "ahead"


@pytest.mark.parametrize("level, text", [("v9", "SNAKE_DDP_CPU is 'v9', not one of: v2, v3, v4"), ("native", "not one of")])
def test_a_processor_that_does_not_exist(level, text):
    done = subprocess.run([sys.executable, "-c", "import snake_ddp"], capture_output=True, text=True, env={"SNAKE_DDP_CPU": level})
    assert done.returncode != 0 and "ImportError" in done.stderr and text in done.stderr
