"""PQN in one file: teams that share one Q-network learn from what they have just played, without replay or target network.

    python examples/pqn.py --total_steps 1000000 --save pqn.pth
    ./snake_ddp eval --team_a pqn.pth --team_b level2

Follows Gallici et al., "Simplifying deep temporal difference learning", arXiv:2407.04811, algorithm 1; layer norm keeps it stable.
The program learns the same with --algo pqn_vdn, or pqn with --value snake (docs/learners/pqn.md, which also compares the two).
"""

import argparse
import dataclasses
import pathlib
import tempfile
import time

import numpy as np
import torch
from torch import nn

import snake_ddp
from snake_ddp import networks


@dataclasses.dataclass
class Settings:
    """As the program's flags of these names."""

    seed: int = 1
    total_steps: int = 1_000_000  # of boards
    obs: str = "view"
    opponent: str = "level2:0.5,territory:0.5"
    value: str = "team"  # what the network's values sum to: those of a "team" (VDN), or each "snake" its own
    num_envs: int = 128
    rollout_steps: int = 16
    rollout_epochs: int = 2
    batch_size: int = 256  # transitions, three snakes each
    hidden_size: int = 256
    gamma: float = 0.99
    td_lambda: float = 0.65
    c_lr: float = 4e-4
    lr_end: float = 0.1
    max_grad_norm: float = 5.0
    epsilon: float = 0.3
    epsilon_min: float = 0.005
    eval_steps: int = 100_000  # between evaluations
    eval_games: int = 1000
    eval_opponent: str = "territory"


def open_values(network, boards, seen):
    """The values of the moves that are neither certain death nor a reversal; -inf for the others."""
    return network(seen).masked_fill(~torch.from_numpy(boards.open_moves()), -torch.inf)


def returns_of(rewards, ends, best, last_best, gamma, td_lambda):
    """Lambda-returns, from the last step back. `best[t]` is what the best move of step t is worth, `last_best` that after the rollout.

    Shapes  rewards, best [T, N, 3], ends [T, N, 1], last_best [N, 3]; returns [T, N, 3].
    """
    returns = torch.empty_like(rewards)
    later = after = last_best
    for t in reversed(range(len(rewards))):
        returns[t] = rewards[t] + gamma * (1 - ends[t]) * ((1 - td_lambda) * after + td_lambda * later)
        later, after = returns[t], best[t]
    return returns


def evaluate(network, s):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "network.pth"
        networks.save(network, file)
        return snake_ddp.evaluate(str(file), s.eval_opponent, games=s.eval_games, seed=s.seed)


def train(s, report=print):
    """Returns the trained network, and the curve: steps and win rates of the evaluations."""
    torch.manual_seed(s.seed)
    boards = snake_ddp.Boards(s.num_envs, obs=s.obs, reward="score", opponent=s.opponent, autoreset="same_step")
    boards.reset(seed=s.seed)
    features = boards.observations.shape[-1]
    network = networks.QNetwork(features, s.hidden_size, layer_norm=True)  # one that the program plays
    optimizer = torch.optim.Adam(network.parameters(), lr=s.c_lr)
    # Each board explores at a rate of its own, which stays.
    epsilons = torch.tensor(np.geomspace(s.epsilon_min, s.epsilon, s.num_envs)[:, None])

    shape = (s.rollout_steps, s.num_envs, 3)
    seen, moves = torch.zeros(*shape, features), torch.zeros(shape, dtype=torch.int64)
    rewards, best, ends = torch.zeros(shape), torch.zeros(shape), torch.zeros(*shape[:2], 1)
    per_rollout = s.rollout_steps * s.num_envs
    rollouts = -(-s.total_steps // per_rollout)
    curve, begun = [], time.monotonic()

    for rollout in range(rollouts):
        # Play.
        with torch.no_grad():
            for t in range(s.rollout_steps):
                seen[t] = torch.from_numpy(boards.observations)
                values = open_values(network, boards, seen[t])
                best[t], moves[t] = values.max(-1)
                explores = torch.rand(s.num_envs, 3) < epsilons
                anyone = torch.multinomial(values.isfinite().float().flatten(0, 1), 1).view(s.num_envs, 3)
                moves[t] = torch.where(explores, anyone, moves[t])
                boards.step(moves[t].numpy().astype(np.uint8))
                rewards[t] = torch.from_numpy(boards.rewards)
                ends[t, :, 0] = torch.from_numpy(boards.terminated)  # games are played to their end, so none is truncated
            last_best = open_values(network, boards, torch.from_numpy(boards.observations)).amax(-1)
        returns = returns_of(rewards, ends, best, last_best, s.gamma, s.td_lambda)

        # Learn.
        for group in optimizer.param_groups:
            group["lr"] = s.c_lr * (1 - (1 - s.lr_end) * rollout / rollouts)
        rows = [part.flatten(0, 1) for part in (seen, moves, returns)]
        for _ in range(s.rollout_epochs):
            for chosen in torch.randperm(per_rollout).chunk(max(1, per_rollout // s.batch_size)):
                x, move, target = (part[chosen] for part in rows)
                error = network(x).gather(-1, move[..., None])[..., 0] - target
                if s.value == "team":
                    error = error.sum(-1)
                loss = 0.5 * error.square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), s.max_grad_norm)
                optimizer.step()

        steps = (rollout + 1) * per_rollout
        if steps // s.eval_steps > (steps - per_rollout) // s.eval_steps or rollout + 1 == rollouts:
            match = evaluate(network, s)
            curve.append((steps, match.win_rate))
            speed = steps / (time.monotonic() - begun)
            report(f"{steps} steps, {speed:.0f}/s, loss {loss.item():.3f}: won {100 * match.win_rate:.1f} % against {s.eval_opponent}")
    return network, curve


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Settings):
        parser.add_argument(f"--{field.name}", type=field.type, default=field.default, help=f"[{field.default}]")
    parser.add_argument("--save", metavar="FILE", help="write the network's weights")
    line = vars(parser.parse_args())
    save = line.pop("save")
    network, _ = train(Settings(**line))
    if save:
        networks.save(network, save)
        print(f"Wrote {save}")


if __name__ == "__main__":
    main()
