"""Pretraining from recorded games: the same for any number of ranks, across stops, and wrong data is reported."""

import io
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib

import pytest
import torch

from processes import (BINARY, BUILD, DATA, EPISODE, PATIENCE_S, SOURCE, STARTER, TINY, call, clean_environment, descendants, fingerprint,
                       flags, free_port, only_json, run_folder, starter)

SMALL = {"graph_dim": 8, "codebook_size": 16, "tokens_per_snake": 2, "code_dim": 4, "hidden_dim": 16, "num_encoder_layers": 1,
         "num_decoder_layers": 1, "num_heads": 2, "batch_size": 64, "epochs": 2, "threads": 1, "num_workers": 1}
# What only one stage reads, and other values than the defaults.
ONLY = {"tokenizer": {"graph_dim": 8, "codebook_size": 16, "tokens_per_snake": 2, "code_dim": 4, "commitment": 0.5, "revive_interval": 5},
        "mask_predictor": {"tokenizer": "a.pth", "mask_ratio": 0.4, "hidden_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 1,
                           "num_heads": 2}}


def small(stage, **more):
    """Settings of a stage; those in `more` that only the other one reads are left out."""
    others = {name for other, names in ONLY.items() if other != stage for name in names}
    return {name: value for name, value in (SMALL | more | {"stage": stage}).items() if name not in others}


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    """60 games in two sets, of two calls."""
    folder = tmp_path_factory.mktemp("games")
    for seed, team in ((1, "level2"), (2, "evasion")):
        done = call("eval", "--team_a", team, "--team_b", "level4", "--games", 30, "--seed", seed, "--record_boards",
                    folder / f"{team}.boards")
        assert done.returncode == 0, done.stderr
    return folder


def pretrain(stage, games, save_dir, ranks=1, **more):
    settings = small(stage, **{"data_path": games, "cache_dir": save_dir.parent / "cache", "save_dir": save_dir} | more)
    own = ["--ddp", "--world_size", str(ranks)] if ranks > 1 else []
    return call("pretrain", *flags(settings), *own)


def learned(stage, games, save_dir, **more):
    done = pretrain(stage, games, save_dir, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return epochs_of(stage, save_dir)


def epochs_of(stage, save_dir):
    return [json.loads(line) for line in (save_dir / f"{stage}.jsonl").read_text().splitlines()]


def weights(save_dir, stage, which="last"):
    file = torch.load(save_dir / f"{stage}_{which}.pth", weights_only=True)
    return {name: tensor for name, tensor in file.items() if name.startswith("model.")}


@pytest.fixture(scope="module")
def tokenizer(games, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer") / "run"
    return folder, learned("tokenizer", games, folder, revive_interval=5, epochs=3)


def test_the_tokenizer_learns_to_draw_what_it_saw_and_uses_its_codes(tokenizer):
    _, epochs = tokenizer
    assert [e["epoch"] for e in epochs] == [1, 2, 3]
    assert epochs[-1]["validation"]["reconstruction"] < 0.8 * epochs[0]["validation"]["reconstruction"]
    assert epochs[-1]["validation"]["codes_used"] > 0.5
    assert epochs[0]["revived"] > 0
    assert epochs[0]["validation"]["samples"] == 150  # 6 of 60 games, 25 boards each


def test_two_ranks_learn_what_one_does_with_twice_the_batch(tokenizer, games, tmp_path):
    folder, _ = tokenizer
    for stage, more in (("tokenizer", {"revive_interval": 5}), ("mask_predictor", {"tokenizer": folder / "tokenizer_best.pth"})):
        one = learned(stage, games, tmp_path / f"one_{stage}", batch_size=128, **more)
        two = learned(stage, games, tmp_path / f"two_{stage}", batch_size=64, ranks=2, **more)
        for a, b in zip(one, two, strict=True):
            assert a["updates"] == b["updates"]
            assert math.isclose(a["training_loss"], b["training_loss"], rel_tol=1e-5)
            assert math.isclose(a["validation"]["loss"], b["validation"]["loss"], rel_tol=1e-4)
        first, second = weights(tmp_path / f"one_{stage}", stage), weights(tmp_path / f"two_{stage}", stage)
        assert first.keys() == second.keys()
        for name, tensor in first.items():
            # A key's bias adds the same to all scores of a query, so its gradient, and Adam's step for it, is only
            # rounding.
            skipped = len(tensor) // 2 if name.endswith("key_value.bias") else 0
            assert torch.allclose(tensor[skipped:], second[name][skipped:], atol=2e-4), name


def test_validation_is_the_same_for_any_number_of_ranks(tokenizer, games, tmp_path):
    folder, _ = tokenizer
    # A batch that does not divide the 150 samples, and weights that stay.
    more = {"tokenizer": folder / "tokenizer_best.pth", "learning_rate": 0, "batch_size": 32, "epochs": 2}
    epochs = [learned("mask_predictor", games, tmp_path / str(ranks), ranks=ranks, **more) for ranks in (1, 2, 4)]
    reported = [first["validation"] for first, _ in epochs]
    assert reported[0]["samples"] == 150
    # Between epochs, too. But the training's masks differ, so with constant weights its loss differs.
    for first, second in epochs:
        assert second["validation"] == first["validation"]
        assert not math.isclose(second["training_loss"], first["training_loss"], rel_tol=1e-4)
    for other in reported[1:]:
        assert math.isclose(reported[0]["loss"], other["loss"], rel_tol=1e-6)
        assert {k: v for k, v in other.items() if k != "loss"} == {k: v for k, v in reported[0].items() if k != "loss"}


def test_the_mask_predictor_learns(tokenizer, games, tmp_path):
    folder, _ = tokenizer
    epochs = learned("mask_predictor", games, tmp_path / "run", tokenizer=folder / "tokenizer_best.pth", epochs=12,
                     view_radius=4, learning_rate=0.003, batch_size=32, hidden_dim=32)
    assert epochs[-1]["validation"]["loss"] < epochs[0]["validation"]["loss"]
    assert epochs[-1]["validation"]["accuracy"] > epochs[-1]["validation"]["majority"]
    assert epochs[0]["validation"]["tokens_asked"] > epochs[0]["validation"]["samples"]


def keep_the_middle_of_an_epoch(process, stage, save_dir, to):
    """Copies what a run that is killed within its second epoch would leave."""
    last = f"{stage}_last.pth"
    until = time.monotonic() + PATIENCE_S
    while True:
        assert process.popen.poll() is None and time.monotonic() < until, process.text()
        if (save_dir / last).exists():
            kept = (save_dir / last).read_bytes()
            epoch, position, *_ = torch.load(io.BytesIO(kept), weights_only=True)["place.counts"].tolist()
            if epoch == 1 and position > 0:
                break
        time.sleep(0.01)
    to.mkdir()
    (to / last).write_bytes(kept)
    shutil.copy(save_dir / f"{stage}.jsonl", to)


def check_same_epochs(some, others):
    for a, b in zip(some, others, strict=True):
        assert math.isclose(a.pop("training_loss"), b.pop("training_loss"), rel_tol=1e-9)
        del a["seconds"], b["seconds"]
        assert a == b


@pytest.mark.parametrize("stage", ["tokenizer", "mask_predictor"])
def test_a_stop_within_an_epoch_is_invisible(stage, tokenizer, games, tmp_path):
    folder, _ = tokenizer
    more = {"tokenizer": folder / "tokenizer_best.pth", "batch_size": 8, "revive_interval": 7, "save_interval": 20}
    settings = small(stage, **more, data_path=games, cache_dir=tmp_path / "cache", save_dir=tmp_path / "whole")
    with starter(tmp_path) as start:
        process = start([BINARY, "pretrain", *flags(settings)])
        keep_the_middle_of_an_epoch(process, stage, tmp_path / "whole", tmp_path / "killed")
        assert process.wait() == 0, process.text()
    whole = epochs_of(stage, tmp_path / "whole")
    check_same_epochs(learned(stage, games, tmp_path / "killed", **more), epochs_of(stage, tmp_path / "whole"))
    settings |= {"save_dir": tmp_path / "torn"}
    with starter(tmp_path) as start:
        process = start([BINARY, "pretrain", *flags(settings)])
        process.wait_for(r"\[Epoch 001\]")
        process.popen.send_signal(signal.SIGTERM)
        code = process.wait()
    assert code in (0, 75), process.text()  # 0: it was done before it looked
    if code == 75:
        assert "Stopped by a signal" in process.text()
        done = call("pretrain", *flags(settings))
        assert done.returncode == 0 and "Resumed from" in done.stdout, done.stdout + done.stderr
    torn = epochs_of(stage, tmp_path / "torn")
    check_same_epochs(torn, whole)


def stopped_in_its_validation(settings, save_dir, tmp_path, pause_s):
    """Whether a stop reached the first validation. All updates before it are saved one by one; the stop comes `pause_s` after
    the last but one."""
    with starter(tmp_path) as start:
        process = start([BINARY, "pretrain", *flags(settings | {"save_dir": save_dir})])
        last, until = save_dir / "tokenizer_last.pth", time.monotonic() + PATIENCE_S
        while not last.exists() or torch.load(last, weights_only=True)["place.counts"].tolist()[1] < 749:
            assert process.popen.poll() is None and time.monotonic() < until, process.text()
            time.sleep(0.01)
        time.sleep(pause_s)
        process.popen.send_signal(signal.SIGTERM)
        return process.wait() == 75 and "Stopped by a signal in epoch 1 after 750 updates" in process.text()


def test_a_stop_within_a_validation_is_noticed_and_invisible(games, tmp_path):
    settings = small("tokenizer") | {"data_path": games, "cache_dir": tmp_path / "cache", "epochs": 1, "batch_size": 1,
                        "validation_share": 0.5, "save_interval": 1}
    assert call("pretrain", *flags(settings | {"save_dir": tmp_path / "whole"})).returncode == 0
    # A validation takes some tenths of a second, or a few hundredths on a fast machine.
    torn = next((folder for pause_ms in range(0, 200, 10)
                 if stopped_in_its_validation(settings, folder := tmp_path / str(pause_ms), tmp_path, pause_ms / 1000)), None)
    assert torn, "twenty stops came too early or too late"
    assert not (torn / "tokenizer.jsonl").exists(), "the epoch is not done"
    assert call("pretrain", *flags(settings | {"save_dir": torn})).returncode == 0
    check_same_epochs(epochs_of("tokenizer", torn), epochs_of("tokenizer", tmp_path / "whole"))


def test_data_that_cannot_be_used_is_reported(games, tmp_path):
    def refusal(folder, code, **more):
        done = pretrain("tokenizer", folder, tmp_path / "run", **more)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    torn = tmp_path / "torn"
    shutil.copytree(games, torn)
    whole = (torn / "level2.boards").read_bytes()
    (torn / "level2.boards").write_bytes(whole[:-1000])
    assert "level2.boards: truncated" in refusal(torn, 4)
    (torn / "level2.boards").write_bytes(whole[:8] + b"\x07" + whole[9:])
    assert "level2.boards: a set of boards of version 7" in refusal(torn, 4)
    few = tmp_path / "few"
    few.mkdir()
    call("eval", "--team_a", "level1", "--team_b", "level1", "--games", 2, "--record_boards", few / "a.boards", "--board_interval",
         "200")
    assert "the data set has 2 games:" in refusal(few, 2)
    assert "3 ranks take " in refusal(few, 2, validation_share=0.5, ranks=3)
    assert "pretrain needs --data_path" in call("pretrain", "--stage", "tokenizer").stderr


@pytest.mark.parametrize("stage, other", [("tokenizer", "mask_predictor"), ("mask_predictor", "tokenizer")])
def test_what_only_the_other_stage_reads_is_refused(stage, other, tmp_path):
    def refusal(*line):
        done = call("pretrain", "--data_path", tmp_path, *line)
        assert done.returncode == 2 and done.stderr.endswith(": leave it out\n"), done.stderr
        return done.stderr

    (tmp_path / "a.json").write_text(json.dumps({"stage": stage} | ONLY[other]))
    for said in (refusal("--stage", stage, *flags(ONLY[other])), refusal("--config", tmp_path / "a.json")):
        for name, value in ONLY[other].items():
            assert f"--{name} {value} does not apply to --stage {stage}, only to {other}" in said
    assert call("pretrain", "--data_path", tmp_path, "--stage", stage, *flags(ONLY[stage]), "--check_settings").returncode == 0


def test_two_pretrainings_do_not_share_an_output(games, tmp_path):
    settings = small("tokenizer") | {"data_path": games, "cache_dir": tmp_path / "cache", "save_dir": tmp_path / "run",
                        "epochs": 10**6}
    with starter(tmp_path) as start:
        first = start([BINARY, "pretrain", *flags(settings)])
        first.wait_for(r"\[Epoch 001\]")
        second = pretrain("tokenizer", games, tmp_path / "run")
        assert second.returncode == 4 and "another process" in second.stderr and "another --save_dir" in second.stderr
        first.popen.terminate()
        assert first.wait() == 75, first.text()


@pytest.mark.parametrize("command", ["pretrain", "eval"])
def test_what_torchrun_stops_ends_as_stopped_and_is_not_started_again(command, games, tmp_path):
    settings = small("tokenizer") | {"data_path": games, "cache_dir": tmp_path / "cache", "save_dir": tmp_path / "run",
                        "epochs": 10**6}
    line = flags(settings) if command == "pretrain" else ["--team_a", "level2", "--team_b", "level2", "--games", "100000000"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with starter(tmp_path) as start:
        run = start([STARTER, "--become", sys.executable, SOURCE / "launch" / "torchrun.py", "--rdzv-backend=c10d",
                     "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", "--max-restarts=3", "--nproc_per_node=2", "--no-python",
                     BINARY, command, *line], TMPDIR=temporary)
        if command == "pretrain":
            run.wait_for(r"\[Epoch 001\]")
        else:
            until = time.monotonic() + PATIENCE_S
            while len(descendants(run.popen.pid)) < 2:
                assert run.popen.poll() is None and time.monotonic() < until, run.text()
                time.sleep(0.1)
            time.sleep(2)  # a stop before the games begin ends in the same way
        run.popen.terminate()
        assert run.wait() == 75, run.text()
    assert "stopped by SIGTERM" in run.text() and "not all ranks ended well" not in run.text()
    assert not list(temporary.iterdir()), "torchrun's own folder is removed, too"


def test_a_stage_continues_only_what_it_began(tokenizer, games, tmp_path):
    folder, _ = tokenizer
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    shutil.copy(folder / "tokenizer_best.pth", tmp_path / "first")
    other = torch.load(folder / "tokenizer_best.pth", weights_only=True)
    name = next(name for name, tensor in other.items() if tensor.is_floating_point())
    other[name] = other[name] + 0.5
    torch.save(other, tmp_path / "second" / "tokenizer_best.pth")
    started = {"tokenizer": tmp_path / "first" / "tokenizer_best.pth", "epochs": 1}
    learned("mask_predictor", games, tmp_path / "run", **started)
    for more in ({"tokenizer": tmp_path / "second" / "tokenizer_best.pth"}, {"seed": 99}, {"mask_ratio": 0.4}, {"validation_share": 0.3}):
        done = pretrain("mask_predictor", games, tmp_path / "run", **started | {"epochs": 2} | more)
        assert done.returncode == 2 and "does not match these settings" in done.stderr, (more, done.stdout, done.stderr)
    done = pretrain("mask_predictor", games, tmp_path / "run", **started | {"epochs": 2})
    assert done.returncode == 0 and "Resumed from" in done.stdout, done.stderr


def test_the_cache_is_not_taken_for_games(games, tmp_path):
    folder = tmp_path / "games"
    shutil.copytree(games, folder)
    done = pretrain("tokenizer", folder, tmp_path / "run", cache_dir=tmp_path / "games" / "." )
    assert done.returncode == 2 and "would be read as more games" in done.stderr, done.stderr


def test_traces_are_cached_once_and_a_damaged_cache_is_rebuilt(tmp_path):
    more = {"epochs": 1, "board_interval": 10}
    first = pretrain("tokenizer", DATA / "games.jsonl.gz", tmp_path / "run", **more)
    assert "Cached 1 file as " in first.stdout, first.stdout + first.stderr
    (cache,) = (tmp_path / "cache").iterdir()
    assert "Cached" not in pretrain("tokenizer", DATA / "games.jsonl.gz", tmp_path / "run", resume="never", **more).stdout
    cache.write_bytes(cache.read_bytes()[:-3])
    again = pretrain("tokenizer", DATA / "games.jsonl.gz", tmp_path / "run", resume="never", **more)
    assert "Rebuilt the cache" in again.stdout and again.returncode == 0


@pytest.fixture(scope="module")
def tokens(tokenizer, games, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens") / "both"
    folder.mkdir()
    shutil.copy(tokenizer[0] / "tokenizer_best.pth", folder)
    learned("mask_predictor", games, folder, epochs=1)
    return folder


def test_qmix_plays_with_predicted_tokens_of_what_it_does_not_see(tokens, tmp_path):
    run = TINY | {"algo": "qmix", "obs": "window", "view_radius": 4, "tokens": tokens, "max_episodes": 3, "eval_interval": 2,
                  "eval_games": 4, "runs_dir": tmp_path / "runs", "num_envs": 2, "updates_per_step": 0.1}
    done = call("train", "--ddp", "--world_size", 2, *flags(run))
    assert done.returncode == 0, done.stdout + done.stderr
    shared = torch.load(next(run_folder(done.stdout).glob("checkpoints/step_*/shared.pth")), weights_only=True)
    for stage in ("tokenizer", "mask_predictor"):
        kept = {name.removeprefix("model."): tensor for name, tensor in weights(tokens, stage, "best").items()}
        del kept["shape"]
        for name, tensor in kept.items():
            assert torch.equal(shared[f"learner.tokens.{stage}.{name}"], tensor), name
    actor = next((run_folder(done.stdout) / "trained_model").glob("actor_*.pth"))
    judged = only_json(call("eval", "--team_a", actor, "--team_b", "level1", "--games", 4, "--json").stdout)
    assert judged["games"] == 4
    refused = call("export", "--actor", actor, "--format", "submission", "--output", tmp_path / "submission")
    assert refused.returncode == 2 and "--tokens" in refused.stderr and not (tmp_path / "submission").exists()
    alone = shutil.copy(actor, tmp_path / "actor.pth")
    outside = call("eval", "--json", "--team_a", alone, "--team_b", "level1", "--games", 4)
    assert only_json(outside.stdout)["games"] == 4, "its record names the tokens"
    torch.save(torch.load(alone, weights_only=True), alone)  # the weights alone
    assert "config.json" in call("eval", "--team_a", alone, "--team_b", "level1").stderr
    for wrong, words in (({"obs": "30"}, "--obs window"), ({"view_radius": 0}, "limited view"), ({"view_radius": 2}, "at least 3"),
                         ({"algo": "ddpg"}, "not apply to --algo ddpg"), ({"opponent_mix": "league:1"}, "no league")):
        refused = call("train", "--check_settings", *flags(run | wrong))
        assert refused.returncode == 2 and words in refused.stderr, refused.stderr
    nowhere = call("train", *flags(run | {"tokens": tmp_path / "nowhere"}))
    assert nowhere.returncode == 4 and "nowhere/tokenizer_best.pth" in nowhere.stderr


# A resumed run has kept no tokens: what it reads anew, in other batches, must be the same.
def test_a_resumed_run_with_tokens_equals_one_that_was_never_stopped(tokens, tmp_path):
    settings = TINY | {"algo": "qmix", "n_step": 3, "obs": "window", "view_radius": 4, "tokens": tokens, "max_episodes": 10**9,
                       "buffer_size": 600, "opponent_mix": "level2:0.5,self:0.5", "updates_per_step": 0.25}
    with starter(tmp_path) as start:
        stopped = start([BINARY, *flags(settings | {"runs_dir": tmp_path / "parts"})])
        stopped.wait_for(EPISODE)
        stopped.popen.send_signal(signal.SIGTERM)
        assert stopped.wait() == 75, stopped.text()
    run = run_folder(stopped.text())
    newest = max(run.glob("checkpoints/step_*/manifest.json"), key=lambda path: path.parent.name)
    total = json.loads(newest.read_text())["episode"] + 10
    again = call("--resume", run, "--max_episodes", total)
    assert again.returncode == 0 and "Resumed from checkpoint" in again.stdout, again.stdout + again.stderr
    whole = call(*flags(settings | {"runs_dir": tmp_path / "whole", "max_episodes": total}))
    assert fingerprint(again.stdout)["line"] == fingerprint(whole.stdout)["line"], whole.stderr


def test_impossible_sets_are_refused_and_an_impossible_cache_is_made_again(games, tmp_path):
    whole = (games / "level2.boards").read_bytes()
    count, boards = struct.unpack_from("<qq", whole, len(whole) - 24)
    ends, last = len(whole) - 24 - 8 * count, 64 + 256 * (boards - 1)

    def changed(at, kind, value):
        content = bytearray(whole)
        struct.pack_into(kind, content, at, value)
        struct.pack_into("<I", content, len(content) - 8, zlib.crc32(content[:-24]))
        return bytes(content)

    # Offsets of game::State: heads, lengths, directions, beans, steps, returns, done.
    wrong = [changed(last + place, kind, value) for place, kind, value in (
        (200, "B", 200), (206, "B", 255), (212, "B", 0), (212, "B", 255), (218, "B", 4), (224, "B", 200), (225, "B", whole[last + 224]),
        (230, "<H", 202), (232, "<f", math.nan), (240, "B", 1))]
    wrong += [changed(ends + 8 * game, "<q", end) for game, end in ((0, 0), (0, -1), (1, 1), (1, 1 << 62), (count - 1, boards + 1))]
    wrong += [changed(len(whole) - 24 + place, "<q", value) for place, value in ((0, -1), (0, 1 << 61), (8, boards - 1))]
    source, cache = tmp_path / "games" / "a.boards", tmp_path / "cache"
    source.parent.mkdir()
    for content in wrong:
        source.write_bytes(content)
        done = pretrain("tokenizer", source.parent, tmp_path / "run")
        assert done.returncode == 4 and re.fullmatch(r"snake_ddp: \S+/games/a.boards: .* Record it again\n", done.stderr), done.stderr
        assert not list(cache.iterdir()) and not list((tmp_path / "run").glob("*.pth"))
    source.write_bytes(whole)
    first = pretrain("tokenizer", source.parent, tmp_path / "run", epochs=1)
    (cached,) = cache.iterdir()
    good = cached.read_bytes()
    for content in (wrong[0], wrong[2], wrong[-6]):
        cached.write_bytes(content)
        done = pretrain("tokenizer", source.parent, tmp_path / "run", epochs=1, resume="never")
        assert done.returncode == 0 and f"Rebuilt the cache: {cached}: not of recorded games" in done.stdout, done.stdout + done.stderr
        assert cached.read_bytes() == good and first.stdout.count("Cached ") == 1


def test_a_rank_without_games_records_a_set_that_can_be_read(games, tmp_path):
    folder, port = tmp_path / "games", free_port()
    line = [BINARY, "eval", "--team_a", "level1", "--team_b", "level2", "--games", 1, "--record_boards", folder / "a.boards"]
    with starter(tmp_path) as start:
        ranks = [start(line, RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port) for rank in range(2)]
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
    assert sorted(path.name for path in folder.iterdir()) == ["a.boards", "a_1.boards"]
    shutil.copy(games / "level2.boards", folder / "b.boards")
    done = pretrain("tokenizer", folder, tmp_path / "run", epochs=1)
    assert done.returncode == 0 and "Data: 31 games" in done.stdout, done.stdout + done.stderr


def test_contents_not_names_and_times_decide_whether_the_cache_is_of_them(games, tmp_path):
    one = sorted(games.glob("*.boards"))
    folder, (first, second) = tmp_path / "games", one[:2]
    assert first.read_bytes() != second.read_bytes()
    folder.mkdir()
    for source in (first, second):
        content = source.read_bytes()
        (folder / "a.boards").write_bytes(content)
        os.utime(folder / "a.boards", (1e9, 1e9))
        done = pretrain("tokenizer", folder, tmp_path / source.stem, epochs=1, cache_dir=tmp_path / "cache")
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "cache").glob("*.boards"))) == 2
