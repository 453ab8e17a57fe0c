"""Teams that play by values of the caller's own."""

import pickle

import numpy as np
import pytest
import torch
from conftest import CHAMPION, VIEW_NET, random_actions

import snake_ddp
from snake_ddp import Boards, Team, networks, turned_moves

torch.set_num_threads(1)


def of_network(path):
    network = networks.load(path)

    @torch.no_grad()
    def values(observations, states):
        return network(torch.from_numpy(observations))

    return values


def ahead(observations, states):
    """Worth most: the first of a network's moves."""
    return np.broadcast_to(np.arange(4, 0, -1), (*observations.shape[:2], 4))


@pytest.mark.parametrize("path, obs", [(VIEW_NET, "view"), (CHAMPION, "ahead")])
def test_values_of_a_network_play_as_its_file(path, obs):
    batch = Boards(64, obs=obs, opponent="none")
    batch.reset(seed=1)
    values, same = of_network(path), []
    for _ in range(4):
        for search in (None, "look2", "puct8"):
            mine, file = Team.of_values(values, search, obs=obs), Team(path if search is None else f"{path}:{search}")
            both = [np.concatenate([team.moves_on(batch.states, side, 7) for side in (0, 1)], 1) for team in (mine, file)]
            same.append((both[0] == both[1]).mean())  # but for values that are nearly equal
        batch.step(both[1])
    assert min(same) > 0.97 and np.mean(same) > 0.99
    match, file = (snake_ddp.evaluate(team, "level2", games=40, seed=3) for team in (Team.of_values(values, "look1", obs=obs), Team(f"{path}:look1")))
    assert abs(match.wins - file.wins) < 5 and abs(match.score_a - file.score_a) < 2 and match.games == 40


def test_values_are_asked_for_boards_as_a_batch_shows_them(rng):
    batch = Boards(40, obs="ahead", opponent="none")
    batch.reset(seed=2)
    for _ in range(30):
        batch.step(random_actions(batch, rng))
    asked = []

    def values(observations, states):
        asked.append((observations, states))
        return ahead(observations, states)

    moves = Team.of_values(values).moves_on(batch.states, 1)
    [(observations, states)] = asked
    running = ~batch.states["is_done"].astype(bool)
    assert np.array_equal(observations, batch.observations[running]) and observations.flags.writeable
    assert states.dtype == snake_ddp.STATE and all(np.array_equal(states[name], batch.states[running][name]) for name in states.dtype.names)
    turned = turned_moves(batch.observations, "ahead")
    may = np.take_along_axis(batch.open_moves(), turned, -1)
    wanted = np.take_along_axis(turned, may.argmax(-1)[..., None], -1)[:, 3:, 0]
    assert np.array_equal(moves, wanted) and not np.array_equal(moves, turned[:, 3:, 0])


def test_each_observation_can_be_asked_for():
    batch = Boards(3, opponent="none")
    batch.reset(seed=2)
    for obs in ("26", "30", "window", "view", "ahead"):
        team = Team.of_values(lambda seen, states: seen[..., :4], obs=obs)
        assert team.obs == obs and team.moves_on(batch.states).shape == (3, 3)
    assert repr(team) == "Team('values')" and Team.of_values(ahead, "look4").spec == "values:look4"


def test_a_search_plays_again_what_it_played():
    results = [snake_ddp.evaluate(Team.of_values(ahead, "puct8"), "level1", games=8, seed=seed) for seed in (1, 1, 2)]
    assert results[0].score_a == results[1].score_a != results[2].score_a


def test_as_an_opponent_of_a_batch_and_from_a_pickle():
    def rewards(team):
        batch = Boards(8, obs="none", opponent=team)
        batch.reset(seed=4)
        all_of_them = []
        for _ in range(40):
            batch.step(np.zeros((8, 3), np.uint8))
            all_of_them.append(batch.states["heads"].copy())
        return np.stack(all_of_them)

    for search in (None, "look1"):
        team = Team.of_values(ahead, search)
        again = pickle.loads(pickle.dumps(team))
        assert np.array_equal(rewards(team), rewards(again)) and again.obs == "ahead"
        assert not np.array_equal(rewards(team), rewards(Team("random")))


def test_what_values_throws_reaches_the_caller():
    class Own(Exception):
        pass

    def fails(observations, states):
        raise Own("no values today")

    batch = Boards(2, opponent=Team.of_values(fails))
    batch.reset(seed=1)
    for call in (lambda: snake_ddp.evaluate(Team.of_values(fails, "look4"), "level2", games=2), lambda: batch.step(np.zeros((2, 3), np.uint8))):
        with pytest.raises(Own, match="no values today"):
            call()


@pytest.mark.parametrize("values, error, text", [
    (lambda seen, states: np.zeros((1, 6, 4)), ValueError, r"values returned shape \(1, 6, 4\), not \(2, 6, 4\)"),
    (lambda seen, states: np.full((2, 6, 4), np.nan), ValueError, "values returned numbers that are not finite"),
    (lambda seen, states: "best", ValueError, "could not convert string to float"),
    (lambda seen: seen, TypeError, "1 positional argument but 2 were given"),
])  # fmt: skip
def test_wrong_values(values, error, text):
    with pytest.raises(error, match=text):
        snake_ddp.evaluate(Team.of_values(values), "level2", games=2)


@pytest.mark.parametrize("arguments, error, text", [
    ({"values": 3}, TypeError, "values is 3, not a function"),
    ({"search": "lookout"}, ValueError, '"lookout" is not a search; there are look<samples>'),
    ({"obs": "none"}, ValueError, 'obs is "none", not one of: 26, 30'),
    ({"gamma": 1.5}, ValueError, "gamma is 1.5, not 0 to 1"),
    ({"reward_scale": 0}, ValueError, "reward_scale is 0, not"),
    ({"rival_reward": float("nan")}, ValueError, "rival_reward is nan, not 0 to 10"),
])  # fmt: skip
def test_wrong_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        Team.of_values(**{"values": ahead, **arguments})


def test_it_sees_boards():
    with pytest.raises(ValueError, match="a team of values sees boards, not observations: use moves_on"):
        Team.of_values(ahead).moves(np.zeros((2, 3, 309), np.float32), np.ones((2, 3, 4), bool))


def test_values_of_a_tensor_that_learns_say_what_to_do():
    with pytest.raises(RuntimeError, match="detach"):
        snake_ddp.evaluate(Team.of_values(lambda seen, states: networks.load(CHAMPION)(torch.from_numpy(seen))), "level2", games=2)
