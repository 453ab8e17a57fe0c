"""Records the updates of PQN and PQN-VDN on one rollout, written down plainly with torch.nn and torch.optim.

    python3 tests/learners/record_pqn.py pqn tests/data/pqn_updates.pth
    python3 tests/learners/record_pqn.py pqn_vdn tests/data/pqn_vdn_updates.pth

What is recorded is an oracle for learners::Pqn, see test_pqn_golden.cpp; nothing here follows its code.
"""

import sys

import torch
from torch import nn

FEATURES, HIDDEN, MOVES, STEPS, SNAKES, EPOCHS, PARTS = 41, 32, 4, 7, 3, 2, 3
GAMMA, LAMBDA, LEARNING_RATE, MAX_GRAD_NORM = 0.97, 0.65, 4e-4, 0.5
# Games as (first step, last step, how the last one ended); a seat's next game begins after its last one.
SEATS = [[(0, 6, "goes on")], [(0, 2, "over"), (3, 6, "goes on")], [(0, 0, "over"), (1, 4, "cut off"), (5, 6, "over")],
         [(2, 5, "cut off")], [(4, 6, "goes on")]]


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_net = nn.ModuleList([nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, MOVES)])
        self.norm_0 = nn.LayerNorm(HIDDEN)
        self.norm_1 = nn.LayerNorm(HIDDEN)

    def forward(self, x):
        x = torch.relu(self.norm_0(self.q_net[0](x)))
        x = torch.relu(self.norm_1(self.q_net[1](x)))
        return self.q_net[2](x)


def play():
    """Transitions by (step, seat); a game's observations are those between which it moves."""
    games = []
    for seat, spans in enumerate(SEATS):
        for first, last, end in spans:
            seen = torch.randn(last - first + 2, SNAKES, FEATURES)
            games.append([{"seat": seat, "step": step, "observation": seen[k], "next_observation": seen[k + 1],
                           "action": torch.randint(MOVES, (SNAKES,)), "reward": torch.randn(SNAKES),
                           "over": end == "over" and step == last,
                           "next_moves": torch.rand(SNAKES, MOVES) < 0.6} for k, step in enumerate(range(first, last + 1))])
    for game in games:
        for t in game:
            t["next_moves"][~t["next_moves"].any(1)] = True  # never none
    return games


def returns(net, game):
    """Lambda-returns of one game's stretch, backward as in the paper's algorithm."""
    later = None
    for t in reversed(game):
        with torch.no_grad():
            best = net(t["next_observation"]).masked_fill(~t["next_moves"], -torch.inf).max(-1).values
        if t["over"]:
            t["return"] = t["reward"]
        elif later is None:
            t["return"] = t["reward"] + GAMMA * best
        else:
            t["return"] = t["reward"] + GAMMA * (LAMBDA * later + (1 - LAMBDA) * best)
        later = t["return"]


def main(algo, path):
    torch.manual_seed(20261121)
    net = QNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    out = {f"net0.{k}": v.clone() for k, v in net.state_dict().items()}
    games = play()
    for game in games:
        returns(net, game)
    rows = sorted((t for game in games for t in game), key=lambda t: (t["step"], t["seat"]))
    place = {(t["step"], t["seat"]): i for i, t in enumerate(rows)}
    for game in games:
        for before, t in zip([None] + game, game):
            t["back"] = place[t["step"], t["seat"]] - place[before["step"], before["seat"]] if before else 0
    rollout = {name: torch.stack([t[name] for t in rows]).float() for name in
               ("observation", "reward", "next_observation", "next_moves", "return")}
    rollout["action"] = torch.stack([nn.functional.one_hot(t["action"], MOVES) for t in rows]).float()
    rollout["discount"] = torch.tensor([[0.0 if t["over"] else GAMMA] * SNAKES for t in rows])
    rollout["back"] = torch.tensor([[float(t["back"])] for t in rows])
    out |= {f"rollout.{k}": v for k, v in rollout.items()}
    update = 0
    for _ in range(EPOCHS):
        for part in torch.randperm(len(rows)).chunk(PARTS):
            values = net(rollout["observation"][part])
            chosen = (values * rollout["action"][part]).sum(-1)
            error = chosen - rollout["return"][part]
            if algo == "pqn_vdn":
                error = error.sum(1)
            loss = 0.5 * error.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            recorded = {"rows": part, "loss": loss, "norm": norm, "q_mean": values.mean()}
            out |= {f"update{update}.{k}": v.detach().float().clone() for k, v in recorded.items()}
            update += 1
    out |= {f"net_after.{k}": v.clone() for k, v in net.state_dict().items()}
    torch.save(out, path)


main(sys.argv[1], sys.argv[2])
