"""Boards: shapes, ends of games, starts, opponents, buffers, threads, pickles."""

import copy
import gc
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from conftest import CHAMPION, ROOT, random_actions

import snake_ddp
from snake_ddp import Boards, Team


def play(batch, steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch.step(random_actions(batch, rng))
    return batch


def started(*arguments, seed=1, **keywords):
    batch = Boards(*arguments, **keywords)
    batch.reset(seed=seed)
    return batch


# ---- arrays --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("obs, features", [("26", 26), ("30", 30), ("window", 277), ("view", 309), ("ahead", 309), ("none", 0)])
@pytest.mark.parametrize("opponent, observe_both, acting, seen", [("level2", False, 3, 3), ("level2", True, 3, 6), ("none", False, 6, 6)])
def test_arrays_have_their_shapes_and_types(obs, features, opponent, observe_both, acting, seen):
    batch = started(5, obs=obs, opponent=opponent, observe_both=observe_both, autoreset="same_step")
    assert (batch.num_boards, batch.acting, batch.seen, batch.features) == (5, acting, seen, features)
    wanted = {
        "observations": (np.float32, (5, seen, features)), "final_observations": (np.float32, (5, seen, features)),
        "rewards": (np.float32, (5, acting)), "terminated": (np.bool_, (5,)), "truncated": (np.bool_, (5,)),
        "states": (snake_ddp.STATE, (5,)), "scores": (np.int32, (5, 2)), "sides": (np.uint8, (5,)),
    }  # fmt: skip
    for name, (dtype, shape) in wanted.items():
        array = getattr(batch, name)
        if obs == "none" and name == "final_observations":
            assert array is None
            continue
        assert (array.dtype, array.shape) == (dtype, shape), name
        assert array.flags.c_contiguous and array.flags.writeable == (name not in ("states", "scores", "sides")), name
    moves = batch.open_moves()
    assert (moves.dtype, moves.shape) == (np.bool_, (5, acting, 4)) and moves.any(axis=2).all()


def test_arrays_are_views_that_each_step_overwrites():
    batch = started(4)
    observations, states, before = batch.observations, batch.states, batch.observations.copy()
    play(batch, 1)
    assert batch.observations is observations and not np.array_equal(observations, before)
    assert (states["steps"] == 2).all()


def test_a_view_outlives_its_batch():
    batch = play(started(64, obs="view"), 3)
    observations, copied = batch.observations, batch.observations.copy()
    del batch
    gc.collect()
    other = started(64, obs="view", seed=2)  # may get memory that was given back
    assert np.array_equal(observations, copied) and not np.array_equal(other.observations, copied)


def test_observations_stay_within_their_bounds():
    for obs in ("26", "30", "window", "view", "ahead"):
        low, high = snake_ddp.bounds(obs)
        assert low.shape == high.shape == (snake_ddp.obs_size(obs),)
        batch = started(32, obs=obs, opponent="territory")
        for _ in range(60):
            play(batch, 5)
            assert (batch.observations >= low).all() and (batch.observations <= high).all()


def test_steps_write_into_given_buffers():
    mine = {
        "observations": np.empty((8 * 3, 30), np.float32), "rewards": np.empty(24, np.float32),
        "terminated": np.empty(8, np.bool_), "truncated": np.empty((8, 1), np.bool_),
    }  # fmt: skip
    batch, other = started(8, reward="v1_2"), started(8, reward="v1_2")
    play(batch, 2), play(other, 2)
    batch.use_buffers(**mine)
    assert all(np.shares_memory(getattr(batch, name), array) for name, array in mine.items())
    for steps in (0, 1, 250):
        play(batch, steps), play(other, steps)
        for name, array in mine.items():
            assert np.array_equal(array.reshape(getattr(other, name).shape), getattr(other, name)), name
    part = np.empty((8, 3), np.float32)
    batch.use_buffers(rewards=part)
    assert np.array_equal(part, other.rewards)
    play(batch, 1), play(other, 1)
    assert np.array_equal(part, other.rewards) and np.shares_memory(batch.observations, mine["observations"])


def test_given_buffers_live_as_long_as_they_are_written():
    batch = started(8)
    buffer = np.zeros((8, 3, 30), np.float32)
    freed = weakref.ref(buffer)
    batch.use_buffers(observations=buffer)
    batch.observations = buffer[:1].copy()  # a public name, which a caller may use for something else
    del buffer
    assert freed() is not None
    play(batch, 1)
    batch.use_buffers(observations=np.zeros((8, 3, 30), np.float32))
    gc.collect()
    assert freed() is None


# ---- games ---------------------------------------------------------------------------------------------------------

def shaped(cell, own, distance):
    """A cell of the table of rewards in docs/reference/formats.md, for game rewards `own` and distances to the nearest bean."""
    names = {"d": distance, "r": own}
    return sum((names[term] if term in names else float(term)) * (-1 if sign == "−" else 1)
               for sign, term in re.findall(r"([+−]?) ?([\d.]+|d|r)", cell)) + np.zeros_like(distance)


def test_shaped_rewards_are_those_of_the_page(rng):
    text = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    head, _, *lines = text[text.index("| rule | code 1 |"):].partition("\n\n")[0].splitlines()
    titles = [cell.strip() for cell in head.split("|")[1:-1]]
    table = {cells[0].strip("` "): [cell.strip() for cell in cells] for cells in (line.split("|")[1:-1] for line in lines)}
    codes = {int(re.search(r"\d", title)[0]): k for k, title in enumerate(titles) if re.fullmatch(r"(code )?\d", title)}
    batches = {rule: started(8, opponent="none", obs="none", reward=rule, autoreset="disabled") for rule in table}
    seen = set()
    for _ in range(200):
        actions = random_actions(batches["score"], rng)
        for batch in batches.values():
            batch.step(actions)
        state, own = batches["score"].states, batches["score"].rewards
        lead = (state["returns"][:, 0] - state["returns"][:, 1])[:, None] * np.repeat([1, -1], 3)
        done = state["is_done"][:, None]
        code = np.where(lead == 0, 0, np.where(done, np.where(lead > 0, 1, 2), np.where(lead > 0, 3, 4)))
        head, beans = state["heads"].astype(int), state["beans"].astype(int)
        there = np.arange(5) < state["n_beans"][:, None]
        rows, columns = head[:, :, None] // 20 - beans[:, None] // 20, head[:, :, None] % 20 - beans[:, None] % 20
        distance = np.sqrt(np.where(there[:, None], rows**2 + columns**2, 10**6).min(2))
        for rule, cells in table.items():
            by_sign = [shaped(cells[titles.index(title)], own, distance) for title in ("r < 0", "r = 0", "r > 0")]
            expected = np.choose(np.sign(own).astype(int) + 1, by_sign)
            for number, column in codes.items():
                expected = expected + np.where(code == number, shaped(cells[column], own, distance), 0)
            assert np.allclose(batches[rule].rewards, expected, atol=1e-4), rule
        seen |= {(c, s) for c, s in zip(code.ravel().tolist(), np.sign(own).ravel().tolist())}
    assert {c for c, _ in seen} >= {1, 2, 3, 4} and {s for _, s in seen} == {-1, 0, 1}


@pytest.mark.parametrize("own", ["none", "level2"])
def test_rewards_are_the_points_of_the_game(own, rng):
    batch = started(16, opponent=own)
    returns = batch.states["returns"].astype(float)
    for _ in range(199):
        batch.step(random_actions(batch, rng))
        returns[:, 0] += batch.rewards[:, :3].sum(axis=1)
        if own == "none":
            returns[:, 1] += batch.rewards[:, 3:].sum(axis=1)
            assert np.array_equal(returns, batch.states["returns"])
        assert np.array_equal(returns[:, 0], batch.states["returns"][:, 0])


@pytest.mark.parametrize("length", [1, 7, 200])
def test_games_end_where_they_should(length):
    batch = started(6, episode_length=length, autoreset="disabled")
    for step in range(1, length + 1):
        assert not batch.terminated.any() and not batch.truncated.any() and batch.finished == 0
        play(batch, 1, seed=step)
    ended, cut = batch.terminated, batch.truncated
    assert (ended if length == 200 else cut).all() and not (cut if length == 200 else ended).any()
    assert batch.finished == 6 and (batch.states["steps"] == length + 1).all()
    assert np.array_equal(batch.scores, batch.states["returns"])


def test_the_three_ways_to_begin_the_next_game_play_the_same_games():
    """Both teams' moves depend on their observations, so that games depend only on their starts."""
    mover = Team("level4")
    games = {}  # of each way: first and last observation and score of each board's games
    for autoreset in ("next_step", "same_step", "disabled"):
        batch = started(5, opponent="level2", episode_length=30, autoreset=autoreset)
        seen = games.setdefault(autoreset, [])
        first = batch.observations.copy()
        while len(seen) < 4:
            moves = mover.moves_on(batch.states)
            if autoreset == "next_step" and batch.truncated.any():
                moves[:] = 3  # ignored
            batch.step(moves)
            if batch.truncated.any():
                assert batch.truncated.all() and batch.finished == 5
                last = batch.final_observations if autoreset == "same_step" else batch.observations
                seen.append((first, last.copy(), batch.scores.copy()))
                if autoreset == "same_step":
                    first = batch.observations.copy()
                elif autoreset == "disabled":
                    batch.reset(mask=batch.truncated.copy())
                    assert not batch.truncated.any()
                    first = batch.observations.copy()
                else:
                    rewards = batch.rewards
                    batch.step(moves)
                    assert not batch.truncated.any() and not rewards.any() and batch.finished == 0
                    first = batch.observations.copy()
    for one, two, three in zip(*games.values()):
        for a, b, c in zip(one, two, three):
            assert np.array_equal(a, b) and np.array_equal(a, c)
    assert not np.array_equal(games["disabled"][0][0], games["disabled"][1][0])


def test_without_autoreset_an_ended_board_must_be_reset():
    batch = started(3, episode_length=2, autoreset="disabled")
    play(batch, 2)
    before = batch.hash()
    with pytest.raises(ValueError, match="board 0 has ended and autoreset is disabled"):
        play(batch, 1)
    assert batch.hash() == before
    batch.reset(mask=np.array([True, False, True]))
    with pytest.raises(ValueError, match="board 1"):
        play(batch, 1)
    batch.reset(mask=np.array([False, True, False]))
    play(batch, 1)


def test_what_a_caller_does_to_the_flags_does_not_change_the_games():
    plain, changed = (started(3, episode_length=2, autoreset="disabled") for _ in range(2))
    play(plain, 2), play(changed, 2)
    changed.terminated |= changed.truncated
    copied = pickle.loads(pickle.dumps(changed))
    assert np.array_equal(copied.terminated, plain.terminated) and np.array_equal(copied.truncated, plain.truncated)
    changed.terminated[:] = changed.truncated[:] = False
    with pytest.raises(ValueError, match="board 0 has ended"):
        play(changed, 1)


def test_starts_depend_on_seed_board_and_game_only():
    few, many = started(2, seed=7), started(9, seed=7, opponent="none", obs="view")
    for _ in range(3):
        assert np.array_equal(few.states["cells"], many.states["cells"][:2])
        few.reset(), many.reset()
    again = started(2, seed=7)
    again.reset(), again.reset(), again.reset()
    assert again.hash() == few.hash()
    few.reset(seed=7)
    assert few.hash() == started(2, seed=7).hash() != started(2, seed=8).hash()
    unseeded, other = Boards(4), Boards(4)
    unseeded.reset(), other.reset()
    assert unseeded.hash() != other.hash()
    assert started(1, seed=2**64 - 1).hash() != started(1, seed=0).hash()


def test_a_mask_starts_games_only_there():
    batch = play(started(4, seed=3), 10)
    before = batch.states.copy()
    batch.reset(mask=np.array([False, True, False, True]))
    assert batch.states["steps"].tolist() == [11, 1, 11, 1]
    assert np.array_equal(batch.states[::2], before[::2])


@pytest.mark.parametrize("obs", ["30", "view"])
def test_sides_swap_from_game_to_game(obs):
    batch = started(4, swap_sides=True, obs=obs, opponent="level4", autoreset="disabled", observe_both=True)
    for game in range(3):
        assert batch.sides.tolist() == [(board + game) % 2 for board in range(4)]
        whole = started(4, obs=obs, opponent="none")
        for _ in range(game):
            whole.reset()
        for board, side in enumerate(batch.sides):
            both = whole.observations[board]
            assert np.array_equal(batch.observations[board], np.concatenate([both[3 * side :], both[: 3 * side]]))
        lead = []
        while not batch.terminated.any():
            a, b = (Team("level2").moves_on(batch.states, side) for side in (0, 1))
            moves = np.where(batch.sides[:, None] == 0, a, b)
            batch.step(moves)
            lead.append(batch.rewards.sum())
        own = np.take_along_axis(batch.states["returns"], batch.sides[:, None].astype(int), axis=1)[:, 0]
        assert np.array_equal(batch.scores[:, 0], own) and np.array_equal(batch.scores.sum(1), batch.states["returns"].sum(1))
        assert sum(lead) == own.sum()
        batch.reset()


# ---- opponents -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("opponent", [*snake_ddp.opponents(), CHAMPION, str(ROOT / "tests/data/upstream_actor_2000.pth") + ":softmax:argmax"])
def test_an_opponent_plays_as_it_does_outside(opponent, rng):
    """One board: there its number among the seed's games is that of the game, which a random opponent's moves depend on."""
    team = Team(opponent)
    batch = started(1, seed=5, opponent=opponent if opponent in snake_ddp.opponents() else team)
    whole = started(1, seed=5, opponent="none")
    for step in range(330):
        own = random_actions(batch, rng)
        theirs = team.moves_on(whole.states, side=1, seed=5, first_game=1 if step < 201 else 2)
        batch.step(own)
        whole.step(np.concatenate([own, theirs], axis=1))
        assert batch.hash() == whole.hash(), step


def test_a_mix_draws_opponents_by_weight(rng):
    batch = started(2000, opponent="level2:1,level4:3")
    for _ in range(12):  # until they differ
        play(batch, 1)
    two, four = (Team(name).moves_on(batch.states, side=1) for name in ("level2", "level4"))
    play(batch, 1)
    turned = batch.states["directions"][:, 3:]
    alive = batch.states["lengths"][:, 3:].all(axis=1)
    differ = (two != four).any(axis=1) & alive
    is_two, is_four = (turned == two).all(axis=1) & differ, (turned == four).all(axis=1) & differ
    assert differ.sum() > 100
    assert 0.6 < is_four.sum() / (is_two.sum() + is_four.sum()) < 0.9


def test_a_searching_opponent_plays_as_it_does_outside(rng):
    network, search = Team(CHAMPION), Team(f"{CHAMPION}:look4")
    batch, whole = started(3, opponent=search), started(3, opponent="none")
    differ = False
    for _ in range(40):
        own, theirs = random_actions(batch, rng), search.moves_on(whole.states, side=1, seed=1)
        differ = differ or not np.array_equal(theirs, network.moves_on(whole.states, side=1))
        batch.step(own)
        whole.step(np.concatenate([own, theirs], axis=1))
        assert batch.hash() == whole.hash()
    assert differ


# ---- processes, threads, memory ------------------------------------------------------------------------------------

@pytest.mark.parametrize("opponent", ["none", "level2:0.5,level0:0.5", Team(CHAMPION)], ids=["none", "mix", "team"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))], ids=["deepcopy", "pickle"])
def test_a_copy_continues_equally(opponent, copied):
    batch = play(started(6, opponent=opponent, swap_sides=opponent != "none", reward="2021", episode_length=50), 60)
    other = copied(batch)
    for steps in (0, 1, 45, 10):
        play(batch, steps, seed=steps), play(other, steps, seed=steps)
        assert batch.hash() == other.hash()
        for name in ("observations", "rewards", "terminated", "truncated", "scores", "sides"):
            assert np.array_equal(getattr(batch, name), getattr(other, name)), name
    batch.reset(), other.reset()
    assert batch.hash() == other.hash() and repr(batch) == repr(other)


def test_a_copy_of_a_fresh_batch_is_fresh():
    batch = pickle.loads(pickle.dumps(Boards(3)))
    with pytest.raises(RuntimeError, match="call reset first"):
        play(batch, 1)
    batch.reset()


def child(batch, queue):
    queue.put(play(batch, 250).hash())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_play_the_same(method):
    batch = play(started(8), 3)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=child, args=(batch, queue))
    process.start()
    assert queue.get(timeout=120) == play(batch, 250).hash()
    process.join()
    assert process.exitcode == 0


def test_two_threads_in_one_batch_are_noticed():
    """This also shows that a step lets other threads run: without that no thread would ever meet another inside a step."""
    batch = started(4096, obs="view")
    actions = np.zeros((4096, 3), np.uint8)
    stop, noticed = threading.Event(), []

    def go():
        while not stop.is_set():
            try:
                batch.step(actions)
            except RuntimeError as e:
                noticed.append(str(e))
                stop.set()

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    stop.set()
    assert noticed and "another thread is using this batch" in noticed[0]
    batch.step(actions)


def test_threads_may_have_a_batch_each():
    wanted = [play(started(64, seed=seed, opponent=Team(CHAMPION)), 30).hash() for seed in range(4)]
    team, found = Team(CHAMPION), [0] * 4

    def go(seed):
        found[seed] = play(started(64, seed=seed, opponent=team), 30).hash()

    threads = [threading.Thread(target=go, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == wanted


def test_a_batch_is_freed_with_its_last_reference():
    batch = started(16)
    batch.use_buffers(observations=batch.observations, rewards=np.empty((16, 3), np.float32))
    play(batch, 3)
    reference = weakref.ref(batch)
    gc.disable()
    try:
        del batch
        assert reference() is None  # at once: it is in no cycle
    finally:
        gc.enable()


def test_steps_do_not_gather_memory():
    batch = started(2, opponent=Team(CHAMPION), obs="ahead")
    actions = np.zeros((2, 3), np.uint8)
    for _ in range(100):
        batch.step(actions)
    before = sys.getallocatedblocks()
    for _ in range(2000):
        batch.step(actions)
        batch.open_moves()
    assert sys.getallocatedblocks() - before < 50


def test_nothing_is_left_at_the_end_of_a_process():
    text = (
        "import snake_ddp, numpy as np\n"
        f"b = snake_ddp.Boards(8, opponent=snake_ddp.Team({CHAMPION!r})); b.reset(seed=1)\n"
        "b.use_buffers(observations=b.observations); b.step(np.zeros((8, 3), np.uint8)); kept = b.observations, b.states\n"
        "try: b.step(np.full((8, 3), 9, np.uint8))\n"
        "except ValueError as e: error = e\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
