"""The same as the C++ program, and as the game's reference: recorded boards, recorded games, matches, starts."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import CHAMPION, DATA, ROOT, batch_of, fill, recorded
from processes import call, only_json

import snake_ddp
from snake_ddp import STATE, Boards, Team

ACTOR = f"{DATA}/upstream_actor_2000.pth:softmax"


class Recorded:
    """The reference's games, and the boards of which it recorded more."""

    def __init__(self):
        games = []
        for line in recorded("games.jsonl.gz"):
            games.append([line]) if "game" in line else games[-1].append(line)
        self.boards = []  # by game: a STATE array with its start and all that follow
        actions, rewards, certain, self.bodies = [], [], [], []
        for start, *steps in games:
            boards = np.zeros(len(steps) + 1, STATE)
            returns = np.zeros(2, int)
            for k, moment in enumerate([start, *steps]):
                returns += np.reshape(moment.get("reward", [0] * 6), (2, 3)).sum(axis=1)
                fill(boards[k], moment["snakes"], moment["directions"], moment["beans"], k + 1, returns, moment.get("done", False))
            self.boards.append(boards)
            actions += [step["actions"] for step in steps]
            rewards += [step["reward"] for step in steps]
            self.bodies += [moment["snakes"] for moment in [start, *steps[:-1]]]
            # No reversal was replaced, no bean was added.
            certain += [step["actions"] == step["turned"] and step["beans"] == last["beans"] for last, step in zip([start, *steps], steps)]
        self.before = np.concatenate([boards[:-1] for boards in self.boards]).astype(STATE)
        self.after = np.concatenate([boards[1:] for boards in self.boards]).astype(STATE)
        self.actions, self.rewards, self.certain = np.array(actions), np.array(rewards), np.array(certain)

    def with_key(self, key):
        """Boards, and what was recorded of them under this key."""
        lines = [line for line in recorded("encodings.jsonl.gz") if key in line]
        assert len(lines) > 700
        boards = np.empty(len(lines), STATE)
        for k, line in enumerate(lines):
            boards[k] = self.boards[line["trace_game"]][line["step"]]
        return boards, np.array([line[key] for line in lines])


@pytest.fixture(scope="module")
def games():
    return Recorded()


def test_recorded_steps_without_chance_lead_to_the_recorded_boards(games):
    certain = games.certain
    assert len(certain) == 8000 and certain.sum() > 2000
    batch = batch_of(games.before[certain], opponent="none", autoreset="disabled")
    batch.step(games.actions[certain])
    for field in STATE.names:
        assert np.array_equal(batch.states[field], games.after[certain][field]), field
    assert np.array_equal(batch.rewards, games.rewards[certain])
    assert np.array_equal(batch.terminated, games.after[certain]["is_done"])


def test_recorded_steps_with_new_beans_differ_in_these_alone(games):
    reversal = (games.actions == (games.before["directions"] ^ 1)).any(axis=1)
    dealt = ~reversal & ~games.certain
    assert dealt.sum() > 1000
    batch = batch_of(games.before[dealt], opponent="none", autoreset="disabled")
    batch.step(games.actions[dealt])
    after = games.after[dealt]
    assert np.array_equal(batch.rewards, games.rewards[dealt])
    for field in ("heads", "tails", "lengths", "directions", "n_beans", "returns", "steps", "is_done"):
        assert np.array_equal(batch.states[field], after[field]), field


@pytest.mark.parametrize("obs", ["26", "30"])
def test_recorded_boards_give_the_references_observations(games, obs):
    boards, wanted = games.with_key(f"obs{obs}")
    assert np.allclose(batch_of(boards, obs=obs).observations, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["level1", "level2", "level3", "level4", "evasion"])
def test_opponents_play_recorded_boards_as_the_reference_did(games, name):
    boards, wanted = games.with_key(name)
    running = ~boards["is_done"]  # on the others no mover is asked
    assert running.sum() > 600 and np.array_equal(Team(name).moves_on(boards[running], side=1), wanted[running])


def test_the_platform_s_boards_are_read_whole(games, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "dev"))
    from platform_games import state_of

    boards = games.before[::7]
    for state, body in zip(boards, games.bodies[::7]):
        players = [SimpleNamespace(segments=[divmod(cell, 20) for cell in cells], direction=d) for cells, d in zip(body, state["directions"])]
        beans = [divmod(int(cell), 20) for cell in state["beans"][: state["n_beans"]]]
        words = {0: "up", 1: "down", 2: "left", 3: "right"}
        game = SimpleNamespace(players=players, beans_position=beans, step_cnt=state["steps"], actions_name=words)
        read = state_of(game)
        assert all(np.array_equal(read[field], state[field]) for field in STATE.names)
    assert len(boards) > 500 and boards["returns"].any()


# ---- the program ---------------------------------------------------------------------------------------------------

PAIRS = [
    ("territory", "level2", 200, []),
    ("random", "evasion", 200, []),
    (CHAMPION, "level2", 200, []),
    (CHAMPION, "territory", 65, ["--no_swap_sides"]),
    (ACTOR, "level2", 200, []),
    (ACTOR, "random", 200, ["--mask_fatal"]),
    (f"{ACTOR}:argmax", CHAMPION, 70, []),
    (f"{CHAMPION}:look4", CHAMPION, 6, []),
    (f"{CHAMPION}:puct50", "territory", 3, []),
]


@pytest.mark.parametrize("a, b, games, flags", PAIRS, ids=[f"{a.split('/')[-1]} {b.split('/')[-1]} {' '.join(f)}" for a, b, _, f in PAIRS])
def test_a_match_is_that_of_the_program(a, b, games, flags):
    theirs = only_json(call("eval", "--team_a", a, "--team_b", b, "--games", games, "--seed", 7, "--json", *flags).stdout)
    mask = "--mask_fatal" in flags
    mine = snake_ddp.evaluate(Team(a, mask_fatal=mask), Team(b, mask_fatal=mask), games=games, seed=7, swap_sides="--no_swap_sides" not in flags)
    theirs = {key: value for key, value in theirs.items() if not key.startswith("deaths")}  # the program's alone
    assert set(theirs) == set(vars(mine))
    for key, value in theirs.items():
        if key != "steps_per_second":
            assert getattr(mine, key) == (tuple(value) if isinstance(value, list) else value), key


def test_a_batch_starts_and_plays_the_games_of_the_program(tmp_path):
    """Board 0's game n is the program's game n: the same start, the same new beans, the same scripted opponent."""
    done = call("eval", "--team_a", "level4", "--team_b", "level2", "--games", 4, "--seed", 11, "--no_swap_sides", "--record", tmp_path)
    assert done.returncode == 0, done.stderr
    batch, mover = Boards(1, opponent="level2", autoreset="disabled"), Team("level4")
    batch.reset(seed=11)

    def beans():
        state = batch.states[0]
        return [list(divmod(int(cell), 20)) for cell in state["beans"][: state["n_beans"]]]

    for number in (1, 2, 3):
        log = json.loads((tmp_path / f"game_{number}.json").read_text())
        assert beans() == log["init_info"]["beans_position"]
        for step in log["steps"]:
            batch.step(mover.moves_on(batch.states))
            assert beans() == step["info_after"]["beans_position"]
            heads = [list(divmod(int(cell), 20)) for cell in batch.states[0]["heads"]]
            assert heads == [body[0] for body in step["info_after"]["snakes_position"]]
        assert batch.terminated[0]
        assert batch.scores[0].tolist() == [sum(log["n_return"][:3]), sum(log["n_return"][3:])]
        batch.reset()
