"""Exported submissions on the platform's own observations: tests/data/platform_observations.jsonl.gz. They play only the
network; test_search_submission.py has those that search."""

import copy
import gc
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from exports import (BOARDS, DIRECTIONS, RECORDED, UPSTREAM, Platform, coordinates, export, load_submission, network, q_network,
                     save_in_run, shown, words)
from processes import BUILD, SOURCE

PROBE = BUILD / "tests" / "app" / "app_probe"
CHAMPION = SOURCE / "models" / "champion.pth"

# name: weights (or a file), last layer, what is added to the SPEC, further flags
KINDS = {
    "ddpg-26": (UPSTREAM, "softmax", ":softmax:argmax", []),
    "ddpg-26-mask": (network(26, 64, seed=2), "softmax", ":argmax", ["--mask_fatal"]),
    "ddpg-26-sampled": (network(26, 64), "softmax", "", []),
    "ddpg-30-tanh": (network(30, 64), "tanh", ":argmax", []),
    "ddpg-30-tanh-mask": (network(30, 64, seed=2), "tanh", ":argmax", ["--mask_fatal"]),
    "ddpg-30-sampled-mask": (network(30, 64, seed=3), "softmax", "", ["--mask_fatal"]),
    "bicnet-26": (network(26, 32, kind="bicnet"), "softmax", ":argmax", []),
    "bicnet-30-mask": (network(30, 32, kind="bicnet"), "softmax", ":argmax", ["--mask_fatal"]),
    "bicnet-30-tanh-sampled": (network(30, 32, kind="bicnet"), "tanh", "", []),
    "dqn-26": (q_network(26), None, "", ["--bare"]),
    "dqn-30": (q_network(30, norm=False), None, "", ["--bare"]),
    "dqn-window": (q_network(277), None, "", ["--bare"]),
    "dqn-view": (q_network(309, norm=False), None, "", ["--bare"]),
    "champion": (CHAMPION, None, "", ["--bare"]),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """By kind the SPEC, and what the engine plays on the recorded boards with their true directions; `open`: which moves
    are not fatal."""
    folder = tmp_path_factory.mktemp("engine")
    with open(folder / "boards.jsonl", "w") as file:
        for record in RECORDED:
            cells = {int(key): [row * 20 + column for row, column in cells]
                     for key, cells in record["observation"].items() if key.isdigit()}
            json.dump({"snakes": [cells[key] for key in range(2, 8)], "beans": cells[1], "step": record["step"] + 1,
                       "directions": [DIRECTIONS.index(word) for word in record["directions"]]}, file)
            file.write("\n")
    specs = {}
    for kind, (weights, head, ending, _) in KINDS.items():
        if isinstance(weights, dict):
            weights = save_in_run(folder / kind, weights, head or "softmax", "view" if kind == "dqn-view" else "30")
        specs[kind] = str(weights) + ending
    asked = [spec + ("+mask_fatal" if "--mask_fatal" in KINDS[kind][3] else "") for kind, spec in specs.items()]
    subprocess.run([PROBE, folder / "boards.jsonl", folder / "moves.pth", *asked], check=True, timeout=300)
    played = torch.load(folder / "moves.pth", weights_only=True)
    answers = {kind: (specs[kind], played[f"answers{k}"].tolist(), played[f"moves{k}"].tolist()) for k, kind in enumerate(KINDS)}
    return answers | {"open": [[[d for d in range(4) if bits >> d & 1] for bits in row] for row in played["open"].tolist()]}


def test_every_kind_plays_what_the_platform_shows_as_the_engine_does(engine, tmp_path, capfd):
    teams = {kind: load_submission(export(engine[kind][0], "submission", tmp_path / kind, *KINDS[kind][3])) for kind in KINDS}
    platform, played, ties, randomness = Platform(), {kind: set() for kind in KINDS}, 0, random.getstate()
    for at, record in enumerate(RECORDED[:400]):
        observations = shown(record, platform)
        kept = copy.deepcopy(observations)
        for kind, submission in teams.items():
            _, answers, moves = engine[kind]
            masks = "--mask_fatal" in KINDS[kind][3] or KINDS[kind][1] is None
            for snake, observation in enumerate(observations):  # one program plays both sides
                where = (kind, record["game"], record["step"], snake)
                (one_hot,) = submission.my_controller(observation, None, False)
                assert sorted(one_hot) == [0, 0, 0, 1], where
                move = one_hot.index(1)
                played[kind].add(move)
                may = engine["open"][at][snake] if masks else range(4)
                assert move in may, where
                reported = answers[at][snake]
                if "sampled" not in kind:
                    # Two moves that are worth the same up to rounding may change places.
                    ties += move != moves[at][snake]
                    assert move == moves[at][snake] or reported[moves[at][snake]] - reported[move] < 1e-6, where
                else:
                    weights = [max(reported[d], 0) if d in may else 0 for d in range(4)]
                    expected = [w / sum(weights) for w in weights] if sum(weights) > 0 else [(d in may) / len(may) for d in range(4)]
                    chances = submission.chances(observation, snake)
                    assert max(abs(a - b) for a, b in zip(chances, expected)) < 2e-5 and chances[move] > 0, where
            assert words(submission.RECENT[0].directions) == record["directions"], where
            assert submission.RECENT[0].step == record["step"] + 1, where
        assert observations == kept and type(observations[0][1][0][0]) is np.int64, "what is the platform's"
    assert ties < 5 and all(len(moves) > 2 for moves in played.values())
    assert random.getstate() == randomness, "the platform's own draws"
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A submission of the window's Q-network."""
    models = tmp_path_factory.mktemp("submission")
    torch.save(q_network(277), models / "actor_7.pth")
    return export(models / "actor_7.pth", "submission", models / "out", "--bare")


@pytest.fixture
def submission(folder):
    return load_submission(folder)


def test_directions_and_steps_are_the_true_ones_in_other_recorded_games(submission):
    platform, wrong, seen = Platform(), [], 0
    for number, game in enumerate(BOARDS):
        reported = None
        for step, board in enumerate(game[:-1]):  # no move is requested when the game is over
            platform.show(coordinates(board["beans"]), map(coordinates, board["snakes"]), reported)
            submission.board_of(platform.observation(step % 6), step % 6)
            pairs = list(zip(submission.RECENT[0].directions, board["directions"]))
            seen += len(pairs)
            wrong += [(number, step, snake) for snake, (found, true) in enumerate(pairs) if found != true]
            assert submission.RECENT[0].step == step + 1
            reported = words(board["directions"])
    # One respawned on exactly the cells, across the border, where a move would have led to: no board shows the
    # difference.
    assert len(wrong) == 1 and seen > 40000, wrong


def test_a_body_that_came_back_keeps_the_rule_s_direction_until_it_moves(submission):
    platform = Platform()

    def direction(body, step, reported=None):
        """Of snake 0, whose moves back are masked; the others go down."""
        others = [[((step - k) % 10, column) for k in range(3)] for column in (3, 6, 9, 12, 15)]
        platform.show([(2, 2)], [body, *others], reported and [reported] * 6)
        board = submission.board_of(platform.observation(0), 0)
        now = board.directions[0]
        assert submission.BACK[now] not in board.open_moves(0)
        assert submission.features_window(board, 0)[270:274] == [float(now == d) for d in range(4)]
        return now

    across = [(9, 0), (0, 0), (0, 19)]  # looks down by the rule; on the torus a move up leads from neck to head
    assert direction([(7, 1), (7, 2), (7, 3)], 5) == submission.LEFT
    assert direction(across, 6) == submission.DOWN
    assert direction(across, 6) == submission.DOWN
    assert direction([(9, 19), (9, 0), (0, 0)], 7) == submission.LEFT
    assert direction([(0, 0), (0, 19), (0, 18)], 0) == submission.RIGHT
    assert direction(across, 1) == submission.UP, "the same cells, but it moved there"
    for body, now in (([(0, 19), (0, 0), (0, 18)], submission.RIGHT), ([(8, 4), (8, 5), (8, 3)], submission.LEFT),
                      ([(9, 5), (0, 5), (8, 5)], submission.DOWN)):
        submission.RECENT.clear()
        assert direction(body, 5) == now, "the head is in the middle: it came back, whatever was before"
    for reported, now in (("right", submission.UP), ("left", submission.DOWN), (None, submission.UP)):
        submission.RECENT.clear()
        assert direction(across, 6, reported) == now, "the first board that is shown is one of the middle of a game"


def test_a_new_game_begins_where_the_board_says_so(submission):
    platform, steps = Platform(), []
    half = [record for record in RECORDED if record["game"] == 0][:50]
    whole = [record for record in RECORDED if record["game"] == 1]
    middle = [record for record in RECORDED if record["game"] == 2][20:23]
    for record in [*half, *half[:1], *whole, *middle, *half, *half[:3]]:  # broken off; over; from its middle; with the same start again
        submission.my_controller(shown(record, platform)[4], None)
        steps.append(submission.RECENT[0].step)
    assert steps == [*range(1, 51), 1, *range(1, 201), 1, 2, 3, *range(1, 51), 1, 2, 3]


def test_games_may_be_played_by_turns(folder):
    games = [[record for record in RECORDED if record["game"] == game] for game in (0, 1, 2)]
    shows = [[copy.deepcopy(shown(record, platform)) for record in records] for records, platform in zip(games, (Platform(), Platform(), Platform()))]
    alone = []
    for observations in shows:
        submission = load_submission(folder)
        alone.append([[submission.my_controller(each, None) for each in step] for step in observations])
    submission, turns = load_submission(folder), random.Random(1)
    played, order = [[], [], []], [game for game in range(3) for _ in games[game]]
    turns.shuffle(order)
    for game in order:
        at = len(played[game])
        played[game].append([submission.my_controller(each, None) for each in shows[game][at]])
        assert submission.RECENT[0].step == at + 1 and words(submission.RECENT[0].directions) == games[game][at]["directions"], (game, at)
    assert played == alone


def test_steps_go_on_where_all_snakes_circle(submission):
    platform, steps = Platform(), []
    for step in range(12):
        circles = [[((0, 0), (0, 1), (1, 1), (1, 0))[(step - k) % 4] for k in range(3)] for _ in range(6)]
        platform.show([(9, 19)], [[(row, column + 3 * i) for row, column in circle] for i, circle in enumerate(circles)], None)
        submission.my_controller(platform.observation(step % 6), None)
        steps.append(submission.RECENT[0].step)
    assert steps == [*range(1, 13)]


def test_a_team_s_three_calls_on_a_board_share_the_work(submission):
    asked, answer, platform = [], submission.ACTOR.answer, Platform()
    submission.ACTOR.answer = lambda rows: asked.append(len(rows)) or answer(rows)
    for record in RECORDED[:10]:
        for observation in shown(record, platform):
            submission.my_controller(observation, None)
    assert asked == [3] * 2 * 10


def test_another_import_in_the_same_process_freezes_nothing_more(folder):
    load_submission(folder)
    frozen = gc.get_freeze_count()
    load_submission(folder)
    assert 0 < gc.get_freeze_count() <= frozen


def odd_observations():
    good = shown(RECORDED[30], Platform())[1]
    without = {key: {k: value for k, value in good.items() if k != key} for key in good}
    return {
        "an empty snake": good | {3: []}, "no snake at all": without[3], "all snakes empty": good | {k: [] for k in range(2, 8)},
        "no beans": good | {1: []}, "beans that are missing": without[1], "one bean": good | {1: good[1][:1]},
        "more keys": good | {"episode": 3, 9: [[1, 1]], None: 0}, "keys of text": {str(k): value for k, value in good.items()},
        "no direction": without["last_direction"], "other directions": good | {"last_direction": 5},
        "fewer directions": good | {"last_direction": ["up"]}, "odd directions": good | {"last_direction": [None, [], 3, "north", "", {}]},
        "no size": {k: value for k, value in good.items() if k not in ("board_width", "board_height")},
        "arrays": {k: np.array(value) if k in range(1, 8) else value for k, value in good.items()},
        "numbers of numpy's": good | {k: np.int64(good[k]) for k in ("board_width", "board_height", "controlled_snake_index")},
    }


def broken_observations():
    good = shown(RECORDED[30], Platform())[1]
    return {
        "no board": None, "empty": {}, "nobody's": good | {"controlled_snake_index": None}, "a word for a snake": good | {3: "snake"},
        "half a cell": good | {3: [[4]]}, "no number": good | {1: [["a", "b"]]}, "too small": good | {"board_width": 0},
        "a snake outside": good | {3: [[40, 50], [41, 50], [42, 50]]}, "torn apart": good | {4: [[1, 1], [5, 5], [9, 9], [0, 3]]},
    }


def test_whatever_the_platform_shows_the_answer_is_a_legal_move(folder, tmp_path, capfd):
    torch.save(network(30, 16), tmp_path / "actor_1.pth")
    programs = [folder, export(f"{tmp_path}/actor_1.pth:softmax", "submission", tmp_path / "out", "--mask_fatal"),
                export(CHAMPION, "submission", tmp_path / "searching")]
    for program in programs:
        submission = load_submission(program)
        for _ in range(2):
            for what, observation in odd_observations().items():
                assert sorted(submission.my_controller(observation, None)[0]) == [0, 0, 0, 1], what
                assert submission.REPORTED == set(), what
        assert capfd.readouterr().err == ""
        for _ in range(2):
            for what, observation in broken_observations().items():
                assert sorted(submission.my_controller(observation, None)[0]) == [0, 0, 0, 1], what
        reported = capfd.readouterr().err.splitlines()
        assert len(reported) == len(submission.REPORTED) > 1 and all(line.startswith("submission.py: ") for line in reported)
        assert any("cannot read the platform's observation" in line and "TypeError" in line for line in reported), reported
        # It continues as if nothing had happened.
        observation = shown(RECORDED[31], Platform())[1]
        assert submission.my_controller(observation, None) and submission.RECENT[0].snakes[1] == [tuple(c) for c in observation[3]]


def test_a_network_that_fails_in_a_game_does_not_end_it(submission, engine, capfd):
    def fails(rows):
        raise RuntimeError("out of\nmemory")

    submission.ACTOR.answer, platform = fails, Platform()
    for at, record in enumerate(RECORDED[:200]):
        for snake, observation in enumerate(shown(record, platform)):
            assert submission.my_controller(observation, None)[0].index(1) in engine["open"][at][snake]
    reported, = capfd.readouterr().err.splitlines()
    assert "the network failed" in reported and "RuntimeError: out of (" in reported


def cut_off(path):
    path.write_bytes(path.read_bytes()[:3000])


BROKEN_FILES = {"missing": os.remove, "cut off": cut_off, "empty": lambda path: path.write_bytes(b""),
                "text": lambda path: path.write_text("no weights\n"),
                "a critic": lambda path: torch.save(network(30, 16) | {"post_dense.2.weight": torch.zeros(1, 16),
                                                                       "post_dense.2.bias": torch.zeros(1)}, path),
                "a layer missing": lambda path: torch.save({k: v for k, v in q_network(277).items() if "2" not in k}, path)}


@pytest.mark.parametrize("what", BROKEN_FILES)
def test_without_its_network_a_submission_says_so_once_and_plays_on(what, folder, engine, tmp_path, capfd):
    for name in ("actor_7.pth", "submission.py"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    BROKEN_FILES[what](tmp_path / "actor_7.pth")
    submission = load_submission(tmp_path)
    reported, = capfd.readouterr().err.splitlines()
    assert reported.startswith("submission.py: no network in actor_7.pth"), reported
    platform = Platform()
    for at, record in enumerate(RECORDED[:60]):
        for snake, observation in enumerate(shown(record, platform)):
            (one_hot,) = submission.my_controller(observation, None)
            assert one_hot.index(1) in engine["open"][at][snake] and sorted(one_hot) == [0, 0, 0, 1]
    assert capfd.readouterr().err == ""


def test_a_closed_stderr_hides_the_message_and_nothing_else(folder, tmp_path):
    (tmp_path / "submission.py").write_bytes((folder / "submission.py").read_bytes())  # without the actor
    program = f"""if True:
        import contextlib, os, sys
        sys.path.insert(0, {str(tmp_path)!r})
        def answers():
            sys.modules.pop("submission", None)
            import submission
            return submission.my_controller(None, None), submission.my_controller({{}}, None), len(submission.REPORTED)
        import torch
        os.close(2)
        print(answers())
        with contextlib.suppress(OSError):  # its descriptor is closed already
            sys.stderr.close()
        print(answers())
        sys.stderr = None
        print(answers())"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90)
    assert done.stdout == "([[1, 0, 0, 0]], [[1, 0, 0, 0]], 3)\n" * 3 and done.returncode == 0, done


def test_the_repository_s_evaluation_asks_two_functions_of_its_own(submission, tmp_path):
    # As evaluation_local.py does: of snake 0's observation, for either side.
    torch.save(network(26, 16), tmp_path / "actor_1.pth")
    sampling = load_submission(export(f"{tmp_path}/actor_1.pth:softmax", "submission", tmp_path / "out"))
    platform = Platform()
    for record in RECORDED[:20]:
        seen = shown(record, platform)
        for team in ([0, 1, 2], [3, 4, 5]):
            certain = submission.agent.choose_action(submission.get_observations(seen[0], team, obs_dim=26, height=10, width=20))
            assert certain == [submission.my_controller(seen[snake], None)[0] for snake in team]
            drawn = sampling.agent.choose_action(sampling.get_observations(seen[0], team, obs_dim=26, height=10, width=20))
            expected = [sampling.probabilities(seen[snake]) for snake in team]
            assert torch.distributions.Categorical(torch.Tensor(drawn)).probs.numpy() == pytest.approx(np.array(expected), abs=1e-6)
