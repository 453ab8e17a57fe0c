"""From the program to Python and back: a small network learns to move as a trained one does.

    python examples/distil.py --teacher models/champion.pth --save small.pth
    ./snake_ddp eval --team_a small.pth --team_b level2
"""

import argparse

import numpy as np
import torch

from snake_ddp import networks, turned_moves
from snake_ddp.envs import SnakeVectorEnv


def distil(teacher_file, steps=400, snakes=192, hidden=64, opponent="level2", seed=1, report=print):
    """Returns the small network, and how often it last chose the teacher's move."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    teacher = networks.load(teacher_file)  # a Q-network: the best open move is the one to make
    student = networks.QNetwork(teacher.features, hidden)
    student.obs, student.record = teacher.obs, teacher.record
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    envs = SnakeVectorEnv(snakes, obs=teacher.obs, opponent=opponent, copy=False)
    seen, _ = envs.reset(seed=seed)
    agreed = []
    for step in range(steps):
        directions = torch.from_numpy(turned_moves(seen, teacher.obs).copy())  # of the networks' moves
        features, is_open = torch.from_numpy(seen), torch.from_numpy(envs.open_moves()).gather(1, directions)
        with torch.no_grad():
            wanted = teacher(features).masked_fill(~is_open, -torch.inf).argmax(1)
        values = student(features).masked_fill(~is_open, -1e9)
        loss = torch.nn.functional.cross_entropy(values, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        chosen = values.argmax(1)
        agreed.append(float((chosen == wanted).float().mean()))
        # The student plays, and sometimes moves are random: it must also learn in positions that its own moves lead
        # to.
        anyone = torch.from_numpy(random.random(snakes) < 0.1)
        moves = torch.where(anyone, torch.from_numpy(random.integers(4, size=snakes)), chosen)
        seen, *_ = envs.step(directions.gather(1, moves[:, None])[:, 0].numpy())
        if (step + 1) % 100 == 0:
            report(f"step {step + 1}: the same move in {100 * np.mean(agreed[-100:]):.1f} % of the cases")
    return student, float(np.mean(agreed[-50:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", default="models/champion.pth", help="a Q-network's file")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save", metavar="FILE", default="small.pth")
    line = parser.parse_args()
    student, _ = distil(line.teacher, line.steps)
    networks.save(student, line.save)
    print(f"Wrote {line.save}")


if __name__ == "__main__":
    main()
