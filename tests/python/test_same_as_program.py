"""The same as the C++ program, and as the game's reference: recorded boards, recorded games, matches, deals."""

import json

import numpy as np
import pytest
from conftest import CHAMPION, DATA, batch_of, fill, recorded, run_program

import snake_ddp
from snake_ddp import STATE, Boards, Team

ACTOR = str(DATA / "upstream_actor_2000.pth")


def recorded_steps():
    """All steps of the reference's games: boards before and after, actions, rewards; and where no chance was involved."""
    before, after, actions, rewards, certain = [], [], [], [], []
    number = {}  # of a game's boards, from its start on
    for line in recorded("games.jsonl.gz"):
        if "game" in line:
            last, step, returns = line, 1, np.zeros(2, int)
            number[len(number)] = len(before)
            continue
        for boards, moment, k, sums, done in ((before, last, step, returns, False), (after, line, step + 1, returns + np.reshape(line["reward"], (2, 3)).sum(1), line["done"])):
            board = np.zeros((), STATE)
            fill(board, moment["snakes"], moment["directions"], moment["beans"], k, sums, done)
            boards.append(board)
        returns = returns + np.reshape(line["reward"], (2, 3)).sum(1)
        actions.append(line["actions"])
        rewards.append(line["reward"])
        certain.append(line["actions"] == line["turned"] and line["beans"] == last["beans"])
        last, step = line, step + 1
    return np.array(before), np.array(after), np.array(actions), np.array(rewards), np.array(certain), number


@pytest.fixture(scope="module")
def steps():
    return recorded_steps()


def test_recorded_steps_without_chance_lead_to_the_recorded_boards(steps):
    before, after, actions, rewards, certain, _ = steps
    assert len(before) == 8000 and certain.sum() > 4000
    batch = batch_of(before[certain], opponent="none", autoreset="disabled")
    batch.step(actions[certain])
    assert batch.states.tobytes() == after[certain].tobytes()
    assert np.array_equal(batch.rewards, rewards[certain])
    assert np.array_equal(batch.terminated, after[certain]["is_done"])


def test_recorded_steps_with_chance_differ_by_chance_alone(steps):
    """New beans, and the moves that replace reversals, are drawn anew: of the rest, who ate and who died is the same."""
    before, after, actions, rewards, certain, _ = steps
    forward = (actions != (before["directions"] ^ 1)).all(axis=1) & ~certain
    assert forward.sum() > 1000
    batch = batch_of(before[forward], opponent="none", autoreset="disabled")
    batch.step(actions[forward])
    assert np.array_equal(batch.rewards, rewards[forward])
    for field in ("heads", "lengths", "directions", "returns", "steps"):
        alike = (batch.states[field] == after[forward][field]).reshape(forward.sum(), -1).all(axis=1)
        assert alike.mean() == 1.0, field


@pytest.mark.parametrize("obs", ["26", "30"])
def test_recorded_boards_are_seen_as_the_reference_saw_them(steps, obs):
    before, after, *_, number = steps
    lines = [line for line in recorded("encodings.jsonl.gz") if f"obs{obs}" in line]
    assert len(lines) == 730
    boards = np.array([before[number[line["trace_game"]]] if line["step"] == 0 else after[number[line["trace_game"]] + line["step"] - 1]
                       for line in lines])  # fmt: skip
    batch = batch_of(boards, obs=obs)
    wanted = np.array([line[f"obs{obs}"] for line in lines], np.float32)
    assert np.allclose(batch.observations, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["level1", "level2", "level3", "level4", "evasion"])
def test_opponents_answer_recorded_boards_as_the_reference_did(steps, name):
    before, after, *_, number = steps
    lines = [line for line in recorded("encodings.jsonl.gz") if name in line]
    assert len(lines) > 700
    boards = np.array([before[number[line["trace_game"]]] if line["step"] == 0 else after[number[line["trace_game"]] + line["step"] - 1]
                       for line in lines])  # fmt: skip
    assert np.array_equal(Team(name).moves_on(boards, side=1), [line[name] for line in lines])


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
    theirs = json.loads(run_program("eval", "--team_a", a, "--team_b", b, "--games", games, "--seed", 7, "--json", *flags))
    mask = "--mask_fatal" in flags
    mine = snake_ddp.evaluate(Team(a, mask_fatal=mask), Team(b, mask_fatal=mask), games=games, seed=7, swap_sides="--no_swap_sides" not in flags)
    assert set(theirs) == set(vars(mine))
    for key, value in theirs.items():
        if key != "steps_per_second":
            assert getattr(mine, key) == (tuple(value) if isinstance(value, list) else value), key


def test_a_batch_deals_and_plays_the_games_of_the_program(tmp_path):
    """Board 0's game n is the program's game n: the same deal, the same new beans, the same scripted opponent."""
    run_program("eval", "--team_a", "level4", "--team_b", "level2", "--games", 4, "--seed", 11, "--no_swap_sides", "--record", tmp_path)
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
