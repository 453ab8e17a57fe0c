"""Runs with random settings, each resumed from random checkpoints: all end with the same bits. Started by tests/resume.sh."""

import argparse
import pathlib
import random
import sys
import tempfile

from processes import SOURCE, TINY, call, fingerprint, flags, run_folder

CHAMPION = SOURCE / "models" / "champion.pth"
ROLLOUTS, ACTORS = ("pqn", "pqn_vdn"), ("ddpg", "bicnet")
WITH_TOKENS = ("dqn", "vdn", "qmix", "rqmix")
LEARNERS = (*ACTORS, *WITH_TOKENS, *ROLLOUTS)
SCRIPTS = ["level0:0.3,level4:0.7", "level2:0.5,territory:0.5", ""]


def pretrained(folder):
    """Small pretrained networks, made if they are not there yet."""
    if not (folder / "mask_predictor_best.pth").exists():
        boards = folder / "games" / "a.boards"
        common = ["--data_path", boards.parent, "--cache_dir", folder / "cache", "--save_dir", folder, "--epochs", 1, "--threads", 1]
        for line in (["eval", "--team_a", "level2", "--team_b", "level4", "--games", 20, "--record_boards", boards],
                     ["pretrain", "--stage", "tokenizer", *common, "--graph_dim", 8, "--codebook_size", 16, "--tokens_per_snake", 2,
                      "--code_dim", 4],
                     ["pretrain", "--stage", "mask_predictor", *common, "--hidden_dim", 16, "--num_encoder_layers", 1,
                      "--num_decoder_layers", 1, "--num_heads", 2]):
            done = call(*line)
            assert done.returncode == 0, done.stderr
    return folder


def drawn(dice, tokens):
    """The number of ranks, and settings that go together. `tokens`: a folder for pretrained networks."""
    algo = dice.choice(LEARNERS)
    ranks = dice.randint(1, 3)
    mixes = ["level2:0.5,self:0.5", "level0:0.3,level4:0.7", "territory:0.3,self:0.3,league:0.4", "level2:0.5,league:0.5", ""]
    s = TINY | {"algo": algo, "seed": dice.randrange(1000), "max_episodes": dice.randint(12, 20), "num_envs": dice.randint(1, 5),
                "checkpoint_interval": dice.randint(2, 4), "keep_checkpoints": 1000, "buffer_size": dice.choice((200, 600, 3000)),
                "epsilon": dice.choice((0.3, 0.9)), "epsilon_speed": dice.choice((1, 0.9995, 0.99)),
                "lr_end": dice.choice((1, 0.1)), "updates_per_step": dice.choice((0.1, 0.25, 0.5)),
                "eval_interval": dice.choice((0, 5)), "eval_games": 8, "dist_timeout": 60}
    if algo in WITH_TOKENS and dice.random() < 0.3:
        s |= {"obs": "window", "view_radius": 4, "tokens": pretrained(tokens)}
        mixes = SCRIPTS
    elif algo not in ACTORS and dice.random() < 0.7:
        s |= {"obs": "ahead", "mask_fatal": True, "reward": "score"}
        if algo != "rqmix":
            mixes += [f"level2:0.2,self:0.3,file:{CHAMPION}:0.5", f"league:0.6,file:{CHAMPION}:0.4"]
    if dice.random() < 0.3:
        s["epsilon_min"] = 0.02
    if algo in ROLLOUTS:
        s |= {"rollout_steps": dice.randint(16, 24), "rollout_epochs": dice.randint(1, 3), "td_lambda": 0.8}
        del s["updates_per_step"], s["buffer_size"]
    elif algo == "rqmix":
        s |= {"sequence_length": 6, "burn_in": 2}
    else:
        s["n_step"] = dice.randint(1, 3)
    if algo != "rqmix" and dice.random() < 0.3:
        s |= {"boards": "device", "device": "cpu", "record_interval": 0}
    mix = dice.choice(mixes)
    if mix:
        s["opponent_mix"] = mix
        s["num_envs"] = max(s["num_envs"], mix.count(",") + 1)  # a board for each
    if "league" in mix:
        s |= {"league_interval": 3, "league_games": 100, "league_win_rate": 0}
    averaging = dice.choice(({}, {}, {"local_updates": 4},
                             {"local_updates": 6, "outer_momentum": 0.5}))
    return ranks, s | averaging


def bits(text):
    """Of the weights and of each rank's boards; the last batch may come before the last checkpoint."""
    found = fingerprint(text)
    return found["weights"], {rank: boards for rank, (boards, _) in found["ranks"].items()}


def one_draw(dice, folder, most, tokens):
    """Why a resumed run differs from the undisturbed one; empty if none of at most `most` does. And what was tried."""
    ranks, settings = drawn(dice, tokens)
    line = f"{ranks} ranks: {' '.join(flags(settings))}"

    def run(*more):
        return call("--ddp", "--world_size", ranks, *more, timeout=300)

    whole = run(*flags(settings | {"runs_dir": folder}))
    if whole.returncode != 0:
        return f"it fails: {whole.stderr}", line
    expected, of = bits(whole.stdout), run_folder(whole.stdout)
    all_steps = sorted((path for path in (of / "checkpoints").glob("step_*")), reverse=True)[1:]
    for checkpoint in sorted(dice.sample(all_steps, min(most, len(all_steps))), reverse=True):  # each sets later ones aside
        again = run("--resume", checkpoint)
        if again.returncode != 0 or "Resumed from checkpoint step" not in again.stdout:
            return f"resumed from {checkpoint.name} it fails: {again.stdout}{again.stderr}", line
        if bits(again.stdout) != expected:
            return f"resumed from {checkpoint.name}: {bits(again.stdout)}, not {expected}", line
    return "", line


def many_draws(count, seed, scratch, say=print, most=3):
    """The troubles."""
    troubles = []
    for number in range(count):
        folder = pathlib.Path(scratch) / str(number)
        trouble, line = one_draw(random.Random(f"{seed} {number}"), folder, most, pathlib.Path(scratch) / "pretrained")
        say(f"{number}: {line}{': ' + trouble if trouble else ''}")
        troubles += [f"draw {number} of seed {seed}: {line}: {trouble}"] if trouble else []
    return troubles


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="snake_ddp_resume.") as scratch:
        troubles = many_draws(arguments.draws, arguments.seed, scratch)
    print(f"{arguments.draws - len(troubles)} of {arguments.draws} end with the same bits")
    sys.exit(bool(troubles))


if __name__ == "__main__":
    main()
