"""Messages and exit codes: wrong input of every kind, and the JSON that other programs read."""

import copy
import ctypes
import fcntl
import functools
import gzip
import json
import math
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import termios

import pytest
import torch

from exports import q_network, save_in_run
from processes import (BINARY, BUILD, DATA, SOURCE, TINY, clean_environment, flags, free_port, has_bf16, help_groups, only_json, ranks_by_hand,
                       run_folder, served as call, starter, torchrun)

LIBC = ctypes.CDLL(None)
GAMES = DATA / "games.jsonl.gz"
ENCODINGS = DATA / "encodings.jsonl.gz"
ACTOR = DATA / "upstream_actor_2000.pth"
PLAYER = f"{ACTOR}:softmax"
CHAMPION = SOURCE / "models" / "champion.pth"


def write(path, text):
    path.write_text(text)
    return path


def refused(code, *words, line, **options):
    """Runs and expects one message with `words` on stderr, nothing on stdout."""
    done = call(*line, **options)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    for word in words:
        assert word in done.stderr, f"{word!r} is not in {done.stderr!r}"
    assert done.stdout == ""
    assert done.stderr.count("snake_ddp: ") == 1
    assert "unexpected error" not in done.stderr
    return done


# Flags

USAGE = {
    "unknown flag, the nearest is named": (["--max_episode", "5"], ["unknown flag --max_episode", "did you mean --max_episodes?"]),
    "unknown flag with dashes": (["--max-episode=5"], ["unknown flag --max-episode", "--max_episodes"]),
    "unknown flag like no other": (["--zzzzzzzzzzzz"], ["unknown flag --zzzzzzzzzzzz", "--help"]),
    "unknown flag of eval": (["eval", "--team_c", "random"], ["unknown flag --team_c", "--team_"]),
    "a misspelt flag with another name": (["--learning_rte", "1"], ["unknown flag --learning_rte; did you mean --learning_rate"]),
    "a short one": (["--lr=1"], ["did you mean --learning_rate"]),
    "one with a single dash": (["-lr", "1"], ["unknown flag -lr; did you mean --learning_rate"]),
    "a learning rate that is none": (["--learning_rate", "fast"], ["fast"]),
    "help for no command": (["help", "trian"], ['unknown command "trian"', "did you mean train?"]),
    "completion for no shell": (["completion"], ["SHELL"]),
    "completion for another shell": (["completion", "fish"], ["bash", "zsh"]),
    "total timesteps": (["--total-timesteps", "1"], ["did you mean --total_steps or --max_episodes?"]),
    "steps of a rollout": (["--num-steps", "1"], ["did you mean --rollout_steps?"]),
    "epochs": (["--epochs", "1"], ["did you mean --rollout_epochs?"]),
    "a batch": (["--batch", "1"], ["did you mean --batch_size?"]),
    "without separators": (["--batchsize", "1"], ["did you mean --batch_size?"]),
    "boards": (["--n_envs", "1"], ["did you mean --num_envs?"]),
    "a GPU": (["--gpu", "0"], ["did you mean --device?"]),
    "a folder for results": (["--output-dir", "x"], ["did you mean --runs_dir?"]),
    "a checkpoint": (["--checkpoint", "x"], ["did you mean --resume?"]),
    "a learning rate of pretrain": (["pretrain", "--lr", "1"], ["did you mean --learning_rate?"]),
    "a player of eval": (["eval", "--player", "x"], ["did you mean --team_a?"]),
    "nothing near": (["--reward_shaping_of_beans", "1"], ["unknown flag --reward_shaping_of_beans. All flags: snake_ddp train --help"]),
    "a short name of another program": (["--render"], ["unknown flag --render. All flags"]),
    "a word of three letters": (["--tag", "1"], ["unknown flag --tag. All flags"]),
    "two letters in the other order": (["--gmama", "1"], ["did you mean --gamma?"]),
    "a letter too few": (["--batch_siz", "1"], ["did you mean --batch_size?"]),
    "a long name with three mistakes": (["--checkpont_intervl_s", "1"], ["did you mean --checkpoint_interval?"]),
    "stray argument": (["train", "fast"], ['unexpected argument "fast"; did you mean --config fast?']),
    "a stray folder": (["train", "/tmp"], ['unexpected argument "/tmp"; did you mean --resume /tmp?']),
    "stray weights": (["train", "a.pth"], ['"a.pth"; did you mean --load_model a.pth?']),
    "a run's name that is a path": (["--run_name", "a/b"], ["--run_name \"a/b\"", "letters"]),
    "an axis that there is not": (["--step_axis", "time"], ["--step_axis time", "episode"]),
    "a stray team": (["eval", "a.pth"], ['"a.pth"; did you mean --team_a a.pth?']),
    "two stray teams": (["eval", "a.pth", "b.pth", "--games", "4"], ["did you mean --team_a a.pth --team_b b.pth?"]),
    "three stray teams": (["eval", "a.pth", "b.pth", "level2"], ["did you mean --ladder a.pth b.pth level2?"]),
    "a stray actor": (["export", "a.pth"], ["did you mean --actor a.pth?"]),
    "stray games": (["pretrain", "games"], ["did you mean --data_path games?"]),
    "a preset for a command": (["configs/smoke.json"], ['unknown command "configs/smoke.json"; did you mean train --config configs/smoke.json?']),
    "a seed just beyond its bound": (["--seed", "4000000000000000001"], ["--seed 4000000000000000001", "out of range"]),
    "own rewards of a team's value": (["--algo", "vdn", "--own_reward", "0.5"], ["--own_reward 0.5 does not apply to --algo vdn", "ddpg"]),
    "own rewards where a network mixes values": (["--algo", "qmix", "--own_reward", "0"], ["--own_reward 0 does not apply to --algo qmix"]),
    "own rewards of a recurrent team": (["--algo", "rqmix", "--own_reward", "0"], ["--own_reward 0 does not apply to --algo rqmix"]),
    "own rewards of a preset's team": (["--config", SOURCE / "configs" / "champion.json", "--own_reward", "0.5"], ["--own_reward 0.5 does not apply"]),
    "the speed of nothing": (["eval", "--team_a", "level1", "--team_b", "level2", "--speed", "9"], ["--speed requires --watch"]),
    "an interval of no boards": (["eval", "--team_a", "level1", "--team_b", "level2", "--board_interval", "9"], ["--board_interval requires --record_boards"]),
    "a radius of a ladder": (["eval", "--ladder", "level1", "level2", "--view_radius", "4"], ["--view_radius", "without --ladder"]),
    "a judge of no blunders": (["replay", "x.json", "--html", "y", "--judge", "x:puct5"], ["--judge requires --blunders"]),
    "a speed that is no number": (["eval", "--team_a", "level1", "--team_b", "level2", "--watch", "--speed", "+nan"],
                                  ["--speed", "+nan is not a number"]),
    "the speed of a page": (["replay", "x.json", "--html", "y", "--speed", "5"], ["--speed requires --text"]),
    "a report that is written once, every second": (["report", "x", "--json", "--every", "1"], ["--every requires --watch"]),
    "bounds of searches": (["eval", "--team_a", f"{CHAMPION}:look1001", "--team_b", "random"], ['"look1001"', "1 to 1000)", "1 to 1000000", "0.01 to 60000"]),
    "a program of its own": (["bench"], ['unknown command "bench"']),
    "a script of its own": (["exploit", "--player", "level2"], ['unknown command "exploit"']),
    "unknown command": (["evla"], ['unknown command "evla"', "did you mean eval?", "verify-trace"]),
    "no value": (["--gamma"], ["--gamma needs a value"]),
    "an empty value": (["--gamma=", "--seed", "5"], ["--gamma", "not a number"]),
    "no value of eval": (["eval", "--games"], ["--games needs a value"]),
    "word for a whole number": (["--max_episodes", "many"], ["--max_episodes many", "not a whole number", "from 1 to 1,000,000,000,000,000"]),
    "fraction for a whole number": (["--batch_size", "12.5"], ["--batch_size 12.5", "not a whole number"]),
    "word for a number": (["--gamma", "high"], ["--gamma high", "not a number", "from 0 to 1"]),
    "not a number": (["--gamma", "nan"], ["--gamma nan", "out of range"]),
    "above the range": (["--gamma", "1.5"], ["--gamma 1.5", "out of range", "from 0 to 1"]),
    "below the range": (["--tau", "-0.1"], ["--tau -0.1", "out of range", "from 0 to 1"]),
    "longer than a game": (["--episode_length", "201"], ["--episode_length 201", "from 1 to 200"]),
    "beyond 64 bits": (["--seed", "99999999999999999999"], ["--seed 99999999999999999999"]),
    "a world beyond 32 bits": (["--ddp", "--world_size", "4294967298"], ["world_size", "4294967298"]),
    "a world without ranks": (["--world_size", "2", "--check_settings"], ["--world_size is for --ddp"]),
    "eval with a view beyond 32 bits": (["eval", "--team_a", "random", "--team_b", "random", "--view_radius", "4294967298"],
                                        ["view_radius", "4294967298"]),
    "eval with a step beyond 32 bits": (["eval", "--team_a", "random", "--team_b", "random", "--show", "4294967297"],
                                        ["show", "4294967297"]),
    "eval with games beyond 64 bits": (["eval", "--team_a", "random", "--team_b", "random", "--games", "18446744073709551617"],
                                       ["games", "18446744073709551617"]),
    "eval with a seed beyond 64 bits": (["eval", "--team_a", "random", "--team_b", "random", "--seed", "18446744073709551617"],
                                        ["seed", "18446744073709551617"]),
    "eval with a seed below zero": (["eval", "--team_a", "random", "--team_b", "random", "--seed", "-1"], ["seed", "-1"]),
    "threads beyond 32 bits": (["--threads", "4294967297"], ["--threads 4294967297", "out of range"]),
    "workers beyond 32 bits": (["pretrain", "--num_workers", "4294967297"], ["--num_workers 4294967297", "out of range"]),
    "unknown choice": (["--output_activation", "relu"], ["--output_activation relu", "softmax, tanh"]),
    "unknown learner": (["--algo", "ppo"], ["--algo ppo", "ddpg, bicnet"]),
    "layer norm with bicnet": (["--algo", "bicnet", "--layer_norm", "--check_settings"], ["--layer_norm", "not apply to --algo bicnet"]),
    "expected value with bicnet": (["--algo", "bicnet", "--expected_value"], ["--expected_value", "not apply to --algo bicnet"]),
    "odd word for on or off": (["--enable_opponent_evasion=maybe"], ["--enable_opponent_evasion maybe", "on or off"]),
    "odd word for a switch of eval": (["eval", "--swap_sides=maybe"], ["swap_sides", "maybe"]),
    "odd word for its opposite": (["eval", "--no_swap_sides=maybe"], ["swap_sides", "maybe"]),
    "odd word for json": (["info", "--json=maybe"], ["json", "maybe"]),
    "curriculum": (["--opponent_difficulty_strategy", "fixed:9"], ["fixed:9", "evasion"]),
    "batch above buffer": (["--buffer_size", "10", "--batch_size", "11"], ["--buffer_size 10", "--batch_size 11"]),
    "epsilons crossed": (["--epsilon", "0.1", "--epsilon_min", "0.2"], ["--epsilon_min 0.2", "--epsilon 0.1"]),
    "target without evaluation": (["--target_win_rate", "0.5"], ["--target_win_rate", "--eval_interval"]),
    "search of no kind": (["--algo", "dqn", "--eval_search", "luck4"], ["--eval_search luck4", "look<samples>"]),
    "search by the clock": (["--algo", "dqn", "--reward", "score", "--eval_search", "puct@5ms", "--eval_interval", "9"],
                            ["puct@5ms", "depend on the machine", "puct100"]),
    "search over another reward": (["--algo", "dqn", "--eval_search", "look4", "--eval_interval", "9"],
                                   ["--eval_search", "--reward score", "v1_2"]),
    "search of an actor": (["--eval_search", "look4", "--eval_interval", "9"], ["--eval_search look4", "not apply to --algo ddpg", "pqn"]),
    "mix with nobody": (["--opponent_mix", "level2:0.7,levle1"], ["levle1", "level2:0.7,self:0.3"]),
    "values of no actor": (["--algo", "dqn", "--expected_value"], ["--expected_value", "dqn"]),
    "n-step returns with pqn": (["--algo", "pqn", "--n_step", "3"], ["--n_step 3", "not apply to --algo pqn", "ddpg, bicnet, dqn"]),
    "a rollout below a batch": (["--algo", "pqn_vdn", "--rollout_steps", "2", "--num_envs", "3", "--batch_size", "7"],
                                ["--rollout_steps 2", "--num_envs 3", "6 transitions", "--batch_size 7"]),
    "n-step returns in windows": (["--algo", "rqmix", "--n_step", "3"], ["--n_step 3", "--algo rqmix"]),
    "windows above a batch": (["--algo", "rqmix", "--batch_size", "15"], ["--batch_size 15", "--sequence_length 16"]),
    "windows of a burn-in alone": (["--algo", "rqmix", "--burn_in", "16"], ["--burn_in 16", "--sequence_length 16"]),
    "layer norm in a recurrent network": (["--algo", "rqmix", "--layer_norm"], ["--layer_norm", "rqmix"]),
    "several flags of other learners": (["--algo", "dqn", "--expected_value", "--td_lambda", "0.5"],
                                        ["--expected_value on does not apply to --algo dqn, only to ddpg",
                                         "--td_lambda 0.5 does not apply to --algo dqn, only to pqn, pqn_vdn"]),
    "low precision on the CPU": (["--products", "bf16", "--device", "cpu", "--check_settings"], ["--products bf16", "Q-networks"]),
    "tf32 on the CPU": (["--algo", "dqn", "--products", "tf32", "--device", "cpu", "--check_settings"], ["--products tf32", "--device cpu"]),
    "NCCL on the CPU": (["--dist_backend", "nccl", "--device", "cpu", "--check_settings"], ["--dist_backend nccl", "--device cpu"]),
    "eval without teams": (["eval"], ["--team_a", "--team_b", "--ladder"]),
    "a search that is misspelt": (["eval", "--team_a", f"{CHAMPION}:lok4", "--team_b", "random"],
                                  ['"lok4"', "look<samples>", "puct<simulations>", "puct@<time>ms", ":argmax"]),
    "a search without a number": (["eval", "--ladder", f"{CHAMPION}:puct", "random"], ['"puct"', "puct<simulations>"]),
    "a search of a script": (["eval", "--team_a", "level2:look4", "--team_b", "random"], ["level2", "Q-network"]),
    "a search of an actor": (["eval", "--team_a", f"{ACTOR}:softmax:look4", "--team_b", "random"], ["Q-network", "probabilities"]),
    "a frozen team that is not masked": (["--algo", "dqn", "--obs", "ahead", "--opponent_mix", f"file:{CHAMPION}", "--check_settings"],
                                         [f"file:{CHAMPION}", "--mask_fatal"]),
    "a frozen team that sees something else": (["--algo", "dqn", "--mask_fatal", "--opponent_mix", f"file:{CHAMPION}",
                                                "--check_settings"], [f"file:{CHAMPION}", "--obs 30"]),
    "a frozen team that sees the board another way up": (["--algo", "dqn", "--obs", "view", "--mask_fatal", "--opponent_mix",
                                                          f"file:{CHAMPION}", "--check_settings"], ["--obs view", "--obs ahead"]),
    "an export of a search": (["export", "--actor", f"{CHAMPION}:look4", "--format", "submission", "--output", "x"], ["without a search"]),
    "ladder of one": (["eval", "--ladder", "level2"], ["--ladder needs two teams"]),
    "ladder and teams": (["eval", "--ladder", "level1", "level2", "--team_a", "random"], ["--ladder", "without --team_a"]),
    "ladder with logs": (["eval", "--ladder", "level1", "level2", "--record", "x"], ["--record", "without --ladder"]),
    "watched as JSON": (["eval", "--team_a", "random", "--team_b", "random", "--watch", "--json"], ["--watch", "--json"]),
    "ladder with a team twice": (["eval", "--ladder", "level1", "level2", "level1"], ["level1 twice"]),
    "ladder with two spellings of a file": (["eval", "--ladder", f"{CHAMPION}", "level1", f"{CHAMPION.parent}/./{CHAMPION.name}"],
                                            ["names one team twice", f"{CHAMPION}", "/./"]),
    "ladder with two spellings of a search": (["eval", "--ladder", f"{CHAMPION}:look4", f"{CHAMPION.parent}/../models/{CHAMPION.name}:look4"],
                                              ["names one team twice"]),
    "ladder with the best move of values said again": (["eval", "--ladder", f"{CHAMPION}", f"{CHAMPION}:argmax"], ["names one team twice"]),
    "an empty folder of logs": (["eval", "--team_a", "random", "--team_b", "random", "--record", ""], ['--record ""', "empty variable"]),
    "an empty file of boards": (["eval", "--team_a", "random", "--team_b", "random", "--record_boards="], ['--record_boards ""']),
    "an empty folder of pretrain": (["pretrain", "--stage", "tokenizer", "--data_path", "x", "--save_dir", ""], ['--save_dir ""', "empty variable"]),
    "an empty cache of pretrain": (["pretrain", "--stage", "tokenizer", "--data_path", "x", "--cache_dir="], ['--cache_dir ""', "empty variable"]),
    "an empty file of settings": (["--config", ""], ['--config ""', "empty variable"]),
    "an empty file of settings of pretrain": (["pretrain", "--config="], ['--config ""', "empty variable"]),
    "an empty output": (["export", "--actor", f"{CHAMPION}", "--format", "safetensors", "--output", ""], ['--output ""']),
    "an empty path": (["info", f"{CHAMPION}", ""], ['""', "empty variable"]),
    "ladder with two names of a script": (["eval", "--ladder", "random", "level2", "level0"], ["one team twice", "random", "level0"]),
    "ladder with a record said again": (["eval", "--ladder", f"{PLAYER}", f"{PLAYER}:softmax"], ["one team twice"]),
    "ladder with an unknown team": (["eval", "--ladder", "level1", "levle2"], ['team "levle2"', "did you mean level2?"]),
    "unknown anchor, the nearest is named": (["eval", "--ladder", "level1", "level2", "--anchor", "levle2"],
                                             ["--anchor levle2", "did you mean level2?"]),
    "anchor without a ladder": (["eval", "--team_a", "random", "--team_b", "random", "--anchor", "random"], ["--anchor is for"]),
    "eval of no game": (["eval", "--team_a", "random", "--team_b", "random", "--games", "0"], ["games"]),
    "eval with a word for a number": (["eval", "--team_a", "random", "--team_b", "random", "--games", "x"], ["games"]),
    "unknown team, the nearest is named": (["eval", "--team_a", "levle2", "--team_b", "random"],
                                           ['team "levle2"', "did you mean level2?"]),
    "unknown team": (["eval", "--team_a", "random", "--team_b", "somebody"], ['team "somebody"', "level4, evasion, territory"]),
    "verify-trace without a file": (["verify-trace"], ["verify-trace needs"]),
    "encodings without games": (["verify-trace", "--encodings", str(ENCODINGS)], ["--traces"]),
    "a variable that is empty": (["--resume", "", "--check_settings"], ['--resume ""', "auto, never or a folder"]),
}


@pytest.mark.parametrize("line, words", USAGE.values(), ids=USAGE)
def test_wrong_use_is_reported(line, words):
    refused(2, *words, line=line)


CONFIGS = {
    "unknown key, the nearest is named": ('{"max_episode": 5}', ['unknown key "max_episode"', 'did you mean "max_episodes"?']),
    "wrong type, a text": ('{"gamma": "high"}', ['"gamma"', "is not a number"]),
    "wrong type, a fraction": ('{"max_episodes": 2.5}', ['"max_episodes"', "2.5 is not a whole number"]),
    "wrong type, no boolean": ('{"load_model": 1}', ['"load_model"', "is not true or false"]),
    "wrong type, a list": ('{"reward": ["score"]}', ['"reward"', "is not a string"]),
    "out of range": ('{"tau": 2}', ["--tau 2", "out of range", "from 0 to 1"]),
    "unknown choice": ('{"obs": 27}', ["--obs 27", "26, 30"]),
    "a key twice": ('{"tau": 0.01, "run": {"id": 1, "id": 2}, "seed": 1, "tau": 0.02}', ['key "tau" is there twice']),
    "a key twice in a section": ('{"seed": 1, "cuda": {"seed": 2, "tau": 0.01, "tau": 0.02}}', ['key "tau" is there twice']),
    "an unknown key in a section": ('{"cuda": {"batch_sizes": 3}}', ['"cuda": unknown key "batch_sizes"; did you mean "batch_size"?']),
    "a section that is none": ('{"cuda": true}', ['"cuda": expected one JSON object with settings']),
    "a key in both spellings": ('{"a_lr": 0.1, "a-lr": 0.2}', ['key "a-lr" is there twice']),
    "no object": ("[1]", ["one JSON object"]),
    "broken": ('{"tau": 0.01,, }', ['not valid JSON: line 1, column 14, after {"tau": 0.01,,']),
    "broken further down": ('{\n  "tau": 0.01\n  "seed": 1}', ['not valid JSON: line 3, column 8, after   "seed"']),
    "cut short": ('{"tau": 0.01', ["not valid JSON: it ends too early"]),
    "empty": (" \n", ["not valid JSON: there is nothing in it"]),
    "a key with another name in other programs": ('{"learning_rate": 1}', ['did you mean "c_lr" or "a_lr"?']),
    "a number beyond all numbers": ('{"gamma": 1e999}', ["not valid JSON", "1e999"]),
    "brackets without end": ('{"seed": ' + "[" * 200_000 + "]" * 200_000 + "}", ["nested too deeply for settings"]),
}


@pytest.mark.parametrize("text, words", CONFIGS.values(), ids=CONFIGS)
def test_wrong_configuration_files_are_reported(tmp_path, text, words):
    path = write(tmp_path / "c.json", text)
    done = refused(2, str(path), *words, line=["--config", path, "--check_settings"])
    assert "exception" not in done.stderr


@pytest.mark.parametrize("name, known", [("x.yaml", "YAML"), ("x.yml", "YAML"), ("x.toml", "TOML")])
def test_settings_in_another_format_are_recognised(tmp_path, name, known):
    path = write(tmp_path / name, "algo: dqn\nmax_episodes: 5\n")
    for command in (["train"], ["pretrain", "--stage", "tokenizer"]):
        done = refused(2, line=[*command, "--config", path, "--check_settings"])
        assert done.stderr == f"snake_ddp: {path} is not JSON. snake_ddp reads JSON (with comments), not {known}.\n"


def test_every_learner_runs_with_its_defaults(tmp_path):
    for learner in only_json(call("info", "--json").stdout)["learners"]:
        done = call("--algo", learner, "--runs_dir", tmp_path / learner, "--max_episodes", 4, "--episode_length", 40)
        assert done.returncode == 0, (learner, done.stderr)
        assert int(re.search(r"(\d+) updates in", done.stdout)[1]) > 0, (learner, done.stdout)
        used = json.loads((run_folder(done.stdout) / "config.json").read_text())
        assert used["num_envs"] == (128 if learner.startswith("pqn") else 1)
    assert train_help("--algo", "pqn")["Learning"]["num_envs"] == "128"
    small = call("--algo", "pqn", "--num_envs", 2, "--batch_size", 64, "--check_settings")
    assert small.returncode == 0, small.stderr
    refused(2, "--num_envs 1", line=["--algo", "pqn", "--num_envs", 1, "--check_settings"])


def test_presets_name_own_rewards_only_where_they_count():
    for preset in (SOURCE / "configs").glob("*.json"):
        done = call("--config", preset, "--device", "cpu", "--check_settings", cwd=SOURCE)
        assert "own_reward" not in done.stderr, preset


def test_a_run_with_own_rewards_of_an_earlier_version_resumes(tmp_path):
    line = {"algo": "qmix", "runs_dir": tmp_path, "max_episodes": 1, "episode_length": 5}
    run = run_folder(call(*flags(TINY | line)).stdout)
    settings = json.loads((run / "config.json").read_text())
    assert settings["own_reward"] == 0
    (run / "config.json").write_text(json.dumps(settings | {"own_reward": 0.25, "max_episodes": 2}))
    done = call("--resume", run)
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "config.json").read_text())["own_reward"] == 0.25


def test_a_section_for_gpus_applies_to_runs_on_one(tmp_path):
    config = write(tmp_path / "c.json", '{"algo": "dqn", "num_envs": 128, "cuda": {"num_envs": 1}}')
    here = call("--config", config, "--device", "cpu", "--boards", "auto", "--check_settings")
    assert here.returncode == 0 and here.stdout.startswith("On this machine's CPU the run has --boards host "), here
    there = call("--config", config, "--device", "cuda", "--check_settings")
    assert "On a GPU the run has --boards host --cuda_graph on --products tf32\n" in there.stdout, there
    more = call("--config", config, "--device", "cuda", "--num_envs", 128, "--check_settings")
    assert "On a GPU the run has --boards device --cuda_graph on --products tf32\n" in more.stdout, more


def test_a_number_of_episodes_on_the_command_line_replaces_a_files_number_of_steps(tmp_path):
    config = write(tmp_path / "c.json", '{"total_steps": 1000000, "max_episodes": 2}')
    assert settings_of(tmp_path, "--config", config)["total_steps"] == 0  # it types --max_episodes
    kept = settings_of(tmp_path / "kept", "--config", config, "--total_steps", "30")
    assert kept["total_steps"] == 30


def test_a_configuration_file_that_is_missing_is_reported(tmp_path):
    path = tmp_path / "none.json"
    refused(4, f"cannot read '{path}'", line=["--config", path, "--check_settings"])
    refused(4, "Is a directory", line=["--config", tmp_path, "--check_settings"])
    refused(4, "Is a directory", line=["pretrain", "--stage", "tokenizer", "--config", tmp_path, "--check_settings"])
    os.mkfifo(tmp_path / "pipe")
    refused(2, "pipe: not valid JSON", line=["--config", tmp_path / "pipe", "--check_settings"])


def test_a_run_s_damaged_settings_are_a_damaged_file(tmp_path):
    done = call(*flags(TINY | {"runs_dir": tmp_path / "runs", "max_episodes": 1, "episode_length": 5}))
    settings = run_folder(done.stdout) / "config.json"
    settings.write_bytes(settings.read_bytes()[:50])
    refused(4, str(settings), "repair the file", line=["--resume", settings.parent])


def test_a_page_does_not_replace_its_game(tmp_path):
    assert call("eval", "--team_a", "level1", "--team_b", "level1", "--games", 1, "--record", tmp_path).returncode == 0
    log = tmp_path / "game_0.json"
    before = log.read_bytes()
    refused(2, f"--html {log}", "give another name", line=["replay", log, "--html", log])
    assert log.read_bytes() == before


@pytest.mark.parametrize("line", [["replay", "--text"], ["verify-trace"]])
def test_a_folder_is_no_game(tmp_path, line):
    done = refused(4, str(tmp_path), "Is a directory", line=[*line, tmp_path])
    assert "truncated" not in done.stderr


def settings_of(tmp_path, *line):
    """config.json of a run of one vote."""
    done = call(*flags(TINY | {"runs_dir": tmp_path / "runs", "max_episodes": 1, "episode_length": 5}), *line)
    assert done.returncode == 0, done.stderr
    return json.loads((run_folder(done.stdout) / "config.json").read_text())


def test_both_spellings_and_the_order_of_precedence(tmp_path):
    path = write(tmp_path / "c.json", '{"gamma": 0.5, "a-lr": 0.25, "c_lr": 0.125, "mask_fatal": true, "layer_norm": true, // yes\n "obs": 26}')
    used = settings_of(tmp_path, "--config", path, "--c-lr", "0.5", "--gamma=0.75", "--mask-fatal=off",
                       "--max-episodes", "2", "--max_episodes", "1")
    assert used | {"gamma": 0.75, "a_lr": 0.25, "c_lr": 0.5, "mask_fatal": False, "layer_norm": True, "obs": "26",
                   "max_episodes": 1, "tau": 0.01} == used
    assert settings_of(tmp_path, "--mask_fatal=false", "--layer_norm")["layer_norm"] is True


def test_help_shows_every_flag_with_its_default():
    done = call("train", "--help")
    assert done.returncode == 0 and done.stderr == ""
    for words in ("--max_episodes N", "[50000]", "--gamma", "[0.99]", "[curriculum]", "[0.0003]", "[off]"):
        assert words in done.stdout
    commands = call("--help").stdout
    assert call("--version").stdout.startswith("snake_ddp 1.0.0 with LibTorch 2.11")
    assert call("-V").stdout == call("--version").stdout
    assert call("help").stdout == commands and call("help", "train").stdout == done.stdout


@pytest.mark.parametrize("algo, rates", [("ddpg", {"c_lr": 0.01, "a_lr": 0.01}), ("dqn", {"c_lr": 0.01})])
def test_learning_rate_is_another_name(tmp_path, algo, rates):
    settings = settings_of(tmp_path, "--algo", algo, "--learning_rate", "0.01")
    assert {name: settings[name] for name in rates} == rates
    assert settings_of(tmp_path, "--algo", algo, "--learning_rate", "0.01", "--c_lr", "0.02")["c_lr"] == 0.02
    run = next((tmp_path / "runs" / "snakes_3v3").glob("run1_*"))
    again = call("--resume", run, "--learning_rate", "0.5", "--max_episodes", 30)  # the learner is the run's
    assert again.returncode == 0 and again.stderr == "" and "c_lr 0.01 -> 0.5" in again.stdout


def test_bash_completes_commands_and_flags():
    script = call("completion", "bash").stdout
    assert script == call("completion", "zsh").stdout

    def complete(*words):
        line = f"{script}\nCOMP_WORDS=(snake_ddp {' '.join(words)}); COMP_CWORD={len(words)}; _snake_ddp; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.split()

    assert complete("ev") == ["eval"] and complete("train", "--max_e") == ["--max_episodes"]
    assert set(complete("eval", "--team_")) == {"--team_a", "--team_b"} and "--opponent_mix" not in complete("eval", "--")


def test_alone_on_a_terminal_the_program_says_what_it_can_do():
    reader, writer = os.openpty()
    alone = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run([BINARY], stdout=writer, stderr=subprocess.PIPE, env=alone, timeout=60, text=True)
    os.close(writer)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert (done.returncode, done.stderr) == (0, "") and "verify-trace" in shown and "configs/champion.json" in shown


@functools.cache
def train_help(*line):
    """{heading: {flag: default}} of train --help; None where it says none."""
    done = call("train", *line, "--help")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {heading: {name: (re.findall(r"\[([^\]]*)\]", said) or [None])[-1] for name, said in group.items()}
            for heading, group in help_groups(done.stdout).items()}


GROUPS = ["Running", "As in the Python trainer", "Learning", "Opponents", "Saving", "This machine", "Help"]


def tables_of(name):
    """{name: rows of cells} of the tables in a page of the reference."""
    text = (SOURCE / "docs" / "reference" / name).read_text(encoding="utf-8")
    return {table: [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body.splitlines() if line.startswith("|")]
            for table, body in re.findall(r"<!-- table (.*?) -->\n(.*?)<!-- end -->", text, re.S)}


def test_help_and_the_reference_have_the_same_flags_under_the_same_headings():
    shown = train_help()
    assert list(shown) == GROUPS
    assert list(shown["Running"])[:3] == ["config", "resume", "device"]
    for group, flags_of_it in {"As in the Python trainer": "max_episodes", "Learning": "num_envs", "Opponents": "league_games",
                               "Saving": "runs_dir", "This machine": "ddp"}.items():
        assert flags_of_it in shown[group]
    assert shown["Learning"]["layer_norm"] == "off"
    tables = tables_of("flags.md")
    assert set(tables) == {f"train: {group}" for group in GROUPS[:-1]}
    for group, options in list(shown.items())[:-1]:
        table = {row[0].strip("`-"): row[1].partition(";")[0] for row in tables[f"train: {group}"][2:]}
        assert set(table) == set(options) - {"help"}, group
        for name, default in table.items():
            if default != "–" and options[name] is not None:
                assert default == f"`{options[name]}`", name


COMMANDS = ["train", "eval", "pretrain", "replay", "play", "report", "verify-trace", "export", "info", "completion"]


def test_there_is_help_for_all_commands():
    shown = call("--help").stdout
    listed = re.findall(r"^  ([a-z-]+)  ", shown.partition("Commands:\n")[2].partition("\n\n")[0], re.M)
    assert listed == COMMANDS


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_each_flag_once_in_short_lines_and_an_example_that_works(command, tmp_path):
    done = call(*filter(None, [command]), "--help")
    assert done.returncode == 0 and done.stderr == ""
    text, lines = done.stdout, done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    names = [name for group in help_groups(text).values() for name in group]
    assert len(names) == len(set(names)) and "help" in names and not any(name.startswith("no_") for name in names)
    assert not re.search(r"INT|FLOAT|UINT|Needs|\[\]|\{false\}", text)
    examples = re.findall(r"^  (.*snake_ddp .*)$", re.search(r"^Examples?:\n(.*)", text, re.M | re.S)[1], re.M)
    assert examples and (not command or all(f"snake_ddp {command} " in example for example in examples))
    for name in ("configs", "models"):
        (tmp_path / name).symlink_to(SOURCE / name)
    (tmp_path / "boards").mkdir()
    recorded = call("eval", "--team_a", "level1", "--team_b", "level2", "--games", "1", "--record", tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    shutil.copy(GAMES, tmp_path)
    environment = {"PATH": f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"}
    for example in examples:
        checked = example.partition("#")[0].strip()
        if re.match(r"snake_ddp (train|pretrain)", checked):
            checked += " --check_settings"
        ran = subprocess.run(["bash", "-c", checked], cwd=tmp_path, env=clean_environment(**environment), capture_output=True, text=True,
                             timeout=120, stdin=subprocess.DEVNULL)
        wanted = {"play": (2, "needs a terminal"), "report": (4, "is not a run folder")}.get(command, (0, ""))
        assert ran.returncode == wanted[0] and wanted[1] in ran.stderr, (example, ran.stdout, ran.stderr)


def test_help_is_as_wide_as_the_terminal():
    def shown(columns):
        reader, writer = os.openpty()
        termios.tcsetwinsize(writer, (24, columns)) if hasattr(termios, "tcsetwinsize") else fcntl.ioctl(
            writer, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        done = subprocess.run([BINARY, "info", "--help"], stdout=writer, timeout=60)
        os.close(writer)
        text = os.read(reader, 1 << 16).decode()
        os.close(reader)
        assert done.returncode == 0
        return max(map(len, text.splitlines()))

    assert shown(62) <= 62 < shown(90) <= 90 and shown(300) <= 100


def users(cell, learners):
    """Of the cell of a flag: the learners that read it."""
    named = re.findall(r"`(\w+)`", cell)
    return [name for name in learners if cell == "all" or (name in named) != cell.startswith("all but ")]


def test_help_of_a_learner_shows_only_what_it_uses(tmp_path):
    every = {name for group in train_help().values() for name in group}
    dqn = {name for group in train_help("--algo", "dqn").values() for name in group}
    assert every - dqn == {"output_activation", "a_lr", "expected_value", "rollout_steps", "rollout_epochs", "td_lambda",
                           "sequence_length", "burn_in"}
    config = write(tmp_path / "c.json", '{"algo": "pqn"}')
    pqn = {name for group in train_help("--config", config).values() for name in group}
    assert "td_lambda" in pqn and not {"buffer_size", "tau", "n_step", "layer_norm", "tokens"} & pqn
    assert dqn == {name for group in train_help("--config", config, "--algo=dqn").values() for name in group}
    assert "train --algo NAME --help" in call("train", "--help").stdout
    assert "--algo dqn; train --help shows all" in call("--algo", "dqn", "--help").stdout
    refused(2, "--algo ppo", "ddpg, bicnet", line=["train", "--algo", "ppo", "--help"])
    refused(4, "nowhere.json", line=["train", "--config", "nowhere.json", "--help"])


def test_threads_that_cannot_start_are_explained(tmp_path):
    def no_room_for_stacks():  # which fails as the limit of threads does; root has no such limit
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 46, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    line = flags(TINY | {"runs_dir": tmp_path})
    for group in ({}, {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}):
        done = call(*line, preexec_fn=no_room_for_stacks, **group)
        assert done.returncode == 1 and "cannot start another thread: " in done.stderr, (done.returncode, done.stderr)


def test_flags_that_the_learner_does_not_use(tmp_path):
    config = write(tmp_path / "c.json", '{"algo": "rqmix", "layer_norm": true}')
    row = next(row for row in tables_of("flags.md")["train: Learning"] if row[0] == "`--layer_norm`")
    learners = users(row[3], only_json(call("info", "--json").stdout)["learners"])
    assert 1 < len(learners) < 8
    refused(2, f"--layer_norm on does not apply to --algo rqmix, only to {', '.join(learners)}: leave it out",
            line=["--config", config, "--check_settings"])
    taken_back = call("--config", config, "--layer_norm=off", "--check_settings")
    assert taken_back.returncode == 0 and taken_back.stderr == ""
    # The Python trainer accepts these with every learner.
    warned = settings_of(tmp_path, "--algo", "pqn", "--tau", "0.5", "--a_lr", "0.25")
    assert warned["tau"] == 0.5 and warned["a_lr"] == 0.25
    line = ["--algo", "pqn", "--tau", "0.5", "--a_lr", "0.25"]
    for ranks in ([], ["--ddp", "--world_size", "2"]):
        done = call(*flags(TINY | {"runs_dir": tmp_path / "warned", "max_episodes": 1, "episode_length": 5}), *line, *ranks)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("Warning: --tau 0.5 does not apply to --algo pqn, only to ddpg, bicnet") == 1, done.stderr
        assert done.stderr.count("Warning: --a_lr 0.25 does not apply to --algo pqn, only to ddpg, bicnet") == 1, done.stderr
    checked = call("train", *line, "--num_envs", "4", "--check_settings")
    assert checked.returncode == 0 and checked.stderr.count("Warning: ") == 2


def test_the_settings_of_a_run_may_include_flags_that_the_learner_does_not_use(tmp_path):
    settings_of(tmp_path, "--layer_norm", "--n_step", "2")
    run = next((tmp_path / "runs" / "snakes_3v3").iterdir())
    done = call("--config", run / "config.json", "--algo", "rqmix", "--check_settings")
    assert done.returncode == 0 and done.stderr == ""
    done = call("--resume", run, "--check_settings")
    assert done.returncode == 0 and done.stderr == ""
    refused(2, "--rollout_steps 5 does not apply to --algo ddpg, only to pqn, pqn_vdn",
            line=["--resume", run, "--rollout_steps", "5", "--check_settings"])


def test_files_that_a_run_will_load_are_looked_for_first(tmp_path):
    for line, words in ((["--load_model", "--load_model_run", "7", "--runs_dir", tmp_path], "run 7"),
                        (["--algo", "dqn", "--obs", "window", "--view_radius", "3", "--tokens", tmp_path], "tokenizer_best.pth")):
        refused(4, words, line=["train", *line, "--check_settings"])
    done = call("--load_model", "--runs_dir", tmp_path, "--resume", "auto", "--check_settings")
    assert done.returncode == 0, done.stderr  # a resumed run has weights


def reference(folder):
    return subprocess.run([BUILD / "dev" / "reference" / "reference", folder], capture_output=True, text=True, timeout=60)


def test_the_reference_is_up_to_date(tmp_path):
    committed = SOURCE / "docs" / "reference"
    shutil.copytree(committed, tmp_path / "reference")
    done = reference(tmp_path / "reference")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    for page in committed.iterdir():
        assert (tmp_path / "reference" / page.name).read_bytes() == page.read_bytes(), "build/release/dev/reference/reference docs/reference"
    # It is of the same opinion as --help.
    learners = only_json(call("info", "--json").stdout)["learners"]
    rows = {row[0].strip("`-"): users(row[3], learners) for table in tables_of("flags.md").values() for row in table[2:]}
    for learner in learners:
        shown = {name for group in train_help("--algo", learner).values() for name in group}
        assert {name for name, all_users in rows.items() if learner in all_users} == shown - {"help"}, learner


def test_a_table_that_is_missing_or_unknown_is_noticed(tmp_path):
    shutil.copytree(SOURCE / "docs" / "reference", tmp_path / "pages")
    tags = tmp_path / "pages" / "tags.md"
    text = tags.read_text(encoding="utf-8")
    for old, new, words in (("<!-- table tags -->", "<!-- table bags -->", 'there is no table "bags"'), ("<!-- end -->", "", "a table without its"),
                            ("<!-- table tags -->\n", "", 'no page has "<!-- table tags -->"')):
        tags.write_text(text.replace(old, new), encoding="utf-8")
        done = reference(tmp_path / "pages")
        assert done.returncode == 4 and words in done.stderr
    tags.write_text(text.replace("| `loss/critic` |", "| `loss/cricket` |"), encoding="utf-8")
    assert reference(tmp_path / "pages").returncode == 0 and tags.read_text(encoding="utf-8") == text


def test_a_run_or_episode_beyond_32_bits_is_no_other_one(tmp_path):
    settings_of(tmp_path)
    run = next((tmp_path / "runs" / "snakes_3v3").iterdir())
    run.rename(run.with_name("run2"))
    line = flags(TINY | {"runs_dir": tmp_path / "runs", "max_episodes": 1, "load_model": True, "load_model_run": 2})
    episode = min(int(path.stem.split("_")[1]) for path in (run.with_name("run2") / "trained_model").glob("actor_*.pth"))
    assert call(*line, "--load_model_run_episode", episode).returncode == 0
    refused(4, "run 4294967298,", line=[*line, "--load_model_run_episode", episode, "--load_model_run", 2**32 + 2])
    refused(4, f"episode {2**32 + episode} ", line=[*line, "--load_model_run_episode", 2**32 + episode])


def test_a_start_from_weights_by_their_path(tmp_path):
    def hashes(*line, **settings):
        done = call(*flags(TINY | {"runs_dir": tmp_path / "runs", "max_episodes": 1, "updates_per_step": 0, "algo": "dqn"} | settings), *line)
        assert done.returncode == 0, done.stderr
        return re.search(r"weights (\w+)", done.stdout)[1], run_folder(done.stdout)

    first, run = hashes(seed=7)
    (actor,) = (run / "trained_model").glob("actor_*.pth")
    lone = tmp_path / "lone.pth"
    lone.write_bytes(actor.read_bytes())
    (lone.parent / "lone.pth.json").unlink(missing_ok=True)
    for line in (["--load_model", actor], ["--load-model", run], [f"--load_model_path={actor}"], ["--load_model", lone],
                 [f"--load-model={lone}"]):  # fmt: skip
        assert hashes(*line, seed=8)[0] == first, line
    assert hashes(seed=8)[0] != first
    for path in (tmp_path / "none.pth", tmp_path):
        refused(4, str(path), line=["train", "--load_model", path, "--check_settings"])
    ddpg = flags(TINY | {"runs_dir": tmp_path / "ddpg", "max_episodes": 1})
    actor = next((run_folder(call(*ddpg).stdout) / "trained_model").glob("actor_*.pth"))
    actor.with_name(actor.name.replace("actor", "critic")).unlink()
    refused(4, "needs a critic, too", line=["train", *ddpg, "--load_model", actor])


def test_a_run_has_the_name_and_tags_that_it_was_given(tmp_path):
    settings = settings_of(tmp_path, "--run_name", "first-try.2", "--tags", "baseline, night")
    (run,) = (tmp_path / "runs" / "snakes_3v3").iterdir()
    assert re.fullmatch(r"run1_\d{8}_\d{6}_first-try\.2", run.name) and settings["tags"] == "baseline, night"
    settings_of(tmp_path)
    assert sorted(path.name.split("_")[0] for path in run.parent.iterdir()) == ["run1", "run2"]


# Teams


class Malicious:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


def bad_actors(folder):
    """{what is wrong: (path, words)}"""
    actor = torch.load(ACTOR, weights_only=True)
    marker = folder / "executed"

    def saved(name, value):
        torch.save(value, folder / name)
        return folder / name

    whole = ACTOR.read_bytes()
    (folder / "cut.pth").write_bytes(whole[:len(whole) // 2])
    (folder / "text.pth").write_text("not weights\n")
    other_width = copy.deepcopy(actor)
    other_width["prev_dense.0.weight"] = other_width["prev_dense.0.weight"][:, :20].clone()
    other_hidden = copy.deepcopy(actor)
    other_hidden["post_dense.0.weight"] = torch.zeros(3, 3)
    return {
        "missing": (folder / "missing.pth", ["missing.pth"]),
        "a folder": (folder, [str(folder)]),
        "cut short": (folder / "cut.pth", ["cut.pth"]),
        "no weights": (folder / "text.pth", ["text.pth"]),
        "features": (saved("20.pth", other_width), ["20.pth", "20 features", "26, 30"]),
        "shapes": (saved("shapes.pth", other_hidden), ["shapes.pth", '"post_dense.0.weight"', "[3, 3]"]),
        "names": (saved("names.pth", {"w": torch.zeros(2)}), ["names.pth", "prev_dense.0.weight"]),
        "half a bicnet": (saved("bicnet.pth", actor | {"comm_net.lstm.weight_ih_l0": torch.zeros(2)}),
                          ["bicnet.pth", '"comm_net.lstm.weight_ih_l0"']),
        "foreign class": (saved("evil.pth", actor | {"evil": Malicious(marker)}), ["evil.pth", "system"]),
    }, marker


def test_actors_that_cannot_play_are_reported(tmp_path):
    cases, marker = bad_actors(tmp_path)
    for path, words in cases.values():
        for spec in (f"{path}", f"{path}:argmax"):
            refused(4, *words, line=["eval", "--team_a", spec, "--team_b", "random", "--games", "1"])
    assert not marker.exists()


def test_networks_that_cannot_search_are_reported(tmp_path):
    gru = torch.nn.GRUCell(8, 8).state_dict()
    layers = {"q_net.0": torch.nn.Linear(30, 8), "q_net.1": torch.nn.Linear(8, 4)}
    memory = {f"gru.{name}": value for name, value in gru.items()} | {
        f"{name}.{part}": value for name, layer in layers.items() for part, value in layer.state_dict().items()}
    torch.save(memory, tmp_path / "memory.pth")
    shaped = save_in_run(tmp_path / "run", q_network(309), "softmax")
    write(tmp_path / "run" / "config.json", json.dumps({"obs": "view", "reward": "2021"}))
    for path, words in ((tmp_path / "memory.pth", ["without memory"]), (shaped, ["--reward 2021", "--reward score"])):
        assert call("eval", "--team_a", path, "--team_b", "random", "--games", "1").returncode == 0
        refused(2, *words, line=["eval", "--team_a", f"{path}:look4", "--team_b", "random", "--games", "1"])
    write(tmp_path / "run" / "config.json", json.dumps({"obs": "view", "reward": "score", "rival_reward": 1, "gamma": 0.9}))
    assert call("eval", "--team_a", f"{shaped}:look1", "--team_b", "random", "--games", "1").returncode == 0


# Places that cannot be written


def tiny(runs_dir):
    return flags(TINY | {"runs_dir": runs_dir})


def test_a_place_for_runs_that_cannot_be_used_is_reported(tmp_path):
    write(tmp_path / "file", "")
    refused(4, str(tmp_path / "file"), line=tiny(tmp_path / "file"))
    refused(4, "/proc/snake_ddp_runs", line=tiny("/proc/snake_ddp_runs"))  # even root cannot write there
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)

    def without_override():  # root, too, is held to the folder's mode
        pr_capbset_drop, cap_dac_override = 24, 1
        LIBC.prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0)

    refused(4, str(locked), line=tiny(locked), preexec_fn=without_override)


@pytest.mark.parametrize("limit", [0, 100, 3000])
def test_a_full_disk_is_reported_with_the_path(tmp_path, limit):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = call(*tiny(tmp_path / "runs"), preexec_fn=small_files)
    assert done.returncode == 4, done.stderr
    assert str(tmp_path / "runs") in done.stderr
    assert done.stderr.count("snake_ddp: ") == 1
    # Complete or missing; an unfinished checkpoint keeps its hidden name and does not count.
    left = [path for path in (tmp_path / "runs").rglob("*.pth") if not path.parent.name.startswith(".step_")]
    for path in left:
        torch.load(path, weights_only=True)


def test_a_full_disk_ends_all_ranks(tmp_path):
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *tiny("/proc/snake_ddp_runs"))
        assert sorted(rank.wait() for rank in ranks) == [3, 4]
        assert "rank 0" in ranks[1].text()


# Recorded games


def test_recorded_games_replay_without_a_mismatch():
    done = call("verify-trace", GAMES, "--json")
    assert done.returncode == 0, done.stdout
    reported = only_json(done.stdout)
    assert reported == {"games": 40, "steps": reported["steps"], "mismatches": 0} and reported["steps"] > 4000
    done = call("verify-trace", "--encodings", ENCODINGS, "--traces", GAMES, "--json")
    assert done.returncode == 0, done.stdout
    assert only_json(done.stdout) == {"states": 730, "mismatches": 0}
    plain = call("verify-trace", GAMES)
    assert plain.stdout == f"40 games, {reported['steps']} steps, 0 mismatches\n"


def test_a_changed_record_is_found_and_named(tmp_path):
    lines = gzip.decompress(GAMES.read_bytes()).decode().splitlines()[:30]
    step = json.loads(lines[10])
    step["reward"][4] += 1
    path = write(tmp_path / "changed.jsonl", "\n".join([*lines[:10], json.dumps(step), *lines[11:]]) + "\n")
    done = call("verify-trace", path, "--json")
    assert done.returncode == 1
    reported = only_json(done.stdout)
    assert reported["mismatches"] == 1 and reported["games"] == 1
    assert f"{path}:11: game 0, step 10, reward: expected [" in reported["first_mismatch"] and ", got [" in reported["first_mismatch"]
    plain = call("verify-trace", path)
    assert plain.returncode == 1
    assert f"first mismatch: {reported['first_mismatch']}\n" in plain.stdout


def test_a_record_that_cannot_be_read_is_reported(tmp_path):
    packed = GAMES.read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[:len(packed) // 2])
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    (tmp_path / "flipped.jsonl.gz").write_bytes(flipped)
    write(tmp_path / "text.jsonl", "hello\n")
    write(tmp_path / "field.jsonl", '{"game": "snakes_3v3"}\n')
    write(tmp_path / "deep.jsonl", '{"game": ' + "[" * 200_000 + "]" * 200_000 + "}\n")
    # Few bytes that expand to many values, each of which takes far more memory than its text.
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b'{"steps": [\n' + b"{},\n" * 1_200_000 + b"{}]}\n"))
    for name, words in (("none.jsonl", []), ("cut.jsonl.gz", []), ("text.jsonl", [":1:", "not JSON"]),
                        ("field.jsonl", [":1:", "is missing"]), ("deep.jsonl", [":1:", "brackets more than 32 deep"]),
                        ("bomb.json.gz", ["more than 1048576 values"])):
        refused(4, str(tmp_path / name), *words, line=["verify-trace", tmp_path / name])
    assert call("verify-trace", tmp_path / "flipped.jsonl.gz").returncode in (1, 4)


# JSON for other programs


def evaluate(*line):
    done = call("eval", "--json", *line)
    assert done.returncode == 0, done.stderr
    return only_json(done.stdout)


def test_help_and_documents_name_the_same_scripted_teams():
    listed = re.findall(r"^  (\w+)  ", call("eval", "--help").stdout.partition("Scripted teams:\n")[2], re.M)
    assert "level2" in listed
    assert [row[0].strip("`") for row in tables_of("commands.md")["scripted teams"][2:]] == listed


EVAL_KEYS = ["games", "wins", "draws", "losses", "win_rate", "win_rate_ci95", "score_a", "score_b",
             "deaths_a", "deaths_b", "steps_per_second"]


def without_speed(reported):
    return {key: value for key, value in reported.items() if key != "steps_per_second"}


def test_eval_reports_games_rates_and_scores():
    reported = evaluate("--team_a", "level2", "--team_b", "random", "--games", "100")
    assert list(reported) == EVAL_KEYS
    assert reported["games"] == 100 == reported["wins"] + reported["draws"] + reported["losses"]
    low, high = reported["win_rate_ci95"]
    assert reported["wins"] == 100 * reported["win_rate"] > 90
    assert low < reported["win_rate"] <= high <= 1
    assert reported["score_a"] > reported["score_b"]
    assert reported["steps_per_second"] > 0
    mirrored = evaluate("--team_a", "random", "--team_b", "level2", "--games", "100")
    assert mirrored["losses"] > 90 and mirrored["score_a"] < mirrored["score_b"]


def test_eval_reports_why_snakes_died(tmp_path):
    line = ["--team_a", "level2", "--team_b", "level1", "--games", "40"]
    reported = evaluate(*line, "--record", tmp_path)
    sums = {(team, what): 0 for team in "ab" for what in ("early", "late", "length_early", "length_late")}
    for (team, what) in sums:
        sums[team, what] = sum(cause[what] for cause in reported[f"deaths_{team}"].values())
    # The logs show which snake died, when, and at what length.
    logged = dict.fromkeys(sums, 0)
    for path in tmp_path.iterdir():
        number, before = int(re.search(r"game_(\d+)", path.name)[1]), None
        game = json.loads(path.read_text())
        before = game["init_info"]["snakes_position"]
        for step, after in enumerate((s["info_after"] for s in game["steps"]), 1):
            for snake, hit in enumerate(after["hit"]):
                team, half = "ab"[(snake >= 3) != (number % 2 == 1)], "early" if step <= 100 else "late"
                logged[team, half] += hit
                logged[team, f"length_{half}"] += hit * (len(before[snake]) - 3)
            before = after["snakes_position"]
    assert logged == sums and sums["b", "late"] > 0
    assert reported["deaths_b"]["own_body"]["early"] > reported["deaths_a"]["own_body"]["early"], "level 1 ignores bodies"
    # The same per game, as text.
    table = call("eval", *line).stdout.split("deaths per game")[1]
    rows = {row[:30].strip(): [float(number) for number in row[30:].split()] for row in table.splitlines()[1:]}
    assert rows["all"] == pytest.approx([sum(sums[team, f"{kind}{half}"] for half in ("early", "late")) / 40
                                         for team in "ab" for kind in ("", "length_")], abs=0.006)
    assert rows["of these after step 100"][0] == pytest.approx(sums["a", "late"] / 40, abs=0.006)
    assert sum(row[2] for name, row in rows.items() if name[:2] not in ("al", "of")) == pytest.approx(rows["all"][2], abs=0.03)


def recorded(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def record(*more, games=2, ranks=1, team="level1", tmp_path=None, **flags):
    line = ["eval", "--team_a", team, "--team_b", "level2", "--games", games]
    for name, value in flags.items():
        line += [f"--{name}", value]
    if ranks == 1:
        return call(*line, *more)
    with starter(tmp_path) as start:
        processes = ranks_by_hand(start, ranks, *line, *more)
        codes = {process.wait() for process in processes}
        assert len(codes) == 1
        return subprocess.CompletedProcess(line, codes.pop(), "", processes[0].text())


def test_boards_go_only_with_the_recording_that_is_replaced(tmp_path):
    sets = tmp_path / "sets"
    for name in ("day_1", "day_2", "day_b"):
        assert record(record_boards=sets / f"{name}.boards", seed=len(name)).returncode == 0
    others = recorded(sets)
    assert record(record_boards=sets / "day.boards").returncode == 0
    assert {name: content for name, content in recorded(sets).items() if name != "day.boards"} == others
    refused = record(record_boards=sets / "day.boards", ranks=2, tmp_path=tmp_path)
    assert refused.returncode == 2 and "day_1.boards, which does not belong" in refused.stderr
    assert record(record_boards=sets / "run.boards", ranks=3, games=6, tmp_path=tmp_path).returncode == 0
    assert {"run.boards", "run_1.boards", "run_2.boards"} < set(recorded(sets))
    (sets / "run_3.boards").write_bytes((sets / "run_2.boards").read_bytes())  # says that it is the second rank's
    assert record("--ladder", "level1", record_boards=sets / "run.boards").returncode == 2
    assert {"run_1.boards", "run_2.boards"} < set(recorded(sets)), "what is replaced goes after success"
    fewer = record(record_boards=sets / "run.boards", ranks=2, tmp_path=tmp_path)
    assert fewer.returncode == 0 and "removed" in fewer.stderr and "run_2.boards" in fewer.stderr
    left = recorded(sets)
    assert {"run.boards", "run_1.boards", "run_3.boards"} < set(left) and "run_2.boards" not in left
    (sets / "run.boards").unlink()  # as a crash before the first rank is done leaves it
    assert record(record_boards=sets / "run.boards", ranks=2, tmp_path=tmp_path).returncode == 0
    assert recorded(sets) == left
    assert others.items() <= left.items()


def test_a_recording_replaces_the_one_before_and_mixes_with_no_other(tmp_path):
    folder = tmp_path / "games"
    assert record(record=folder, games=12).returncode == 0
    before = recorded(folder)
    assert len(before) == 12 and "game_11.json" in before
    assert record(record=folder, games=12).returncode == 0 and set(recorded(folder)) == set(before)
    (folder / "notes.json").write_text('{"mine": [1, 2]}')
    (folder / "settings.json").write_text("not JSON")
    again = record(record=folder, games=3, team="level2")
    assert again.returncode == 0 and "removed 12 games of an earlier recording" in again.stderr
    assert set(recorded(folder)) == {"game_0.json", "game_1.json", "game_2.json", "notes.json", "settings.json"}
    assert call("replay", folder / "game_2.json", "--html", tmp_path / "page.html").returncode == 0
    answer = SOURCE / "tests/data/platform_response_3_steps.json"
    for name, content in (("other.json", answer.read_bytes()), ("game_7.json", answer.read_bytes()),
                          ("more.json", b"[" + answer.read_bytes() + b"]"), ("x.boards", b"")):
        (folder / name).write_bytes(content)
        before = recorded(folder)
        refused = record(record=folder, games=2)
        assert refused.returncode == 2 and name in refused.stderr and "Name another folder" in refused.stderr
        assert recorded(folder) == before
        (folder / name).unlink()
    assert record(record=tmp_path / "two", games=3).returncode == 0
    (folder / "game_9.json").write_bytes((tmp_path / "two/game_2.json").read_bytes())
    (tmp_path / "two/kept.json").write_bytes((tmp_path / "two/game_2.json").read_bytes())
    for games in (3, 2):  # the same recording again, and another one
        kept = record(record=tmp_path / "two", games=games)
        assert kept.returncode == 2 and "kept.json" in kept.stderr
    several = record(record=folder, games=2)
    assert several.returncode == 2 and "several recordings" in several.stderr
    both = record(record=tmp_path / "both", record_boards=tmp_path / "both/a.boards")
    assert both.returncode == 2 and "twice" in both.stderr


def test_eval_names_the_recorded_games_that_were_lost(tmp_path):
    line = ["eval", "--team_a", "level1", "--team_b", "level2", "--games", 40, "--seed", 3, "--record"]
    reported = evaluate(*line[1:], tmp_path / "one")
    assert len(reported["lost"]) == reported["losses"] > 20 and reported["lost"] == sorted(reported["lost"])
    for k, path in enumerate(sorted((tmp_path / "one").iterdir())):
        returns = json.loads(path.read_text())["n_return"]
        mine, other = sum(returns[:3]), sum(returns[3:])
        assert (str(path) in reported["lost"]) == (mine > other if k % 2 else mine < other)
    names = [pathlib.Path(path).name for path in reported["lost"]]
    shown = re.search("^lost: (.*)$", call(*line, tmp_path / "two").stdout, re.M)[1]
    assert shown == " ".join(f"{tmp_path}/two/{name}" for name in names[:8]) + f" and {len(names) - 8} more"
    assert "lost:" not in call("eval", "--team_a", "level2", "--team_b", "random", "--games", 4, "--record", tmp_path / "won").stdout
    assert "lost" not in evaluate("--team_a", "level1", "--team_b", "level2", "--games", 2)
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *line, tmp_path / "shared", "--json")
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
    assert [pathlib.Path(path).name for path in json.loads(ranks[0].text().splitlines()[-1])["lost"]] == names


@pytest.mark.parametrize("teams", [["level2", "random"], [PLAYER, "level0"], [f"{PLAYER}:argmax", PLAYER],
                                   [f"{CHAMPION}:look1", f"{CHAMPION}:puct2"]])
def test_eval_is_a_function_of_the_seed(teams):
    line = ["--team_a", teams[0], "--team_b", teams[1], "--games", "70"]
    one, again, other = (without_speed(evaluate(*line, "--seed", seed)) for seed in (5, 5, 6))
    assert one == again != other


@pytest.mark.parametrize("search", ["", ":look1"])
def test_matches_in_bfloat16_need_instructions_and_differ_a_little(search):
    line = ["--team_a", f"{CHAMPION}{search}", "--team_b", "level2", "--games", "32"]
    done = call("eval", *line, "--products", "bf16", "--json")
    if not has_bf16():
        assert done.returncode == 2 and "needs AMX or AVX512-BF16" in done.stderr
        return
    rounded = without_speed(only_json(done.stdout))
    assert rounded == without_speed(evaluate(*line, "--products", "bf16")) != without_speed(evaluate(*line))
    assert rounded["win_rate"] > 0.8


def test_swapping_sides_can_be_switched_off():
    line = ["--team_a", "level1", "--team_b", "level1", "--games", "65"]
    swapped, fixed = evaluate(*line), evaluate(*line, "--no_swap_sides")
    assert without_speed(swapped) != without_speed(fixed)
    assert without_speed(evaluate(*line, "--swap_sides")) == without_speed(swapped)


def test_eval_has_the_same_sums_for_any_number_of_ranks(tmp_path):
    line = ["eval", "--json", "--team_a", PLAYER, "--team_b", "level0", "--games", "200"]
    alone = without_speed(only_json(call(*line).stdout))
    assert alone["games"] == 200
    with starter(tmp_path) as start:
        shared = torchrun(start, 2, BINARY, *line)
        assert shared.wait() == 0, shared.text()
        assert without_speed(only_json(shared.text())) == alone
        ranks = ranks_by_hand(start, 3, *line)
        assert [rank.wait() for rank in ranks] == [0, 0, 0], ranks[0].text()
        assert without_speed(only_json(ranks[0].text())) == alone
        assert ranks[1].text() == ranks[2].text() == ""


# Ladders


def ladder(*line):
    done = call("eval", "--json", *line)
    assert done.returncode == 0, done.stderr
    return only_json(done.stdout)


TEAMS = ["random", "level2", PLAYER]


def test_a_ladder_rates_teams_by_all_their_games():
    reported = ladder("--ladder", *TEAMS, "--games", "70", "--seed", "5")
    assert list(reported) == ["ladder", "pairs", "anchor", "games_per_pair", "seed", "steps_per_second"]
    assert [(p["team_a"], p["team_b"]) for p in reported["pairs"]] == [(TEAMS[0], TEAMS[1]), (TEAMS[0], TEAMS[2]), (TEAMS[1], TEAMS[2])]
    for pair in reported["pairs"]:  # each pair's games are those of eval
        alone = evaluate("--team_a", pair["team_a"], "--team_b", pair["team_b"], "--games", "70", "--seed", "5")
        assert {key: value for key, value in pair.items() if not key.startswith("team")} == {
            key: value for key, value in without_speed(alone).items() if not key.startswith("deaths")}
    assert [row["team"] for row in reported["ladder"]] == ["level2", PLAYER, "random"], "best first"
    ratings = {row["team"]: row["elo"] for row in reported["ladder"]}
    assert sum(ratings.values()) == pytest.approx(0, abs=1e-6) and reported["anchor"] is None
    for row in reported["ladder"]:
        mine = [(p, p["team_a"] == row["team"]) for p in reported["pairs"] if row["team"] in (p["team_a"], p["team_b"])]
        assert row["games"] == 140 == row["wins"] + row["draws"] + row["losses"]
        assert row["wins"] == sum(p["wins" if first else "losses"] for p, first in mine)
        assert row["score"] == pytest.approx(sum(p["score_a" if first else "score_b"] for p, first in mine) / 2)
        assert row["opponents_score"] == pytest.approx(sum(p["score_b" if first else "score_a"] for p, first in mine) / 2)
        low, high = row["elo_ci95"]
        assert low < row["elo"] < high
        # The maximum-likelihood ratings expect exactly the points that were made, including those of the virtual
        # draw.
        expected = sum(71 / (1 + 10 ** ((ratings[p["team_b" if first else "team_a"]] - row["elo"]) / 400)) for p, first in mine)
        assert expected == pytest.approx(row["wins"] + row["draws"] / 2 + 2 * 0.5, abs=1e-6)

    anchored = ladder("--ladder", *TEAMS, "--games", "70", "--seed", "5", "--anchor", "random")
    assert anchored["anchor"] == "random"
    for row in anchored["ladder"]:
        assert row["elo"] == pytest.approx(ratings[row["team"]] - ratings["random"], abs=1e-6)
    assert anchored["ladder"][-1]["elo_ci95"] == pytest.approx([0, 0], abs=1e-6)


def test_a_ladder_has_the_same_numbers_for_any_number_of_ranks(tmp_path):
    line = ["eval", "--json", "--ladder", "level0", "level2", f"{PLAYER}:argmax", "--games", "200"]
    alone = without_speed(only_json(call(*line).stdout))
    with starter(tmp_path) as start:
        shared = torchrun(start, 2, BINARY, *line)
        assert shared.wait() == 0, shared.text()
        assert without_speed(only_json(shared.text())) == alone
        ranks = ranks_by_hand(start, 3, *line)
        assert [rank.wait() for rank in ranks] == [0, 0, 0], ranks[0].text()
        assert without_speed(only_json(ranks[0].text())) == alone


def test_a_sequential_test_plays_pairs_until_it_is_decided(tmp_path):
    line = ["eval", "--json", "--team_a", "territory", "--team_b", "level2", "--sprt", "0", "10", "--seed", "3"]
    alone = only_json(call(*line, "--games", "2000").stdout)
    assert alone["verdict"] == "above elo0" and alone["log_likelihood_ratio"] > math.log(19)
    assert sum(alone["pairs"]) * 2 == alone["games"] < 2000, "decided early"
    points = sum(k / 2 * n for k, n in enumerate(alone["pairs"]))
    assert points == alone["wins"] + alone["draws"] / 2
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *line, "--games", "2000")
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
        assert only_json(ranks[0].text()) == alone
    # A team against itself, from the same start with sides swapped: a script makes as many points of each pair as its opponent.
    same = only_json(call("eval", "--json", "--team_a", "level2", "--team_b", "level2", "--sprt", "0", "10").stdout)
    assert same["pairs"][2] * 2 == same["games"] and same["verdict"] == "below elo1"
    text = call("eval", "--team_a", "level2", "--team_b", "level4", "--sprt", "0", "1", "--games", "100").stdout
    assert "undecided after 100 games, play more with --games" in text, text
    for wrong, message in ((["--sprt", "10", "0"], "the first must be lower"), (["--sprt", "0", "10", "--watch"], "cannot be combined"),
                           (["--sprt", "5"], "--sprt")):
        refused = call("eval", "--team_a", "level2", "--team_b", "level4", *wrong)
        assert refused.returncode == 2 and message in refused.stderr, refused.stderr


def test_a_ladder_is_printed_as_a_table():
    done = call("eval", "--ladder", "random", "level2", "--games", "30", "--anchor", "random")
    assert done.returncode == 0, done.stderr
    head, first, second, last = done.stdout.splitlines()
    assert head.split() == ["team", "Elo", "95", "%", "interval", "points", "won", "drawn", "lost", "mean", "score"]
    assert first.startswith("level2 ") and second.startswith("random ") and second.split()[1:3] == ["0", "anchor"]
    assert int(first.split()[1]) > 0
    assert last.startswith("30 games of each pair, random is 0")
    # level1 lost all games against level2 and won all against random: its rating is 0 up to rounding, from below.
    lines = call("eval", "--ladder", "random", "level1", "level2", "--games", "2", "--seed", "1").stdout.splitlines()
    assert lines[2].split()[:2] == ["level1", "0"]


def test_a_board_can_be_shown():
    done = call("eval", "--team_a", "level2", "--team_b", "random", "--games", "1", "--show", "3")
    assert done.returncode == 0
    assert sum(len(line) >= 20 for line in done.stdout.splitlines()) >= 10, "ten rows of a board"


def test_info_describes_the_program_a_run_and_weights(tmp_path):
    about = only_json(call("info", "--json").stdout)
    assert about["version"].startswith("snake_ddp ") and "gloo" in about["backends"]
    (algo,) = (row for row in tables_of("flags.md")["train: As in the Python trainer"] if row[0] == "`--algo`")
    assert about["learners"] == re.findall(r"`(\w+)`", algo[2])

    done = call(*tiny(tmp_path), "--save_interval", "1")
    assert done.returncode == 0, done.stderr
    folder = run_folder(done.stdout)
    about = only_json(call("info", folder, "--json").stdout)
    assert about["whole"] is True and about["settings"]["hidden_size"] == 16
    assert "actor_4.pth" in about["models"] and "critic_4.pth" in about["models"]
    weights = folder / "trained_model" / "actor_4.pth"
    about = only_json(call("info", weights, "--json").stdout)
    assert about["parameters"] == sum(t.numel() for t in torch.load(weights, weights_only=True).values())
    assert about["tensors"]["prev_dense.0.weight"]["shape"] == [16, 30]

    saved = weights.read_bytes()
    weights.write_bytes(saved[:-100])
    done = call("info", folder, "--json")
    assert done.returncode == 4
    assert only_json(done.stdout)["whole"] is False and str(weights) in only_json(done.stdout)["broken"][0]
    (folder / "config.json").write_text("{")
    refused(4, "config.json", line=["info", folder])
    weights.write_bytes(saved)
    assert call("eval", "--team_a", weights, "--team_b", "level0", "--games", "2").returncode == 0, "its record says enough"
    torch.save(torch.load(weights, weights_only=True), weights)  # without the record
    refused(4, "config.json", line=["eval", "--team_a", weights, "--team_b", "level0", "--games", "2"])
    (folder / "config.json").write_text('{"output_activation": 7}')
    refused(4, "output_activation 7: not a known value", line=["eval", "--team_a", weights, "--team_b", "level0", "--games", "2"])
    refused(4, "is not a run folder", line=["info", tmp_path])
    done = refused(4, "nowhere.pth", line=["info", tmp_path / "nowhere.pth"])
    assert done.stderr.endswith("Check the path.\n"), done.stderr


def test_info_of_several_paths(tmp_path):
    (tmp_path / "broken.pth").write_text("not weights\n")
    paths = [CHAMPION, tmp_path / "broken.pth", ACTOR]
    done = call("info", *paths, "--json")
    assert done.returncode == 4 and done.stderr == ""
    whole, broken, actor = only_json(done.stdout)["paths"]
    assert (whole["weights"], broken["path"], actor["weights"]) == tuple(map(str, paths))
    assert whole["whole"] and actor["whole"] and not broken["whole"] and "broken.pth" in broken["damage"]
    done = call("info", CHAMPION, ACTOR)
    assert done.returncode == 0 and done.stdout.count("parameters ") == 2


def test_tensor_names_that_are_not_text_are_shown_too(tmp_path):
    torch.save({"a\x1b[31m??": torch.ones(2)}, tmp_path / "a.pth", _use_new_zipfile_serialization=False)
    (tmp_path / "a.pth").write_bytes((tmp_path / "a.pth").read_bytes().replace(b"??", b"\xff\xfe"))
    about = only_json(call("info", tmp_path / "a.pth", "--json").stdout)
    assert list(about["tensors"]) == ["a\x1b[31m\ufffd\ufffd"]
    done = call("info", tmp_path / "a.pth")
    assert done.returncode == 0 and "\\u001b[31m" in done.stdout and "\x1b" not in done.stdout


def test_a_reader_that_goes_away_does_no_harm(tmp_path):
    with starter(tmp_path) as start:
        run = start(["bash", "-c", f'"$@" | head -n 1; echo "exit ${{PIPESTATUS[0]}}"', "bash", BINARY, *tiny(tmp_path),
                     "--log_every_episode"])
        assert run.wait() == 0
        assert "exit 0" in run.text(), run.text()
    assert "Training completed!" in next(tmp_path.glob("snakes_3v3/*/train.log")).read_text()


def test_rewards_that_a_critic_of_one_snake_cannot_divide_cause_a_warning():
    for given, warned in ((["--rival_reward", "0.5"], True), (["--own_reward", "0.5"], True), ([], False),
                          (["--algo", "bicnet", "--rival_reward", "0.5"], False)):
        done = call("train", "--check_settings", *given)
        assert done.returncode == 0 and ("learn badly" in done.stderr) == warned, done.stderr
