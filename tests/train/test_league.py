"""A league: its members, how they are judged, and that all ranks have the same one."""

import json
import re
import shutil

import pytest
import torch

from processes import BINARY, SOURCE, TINY, call, fingerprint, flags, run_folder, starter, torchrun

LEAGUE = TINY | {"algo": "dqn", "obs": "ahead", "mask_fatal": True, "opponent_mix": "level0:0.2,level2:0.2,league:0.6",
                 "num_envs": 4, "updates_per_step": 0.25, "episode_length": 50, "league_interval": 4, "league_games": 120,
                 "league_win_rate": 0, "max_episodes": 48, "check_consistency": 20, "threads": 1}
LINE = re.compile(r"\[League at episode (\d+)\] Elo (-?\d+) \[(-?\d+), (-?\d+)\] above level0, won ([\d.]+) % of (\d+) games: "
                  r"(.*?)(?:; a copy joined as #(\d+))?$", re.MULTILINE)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """The output of two ranks under torchrun, and the run's folder."""
    folder = tmp_path_factory.mktemp("league")
    with starter(folder) as begin:
        process = torchrun(begin, 2, BINARY, *flags(LEAGUE | {"runs_dir": folder}))
        assert process.wait() == 0, process.text()
        return process.text(), run_folder(process.text())


def members(line):
    return [part.split(" ")[0] for part in line.split(", ")]


def test_copies_enter_until_the_places_are_taken_then_the_easiest_goes(output):
    judgements = LINE.findall(output[0])
    assert len(judgements) >= 10
    expected = ["level0", "level2"]
    for episode, elo, low, high, won, games, against, entered in judgements:
        assert members(against) == expected
        assert int(low) <= int(elo) <= int(high)
        assert int(games) == -(-120 // len(expected)) * len(expected)  # rounded up to the same number for each
        assert entered == episode
        if len(expected) == 10:
            rates = {part.split(" ")[0]: float(part.split(" ")[1]) for part in against.split(", ")}
            frozen = expected[2:]
            easiest = [name for name in frozen if rates[name] == max(rates[n] for n in frozen)]
            following = LINE.findall(output[0])
            after = [members(j[6]) for j in following if int(j[0]) > int(episode)]
            if not after:
                break
            gone = [name for name in frozen if name not in after[0]]
            # Points decide, half of a draw being one: among equal win rates either may go.
            assert len(gone) == 1 and (gone[0] in easiest or rates[gone[0]] >= max(rates[n] for n in frozen) - 20)
            expected = after[0]
        else:
            expected = [*expected, f"#{episode}"]
    assert len(expected) == 10


def test_ranks_have_one_league_and_equal_weights(output):
    prints = fingerprint(output[0])  # check_consistency compared weights on the way
    assert sorted(prints["ranks"]) == [0, 1]


def test_the_rating_is_a_curve(output):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    curves = EventAccumulator(str(output[1]))
    curves.Reload()
    judgements = LINE.findall(output[0])
    assert [(e.step, round(e.value)) for e in curves.Scalars("league/elo")] == [(int(j[0]), int(j[1])) for j in judgements]
    assert curves.Scalars("league/members")[-1].value == 10


def test_a_learner_that_does_not_win_enough_does_not_enter(tmp_path):
    done = call(*flags(LEAGUE | {"league_win_rate": 1, "max_episodes": 12, "runs_dir": tmp_path,
                                 "opponent_mix": "territory:0.5,league:0.5"}))
    assert done.returncode == 0, done.stderr
    assert "[League at episode" in done.stdout and "a copy joined" not in done.stdout


def test_a_network_from_a_file_is_a_member_also_after_a_second_start(tmp_path):
    exploiter = SOURCE / "models" / "champion.pth"
    settings = LEAGUE | {"opponent_mix": f"level0:0.2,league:0.7,file:{exploiter}:0.1", "league_win_rate": 1, "max_episodes": 12,
                         "checkpoint_interval": 4, "runs_dir": tmp_path}
    first = call(*flags(settings))
    assert first.returncode == 0, first.stderr
    again = call(*flags(settings | {"max_episodes": 20}), "--resume", run_folder(first.stdout))
    assert again.returncode == 0, again.stderr
    for output in first.stdout, again.stdout:
        judgements = LINE.findall(output)
        assert judgements and all(members(judgement[6]) == ["level0", f"file:{exploiter}"] for judgement in judgements)


def test_a_run_continues_without_its_league(tmp_path):
    settings = LEAGUE | {"opponent_mix": "self:0.2,league:0.8", "max_episodes": 20, "checkpoint_interval": 4, "runs_dir": tmp_path}
    first = call(*flags(settings))
    assert first.returncode == 0 and "a copy joined" in first.stdout, first.stdout + first.stderr
    again = call(*flags(settings | {"opponent_mix": "self", "max_episodes": 24}), "--resume", run_folder(first.stdout))
    assert again.returncode == 0, again.stderr
    assert "--opponent_mix" in again.stdout and "[League" not in again.stdout


def test_other_intervals_judge_no_episode_twice_and_the_checkpoint_holds_the_league(tmp_path):
    # With so many updates there is a vote at each step: after a checkpoint the next one comes before the next episode.
    settings = LEAGUE | {"runs_dir": tmp_path, "max_episodes": 12, "checkpoint_interval": 4, "keep_checkpoints": 9,
                         "updates_per_step": 5}
    first = call(*flags(settings))
    assert first.returncode == 0, first.stderr
    run = run_folder(first.stdout)
    entered = [int(judgement[7]) for judgement in LINE.findall(first.stdout)]

    def checkpoints():
        return sorted((json.loads((path / "manifest.json").read_text())["episode"], path)
                      for path in (run / "checkpoints").glob("step_*"))

    def league(path):
        return {name: tensor for name, tensor in torch.load(path / "shared.pth", weights_only=True).items()
                if name.startswith("league.")}

    # The newest checkpoint is of an episode whose copy is a member.
    while checkpoints()[-1][0] not in entered:
        shutil.rmtree(checkpoints()[-1][1])
    episode, newest = checkpoints()[-1]
    before = league(newest)
    assert len(before["league.met"]) > 0 and episode in before["league.episodes"].tolist()
    shutil.copytree(run, tmp_path / "copy" / run.name)

    sooner = call(*flags(settings | {"league_interval": 1, "max_episodes": episode + 8}), "--resume", run)
    assert sooner.returncode == 0, sooner.stdout + sooner.stderr
    judged = [int(judgement[0]) for judgement in LINE.findall(sooner.stdout)]
    assert judged and judged == sorted(set(judged)) and judged[0] > episode, sooner.stdout

    run = tmp_path / "copy" / run.name
    later = call(*flags(settings | {"league_interval": 10**6, "max_episodes": episode + 4}), "--resume", run)
    assert later.returncode == 0 and "[League" not in later.stdout, later.stdout + later.stderr
    assert checkpoints()[-1][0] > episode
    after = league(checkpoints()[-1][1])
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_an_actor_s_league_and_the_preset(tmp_path):
    done = call(*flags(TINY | {"opponent_mix": "self,league", "league_interval": 4, "league_games": 100, "league_win_rate": 0,
                               "max_episodes": 16, "runs_dir": tmp_path, "mask_fatal": True}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a copy joined") >= 3
    assert call("train", "--config", SOURCE / "configs" / "champion.json", "--check_settings").returncode == 0
