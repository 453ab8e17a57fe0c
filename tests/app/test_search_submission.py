"""The search of exported submissions: its rules, its encoder, what it chooses, and what happens when it fails."""

import collections
import functools
import gzip
import itertools
import json
import random
import sys
import types

import numpy as np
import pytest
import torch

from exports import BOARDS, RECORDED, Platform, coordinates, export, load_submission, q_network, save_in_run, shown, words
from processes import DATA, SOURCE, call

CHAMPION = SOURCE / "models" / "champion.pth"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return export(CHAMPION, "submission", tmp_path_factory.mktemp("submission") / "out")


@pytest.fixture
def submission(folder):
    return load_submission(folder)


@pytest.fixture(scope="module")
def heading_up(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ahead")
    return load_submission(export(save_in_run(folder / "run", q_network(309), obs="ahead"), "submission", folder / "out"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return load_submission(export(CHAMPION, "submission", tmp_path_factory.mktemp("bare") / "out", "--bare"))


def position(submission, board, step):
    return submission.Position([bytes(snake) for snake in board["snakes"]], list(board["directions"]), list(board["beans"]), step)


def boards(submission, every=1):
    """Recorded boards on which a step can be made."""
    return [position(submission, board, step) for game in BOARDS for step, board in enumerate(game[:-1], 1)][::every]


def answer(submission, observation):
    (one_hot,) = submission.my_controller(observation, None, False)
    assert sorted(one_hot) == [0, 0, 0, 1]
    return one_hot.index(1)


# Its rules


class Recorded:
    """The chance of a recorded step."""

    def __init__(self, line):
        self.line, self.new, self.asked = line, [], False

    def turn(self, snake, back):
        self.asked = True
        return self.line["turned"][snake]

    def bean(self, k, free):
        assert len(self.new) == k and list(free) == sorted(free)
        self.asked = True
        self.new.append(next(bean for bean in self.line["beans"] if bean in free and bean not in self.new))
        return self.new[k]


def test_its_rules_reproduce_every_recorded_step(submission):
    torus, steps, by_chance = submission.Torus(10, 20), 0, 0
    for game in BOARDS:
        board = position(submission, game[0], 1)
        for step, line in enumerate(game[1:], 2):
            chance = Recorded(line)
            board, rewards, drawn = submission.play(torus, board, line["actions"], chance)
            assert drawn == chance.asked
            by_chance += drawn
            assert (list(map(list, board.snakes)), board.directions, board.beans) == (line["snakes"], line["directions"], line["beans"]), step
            assert (rewards, board.done, board.step) == (line["reward"], line["done"], step)
            steps += 1
    assert steps == sum(len(game) - 1 for game in BOARDS) > 5000
    assert 1000 < by_chance < steps - 1000


class Least:
    """The lowest of what chance may choose."""

    def turn(self, snake, back):
        return min({0, 1, 2, 3} - {back})

    def bean(self, k, free):
        return free[0]


def test_a_move_back_is_replaced_and_new_beans_are_dealt_on_free_cells(submission):
    snakes = [bytes([20 * i + 2, 20 * i + 1, 20 * i]) for i in range(6)]
    board = submission.Position(snakes, [submission.RIGHT] * 6, [199, 23], 7)
    after, rewards, drawn = submission.play(submission.Torus(10, 20), board, [submission.LEFT] + [submission.RIGHT] * 5, Least())
    assert after.directions == [submission.UP] + [submission.RIGHT] * 5
    assert drawn and [list(snake) for snake in after.snakes[:3]] == [[182, 2, 1], [23, 22, 21, 20], [43, 42, 41]]
    assert after.beans == [199, 0, 3, 4, 5] and rewards == [0, 1, 0, 0, 0, 0] and not after.done
    assert (board.snakes[1], board.beans) == (bytes([22, 21, 20]), [199, 23]), "the board before"


@pytest.mark.parametrize("free,body,direction", [
    ((0, 1, 2), [0, 1, 2], "left"), ((0, 1, 20), [1, 0, 20], "right"), ((0, 1, 19), [0, 1, 19], "left"), ((5, 25, 45), [5, 25, 45], "up"),
    ((0, 20, 180), [0, 20, 180], "up"), ((0, 1, 41, 60, 61), [41, 61, 60], "up"), ((0, 1, 50, 51), [], None), ((), [], None)])
def test_a_dead_snake_comes_back_on_the_first_three_free_cells(free, body, direction, submission):
    back = submission.come_back(submission.Torus(10, 20), [cell for cell in range(200) if cell not in free])
    assert back == (bytes(body), direction and submission.WORDS.index(direction))


def test_a_game_is_over_when_a_snake_cannot_come_back(submission, monkeypatch):
    snakes = [bytes([20 * i + 2, 20 * i + 1, 20 * i]) for i in range(5)] + [bytes([4, 5, 6])]
    board = submission.Position(snakes, [submission.RIGHT] * 5 + [submission.LEFT], [199] * 5, 7)
    moves = [submission.RIGHT] * 5 + [submission.LEFT]  # 0 and 5 meet
    after, rewards, drawn = submission.play(submission.Torus(10, 20), board, moves, Least())
    assert list(after.snakes[0]) == [1, 0, 20] and list(after.snakes[5]) == [3, 2, 182] and not drawn and rewards == [0] * 6 and not after.done
    monkeypatch.setattr(submission, "come_back", lambda torus, taken: (b"", None))
    after, *_ = submission.play(submission.Torus(10, 20), board, moves, Least())
    assert after.done and after.snakes[0] == after.snakes[5] == b"" and after.directions == moves


def test_on_a_full_board_no_more_beans_are_dealt_than_fit(submission):
    others = [[20 * i + 2, 20 * i + 1, 20 * i] for i in range(1, 6)]
    beans = [20 * i + 3 for i in range(1, 6)]  # all are eaten, and only the tail of snake 0 leaves its cell
    long = [0] + [cell for cell in range(2, 200) if cell not in beans + sum(others, [])]
    board = submission.Position([bytes(snake) for snake in [long] + others], [submission.RIGHT] * 6, beans, 7)
    after, rewards, _ = submission.play(submission.Torus(10, 20), board, [submission.RIGHT] * 6, Least())
    assert after.beans == [long[-1]] and rewards == [0, 1, 1, 1, 1, 1] and after.done


def test_chance_covers_all_possible_outcomes(submission):
    chance = submission.Chance()
    turns = collections.Counter(chance.turn(0, submission.DOWN) for _ in range(3000))
    beans = collections.Counter(chance.bean(0, [5, 7, 9]) for _ in range(3000))
    assert sorted(turns) == [submission.UP, submission.LEFT, submission.RIGHT] and sorted(beans) == [5, 7, 9]
    assert min([*turns.values(), *beans.values()]) > 850


# Its encoder


@pytest.mark.parametrize("obs", ["window", "view", "ahead"])
def test_many_boards_at_once_are_encoded_as_one_by_one(obs, submission, heading_up):
    submission = heading_up if obs == "ahead" else submission
    torus, features = submission.Torus(10, 20), 277 if obs == "window" else 309
    chosen = boards(submission, 2)
    one_by_one, checked = submission.FEATURES[features], 0
    for start in range(0, len(chosen), 500):
        some = chosen[start:start + 500]
        rows, is_open = submission.Views(10, 20).features(some, features == 309)
        assert rows.shape == (len(some), 6, features) and rows.dtype == np.float32
        for k, board in enumerate(some):
            for first in (0, 3):
                seen = submission.Board(torus.shown(board), first)
                expected = np.array([one_by_one(seen, i) for i in range(3)], dtype=np.float32)
                assert np.array_equal(rows[k, first:first + 3], expected), (start + k, first)
                assert [[d for d in range(4) if row[d]] for row in is_open[k, first:first + 3]] == [seen.open_moves(i) for i in range(3)]
                checked += 1
    assert checked == 2 * len(chosen) > 5000


def test_beans_may_be_missing(submission):
    torus, board = submission.Torus(10, 20), boards(submission)[30]
    for left in range(5):
        fewer = submission.Position(board.snakes, board.directions, board.beans[:left], 31)
        rows, _ = submission.Views(10, 20).features([fewer], True)
        seen = submission.Board(torus.shown(fewer), 3)
        assert np.array_equal(rows[0, 3:], np.array([submission.features_view(seen, i) for i in range(3)], dtype=np.float32))


def scattered(submission, height, width, draw):
    """What is shown of a board with six snakes of three cells anywhere, and five beans."""
    board = types.SimpleNamespace(height=height, width=width, step=7, directions=[], snakes=[])
    board.beside = functools.partial(submission.Shown.beside, board)
    free = [(row, column) for row in range(height) for column in range(width)]
    while len(board.snakes) < 6:
        body, way = [draw.choice(free)], draw.choices(range(4), k=2)
        for direction in way:
            body.append(board.beside(body[-1], direction))
        if len(set(body) & set(free)) == 3:
            free = [cell for cell in free if cell not in body]
            board.snakes.append(body)
            board.directions.append(submission.BACK[way[0]])
    board.beans = draw.sample(free, 5)
    return board


@pytest.mark.parametrize("size, searches", [((4, 8), True), ((4, 31), True), ((31, 8), True), ((16, 16), True), ((3, 20), False),
                                            ((20, 3), False), ((32, 8), False), ((8, 32), False), ((17, 16), False)])
def test_it_searches_on_boards_of_the_sizes_that_it_encodes(size, searches, submission):
    draw, asked, nodes = random.Random(1), [], submission.nodes
    submission.nodes, submission.SIMULATIONS = lambda *given: asked.append(given) or nodes(*given), 32
    submission.time = Clock(0)
    for _ in range(10):
        shown_board = scattered(submission, *size, draw)
        for first in (0, 3):
            board = submission.Board(shown_board, first)
            submission.team_moves(board)
            if searches:
                views = submission.views_of(*size)
                rows, _ = views.features([views.position(board.shown)], True)
                expected = np.array([submission.features_view(board, i) for i in range(3)], dtype=np.float32)
                assert np.array_equal(rows[0, first:first + 3], expected)
    assert bool(asked) == searches and submission.REPORTED == set()


# What it chooses


class Draws:
    """The chance of a step from random words, as play::DrawnChance has it."""

    def __init__(self, words):
        self.turns, *self.beans = words

    def turn(self, i, back):
        return [direction for direction in range(4) if direction != back][3 * (self.turns * 3 ** i % 2 ** 32) >> 32]

    def bean(self, k, free):
        return free[self.beans[k] * len(free) >> 32]


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""
    a, b, c, d = counter
    for number in range(10):
        k, l = ((key >> shift) + number * step & 0xFFFFFFFF for shift, step in ((0, 0x9E3779B9), (32, 0xBB67AE85)))
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = second >> 32 ^ b ^ k, second & 0xFFFFFFFF, first >> 32 ^ d ^ l, first & 0xFFFFFFFF
    return [a, b, c, d]


def dice(game, step):
    """The chances of simulation n: play::MoveRandom of seed 1 and team 0."""
    def block(seed, stream, counter):
        return philox((stream & 0xFFFFFFFF, stream >> 32, counter, 10), seed)

    words = block(1, game, 2 * step)
    seed, stream = words[0] | words[1] << 32, words[2] | words[3] << 32
    return lambda n: (Draws(block(seed, stream, n << 10 | depth << 2) + block(seed, stream, n << 10 | depth << 2 | 1))
                      for depth in itertools.count())


def value_of(submission, torus, board):
    """Two-sided, snake by snake."""
    if board.done:
        return 0
    value = 0
    for first, sign in ((0, 1), (3, -1)):
        seen = submission.Board(torus.shown(board), first)
        value += sign * sum(max(answers[d] for d in seen.open_moves(i)) for i, answers in enumerate(submission.ACTOR(seen))) / 3
    return value / 1.5


def test_a_node_has_the_board_s_value_and_the_open_moves_with_their_shares(submission):
    views = submission.views_of(10, 20)
    some = boards(submission, 79)
    for board, node in zip(some, submission.nodes(some, views)):
        assert node.value == pytest.approx(value_of(submission, views, board), abs=1e-5)
        for first in (0, 3):
            seen = submission.Board(views.shown(board), first)
            for i, answers in enumerate(submission.ACTOR(seen)):
                weights = np.exp(np.array([answers[move] for move in seen.open_moves(i)]) * 10)
                shares = node.priors[4 * (first + i):4 * (first + i) + 4]
                assert [move for move in range(4) if shares[move] >= 0] == seen.open_moves(i)
                assert [share for share in shares if share >= 0] == pytest.approx(weights / weights.sum(), abs=1e-4)


def test_it_grows_the_trees_of_the_program_s_own_search(submission):
    """Held against the play module on the same chances: tests/data/puct_visits.jsonl.gz."""
    views = submission.views_of(10, 20)
    grown = same = 0
    with gzip.open(DATA / "puct_visits.jsonl.gz", "rt") as file:
        for number, line in enumerate(map(json.loads, file)):
            board, chances = position(submission, line, line["step"]), dice(number, line["step"])
            root, = submission.nodes([board], views)
            for batch in range(0, 48, 8):
                submission.simulate(views, root, map(chances, range(batch, batch + 8)))
            visits = [root.visits[4 * snake:4 * snake + 4] for snake in range(6)]
            assert not any(root.under_way)
            grown, same = grown + 1, same + (visits == line["visits"])
            if visits == line["visits"]:
                moves = [submission.most_visited(root, snake) for snake in range(6)]
                assert [moves[:3], moves[3:]] == line["moves"], number
    # If two moves are nearly equal, the last bits of the network's products decide.
    assert grown == 600 and same > 588


def test_a_finished_game_is_worth_what_was_gained(submission):
    views, board = submission.views_of(10, 20), boards(submission)[40]
    board.step = 200
    root, = submission.nodes([board], views)
    submission.simulate(views, root, [itertools.repeat(submission.Chance())] * 20)
    assert root.all_visits == 21 and root.children == {} and root.value != 0
    for gained in (3 * total for total in root.totals):
        assert gained == pytest.approx(round(gained), abs=1e-9), "beans and lost cells alone"


def test_its_chances_cannot_be_predicted(folder):
    drawn = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        chance = load_submission(folder).Chance()
        drawn.append([chance.bean(0, range(10 ** 9)) for _ in range(40)])
    assert len(set(sum(drawn, []))) == 80


def test_it_searches_once_a_step_and_team_and_plays_recorded_games_without_a_word(submission, bare, capfd):
    searched, search, platform, randomness = [], submission.searched, Platform(), random.getstate()
    submission.time = Clock(0)  # however busy this machine is
    submission.searched = lambda board: searched.append(board) or search(board)
    changed = 0
    for number, record in enumerate(RECORDED[:24], 1):
        observations = shown(record, platform)
        moves = [answer(submission, observation) for observation in observations]
        assert len(searched) == 2 * number
        own = [answer(bare, observation) for observation in observations]
        for first in (0, 3):
            board = searched[-2 + (first == 3)]
            assert moves[first:first + 3] == board.moves and board.first == first
            assert all(move in board.open_moves(i) for i, move in enumerate(board.moves))
        changed += moves != own
        assert submission.chances(observations[0], 4) == submission.certain(moves[4])
    assert 8 < changed < 24 and random.getstate() == randomness
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("features,obs", [(26, "26"), (30, "30"), (277, "window"), (309, "ahead")])
def test_q_networks_of_other_features_search_too(features, obs, tmp_path, capfd):
    actor = save_in_run(tmp_path / "run", q_network(features), obs=obs)
    submission = load_submission(export(actor, "submission", tmp_path / "out"))
    views = submission.views_of(10, 20)
    some = boards(submission, 97)
    values = [value_of(submission, views, board) for board in some]
    assert [node.value for node in submission.nodes(some, views)] == pytest.approx(values, abs=1e-5) and np.std(values) > 0
    platform, changed = Platform(), 0
    for record in RECORDED[:8]:
        for snake, observation in enumerate(shown(record, platform)):
            move, board = answer(submission, observation), submission.RECENT[0].board(snake - snake % 3)
            changed += move != submission.bare_moves(board)[snake % 3]
    assert changed > 0 and capfd.readouterr() == ("", "")


def test_the_meaning_of_values_follows_from_the_training(tmp_path):
    models = tmp_path / "trained_model"
    models.mkdir()
    torch.save(q_network(277), models / "actor_1.pth")

    def exported(**settings):
        (tmp_path / "config.json").write_text(json.dumps(settings))
        done = call("export", "--actor", models / "actor_1.pth", "--format", "submission", "--output", tmp_path / "out")
        assert done.returncode == 0
        submission = load_submission(tmp_path / "out")
        return submission.LOOKS, submission.DISCOUNT, submission.POINT, done.stderr

    assert exported() == (True, 0.99, 1.5, "")
    assert exported(rival_reward=0.25, gamma=0.9, reward_scale=2, reward="score") == (True, 0.9, 2.5, "")
    looks, _, _, reported = exported(reward="2021")
    assert not looks and "plays the network's own moves" in reported and "--reward 2021" in reported


# When it fails


def plays_bare(submission, bare, records=RECORDED[:12]):
    platform, both = Platform(), Platform()
    for record in records:
        for one, other in zip(shown(record, platform), shown(record, both)):
            assert answer(submission, one) == answer(bare, other)


class Clock:
    """A clock that advances by `tick` seconds with each reading."""

    def __init__(self, tick):
        self.now, self.tick = 0, tick

    def perf_counter(self):
        self.now += self.tick
        return self.now


def test_when_time_is_up_it_plays_the_network_s_own_moves(submission, bare, capfd):
    submission.time = Clock(1)
    plays_bare(submission, bare)
    assert capfd.readouterr().err.splitlines() == [
        "submission.py: no time for a search in this step, moved without it: the machine is busy",
        "submission.py: no time for 10 of 10 searches, moved without them: the machine is busy"]
    assert submission.SEARCHES == {True: 0, False: 24} and submission.REPORTED == set()
    submission.time, submission.SIMULATIONS = Clock(0), 32
    answer(submission, shown(RECORDED[40], Platform())[0])
    assert submission.SEARCHES == {True: 1, False: 24} and capfd.readouterr().err == ""


@pytest.mark.parametrize("root, batch, searches", [(0.1, 0.06, True), (0.12, 0.12, True), (0.13, 0.06, False), (0.1, 0.13, False)])
def test_one_batch_is_made_while_less_than_half_of_the_time_is_gone(root, batch, searches, submission):
    """Unless the last search's batches show that it takes longer."""
    machine, done = Machine(), []
    takes = [0.004, batch, root, batch]
    submission.time, submission.SIMULATIONS = machine, 32
    submission.nodes = machine.slows(submission.nodes, lambda call, boards: takes[call])
    submission.count_search = done.append
    for record in RECORDED[40:42]:
        submission.team_moves(submission.board_of(shown(record, Platform())[0], 0))
    assert done == [True, searches]


@pytest.mark.parametrize("tick,batches", [(0, 32), (0.015, 4), (0.025, 1)])
def test_it_simulates_less_where_time_is_short(tick, batches, submission, capfd):
    sizes = []
    simulate = submission.simulate
    submission.simulate = lambda *given: sizes.append(len(given[2])) or simulate(*given)
    submission.time = Clock(tick)
    answer(submission, shown(RECORDED[40], Platform())[0])
    assert sizes == [32] * batches and submission.REPORTED == set()
    assert capfd.readouterr().err == ""


class Machine:
    """A clock of processor time that `slows` makes run faster: its own numpy is as slow as wanted."""

    def __init__(self):
        self.now = 0

    def perf_counter(self):
        return self.now

    def slows(self, function, seconds):
        """seconds(number of the call, boards): what a call takes."""
        calls = itertools.count()

        def slow(positions, *more):
            self.now += seconds(next(calls), len(positions))
            return function(positions, *more)
        return slow


SLOW = {"all slow": lambda call, boards: 0.002 * boards, "very slow": lambda call, boards: 0.0035 * boards,
        "slower and slower": lambda call, boards: 0.002 + 0.004 * call, "one slow batch": lambda call, boards: 0.15 if call == 9 else 0.005,
        "a slow start": lambda call, boards: 0.2 if call == 0 else 0.005, "held up late": lambda call, boards: 0.045 if call == 22 else 0.005}


@pytest.mark.parametrize("what", SLOW)
def test_a_move_takes_at_most_300_ms_on_a_slow_or_busy_machine_and_uses_what_was_simulated(what, submission, capfd):
    machine, roots = Machine(), []
    submission.time, submission.nodes = machine, machine.slows(submission.nodes, SLOW[what])
    most_visited = submission.most_visited
    submission.most_visited = lambda root, snake: roots.append(root) or most_visited(root, snake)
    (board,) = [submission.board_of(shown(RECORDED[40], Platform())[0], 0)]
    moves = submission.team_moves(board)
    assert machine.now <= 0.3, what
    if what == "a slow start":
        assert "no time for a search" in capfd.readouterr().err and moves == submission.bare_moves(board)
    else:
        assert roots[0].all_visits > 32 and sum(roots[0].visits[:4]) == roots[0].all_visits - 1
        assert moves == [most_visited(roots[0], i) for i in range(3)] and capfd.readouterr().err == ""


def test_where_only_the_root_is_held_up_it_searches_as_long_as_earlier_batches_would_fit(submission):
    machine, roots = Machine(), []
    slow = [0.005] * 33 + [0.098] + [0.005] * 32
    submission.time, submission.nodes = machine, machine.slows(submission.nodes, lambda call, boards: slow[call])
    most_visited = submission.most_visited
    submission.most_visited = lambda root, snake: roots.append(root) or most_visited(root, snake)
    for record in RECORDED[40:42]:
        began = machine.now
        submission.team_moves(submission.board_of(shown(record, Platform())[0], 0))
        assert machine.now - began <= 0.3
    assert [root.all_visits for root in roots[::3]] == [1025, 1 + 32 * 25]


def test_a_machine_that_becomes_slower_delays_one_move_alone(submission):
    machine, root_takes, visits, took = Machine(), [0.004, *[0.1] * 4, *[0.004] * 2], [], []
    submission.time = machine
    submission.nodes = machine.slows(submission.nodes, lambda call, boards: root_takes[len(took)] * (5 if boards > 1 else 1))
    submission.count_search = lambda had_time: had_time or visits.append(0)
    most_visited = submission.most_visited
    submission.most_visited = lambda root, snake: snake or visits.append(root.all_visits) or most_visited(root, snake)
    for record in RECORDED[40:47]:
        began = machine.now
        submission.team_moves(submission.board_of(shown(record, Platform())[0], 0))
        took.append(machine.now - began)
    assert [n for n, seconds in enumerate(took) if seconds > 0.3] == [1]
    assert visits[2:5] == [0] * 3 and min(visits[0], *visits[5:]) > 200


def test_a_clock_that_jumps_back_does_not_prolong_the_search(submission):
    ticks = itertools.count()
    submission.time = types.SimpleNamespace(perf_counter=lambda: 100 - next(ticks))
    board = submission.board_of(shown(RECORDED[40], Platform())[0], 0)
    sizes, simulate = [], submission.simulate
    submission.simulate = lambda *given: sizes.append(len(given[2])) or simulate(*given)
    submission.team_moves(board)
    assert sizes == [32] * 32


def test_a_search_that_fails_leaves_the_network_s_own_moves(submission, bare, capfd):
    def fails(positions, outlooks):
        raise MemoryError("of\nboards")

    views = submission.views_of(10, 20)
    views.features = fails
    plays_bare(submission, bare)
    reported, = capfd.readouterr().err.splitlines()
    assert reported.startswith("submission.py: the search failed: the moves are the network's own: MemoryError: of (")


def test_without_numpy_it_does_not_search(folder, bare, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "numpy", None)
    submission = load_submission(folder)
    monkeypatch.undo()
    reported, = capfd.readouterr().err.splitlines()
    assert reported.startswith("submission.py: cannot look ahead: the moves are the network's own"), reported
    plays_bare(submission, bare)
    assert not submission.LOOKS and capfd.readouterr().err == ""
