"""Records five updates of a double DQN, of its VDN or its QMIX, written down plainly with torch.nn and torch.optim.

    python3 tests/learners/record_dqn.py dqn tests/data/dqn_updates.pth
    python3 tests/learners/record_dqn.py vdn tests/data/vdn_updates.pth
    python3 tests/learners/record_dqn.py qmix tests/data/qmix_updates.pth

What is recorded is an oracle for learners::Dqn, see test_dqn_golden.cpp; nothing here follows its code.
"""

import sys

import torch
from torch import nn

FEATURES, HIDDEN, MOVES, BATCH, UPDATES = 41, 32, 4, 24, 5
TAU, LEARNING_RATE, MAX_GRAD_NORM = 0.01, 4e-4, 0.5


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


class Mixer(nn.Module):
    """Hypernetworks of one layer, the last one of two; the state is all that the team sees, and a constant for each snake."""

    EMBED = 32

    def __init__(self):
        super().__init__()
        state = 3 * (FEATURES + 1)
        self.first, self.bias, self.second, self.hidden = (nn.Linear(state, width, bias=False) for width in
                                                           (3 * self.EMBED, self.EMBED, self.EMBED, self.EMBED))
        self.value = nn.Linear(self.EMBED, 1)

    def forward(self, q, seen):
        state = torch.cat([seen, torch.ones(BATCH, 3, 1)], 2).flatten(1)
        weights = self.first(state).abs().view(BATCH, 3, self.EMBED)
        hidden = nn.functional.elu(torch.einsum("bn,bne->be", q, weights) + self.bias(state))
        return (hidden * self.second(state).abs()).sum(1) + self.value(self.hidden(state).relu()).squeeze(1)

    def recorded(self):
        layers = (self.first, self.bias, self.second, self.hidden)
        return {"mixer.hyper.weight": torch.cat([layer.weight for layer in layers]).t().contiguous(),
                "mixer.value.weight": self.value.weight.squeeze(0), "mixer.value.bias": self.value.bias}


def main(algo, path):
    torch.manual_seed(20261121)
    net, target = QNet(), QNet()  # the target starts elsewhere, so that the two cannot be mixed up
    optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    if algo == "qmix":
        mixer, mixer_target = Mixer(), Mixer()
        mixer_optimizer = torch.optim.Adam(mixer.parameters(), lr=LEARNING_RATE)
    huber = nn.SmoothL1Loss()
    out = {f"net0.{k}": v.clone() for k, v in net.state_dict().items()}
    out |= {f"target0.{k}": v.clone() for k, v in target.state_dict().items()}
    if algo == "qmix":
        out |= {f"{kind}0.{k}": v.detach().clone() for kind, m in (("mixer", mixer), ("mixer_target", mixer_target))
                for k, v in m.recorded().items()}
    for update in range(UPDATES):
        state, next_state = torch.randn(BATCH, 3, FEATURES), torch.randn(BATCH, 3, FEATURES)
        action = torch.randint(MOVES, (BATCH, 3))
        reward = 3 * torch.randn(BATCH, 3)  # errors on both sides of Huber's corner
        discount = 0.97**3 * (torch.rand(BATCH, 3 if algo != "qmix" else 1) < 0.9).expand(BATCH, 3)
        moves = (torch.rand(BATCH, 3, MOVES) < 0.6).float()
        moves[moves.sum(-1) == 0] = 1.0  # never none
        with torch.no_grad():
            best = net(next_state).masked_fill(moves == 0, -torch.inf).argmax(-1, keepdim=True)
            next_value = target(next_state).gather(-1, best).squeeze(-1)
            y = reward + discount * next_value
            if algo == "qmix":
                y = reward.sum(1) + discount[:, 0] * mixer_target(next_value, next_state)
        values = net(state)
        chosen = values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        if algo == "qmix":
            loss = huber(mixer(chosen, state), y)
            mixer_optimizer.zero_grad()
        else:
            loss = huber(chosen, y) if algo == "dqn" else huber(chosen.sum(1), y.sum(1))
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        pairs = list(zip(target.parameters(), net.parameters()))
        if algo == "qmix":
            nn.utils.clip_grad_norm_(mixer.parameters(), MAX_GRAD_NORM)  # each network by its own norm
            mixer_optimizer.step()
            pairs += zip(mixer_target.parameters(), mixer.parameters())
        with torch.no_grad():
            for slow, fast in pairs:
                slow.lerp_(fast, TAU)
        recorded = {"state": state, "action": nn.functional.one_hot(action, MOVES), "reward": reward,
                    "next_state": next_state, "discount": discount, "next_moves": moves, "loss": loss, "norm": norm,
                    "q_mean": values.mean()}
        out |= {f"update{update}.{k}": v.detach().float().clone() for k, v in recorded.items()}
    out |= {f"net5.{k}": v.clone() for k, v in net.state_dict().items()}
    out |= {f"target5.{k}": v.clone() for k, v in target.state_dict().items()}
    if algo == "qmix":
        out |= {f"{kind}5.{k}": v.detach().clone() for kind, m in (("mixer", mixer), ("mixer_target", mixer_target))
                for k, v in m.recorded().items()}
    torch.save(out, path)


main(sys.argv[1], sys.argv[2])
