"""Records five updates of a recurrent QMIX written down plainly with torch.nn and torch.optim, window by window.

    python3 tests/learners/record_rqmix.py tests/data/rqmix_updates.pth

What is recorded is an oracle for learners::Rqmix, see test_rqmix_golden.cpp; nothing here follows its code.
"""

import sys

import torch
from torch import nn

FEATURES, HIDDEN, MOVES, SNAKES, UPDATES = 41, 16, 4, 3, 5
LENGTH, BURN_IN = 5, 2
COUNTS = [5, 5, 3, 1, 4, 5]  # transitions of each window that are there, at its end
TAU, LEARNING_RATE, MAX_GRAD_NORM = 0.01, 4e-4, 0.5


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_net = nn.ModuleList([nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, MOVES)])
        self.gru = nn.GRUCell(HIDDEN, HIDDEN)

    def forward(self, x, state):
        state = self.gru(torch.relu(self.q_net[0](x)), state)
        return self.q_net[1](state), state


class Mixer(nn.Module):
    """Hypernetworks of one layer, the last one of two; the state is all that the team sees, and a constant for each snake."""

    EMBED = 32

    def __init__(self):
        super().__init__()
        state = SNAKES * (FEATURES + 1)
        self.first, self.bias, self.second, self.hidden = (nn.Linear(state, width, bias=False) for width in
                                                           (SNAKES * self.EMBED, self.EMBED, self.EMBED, self.EMBED))
        self.value = nn.Linear(self.EMBED, 1)

    def forward(self, q, seen):
        state = torch.cat([seen, torch.ones(SNAKES, 1)], 1).flatten()
        hidden = nn.functional.elu(q @ self.first(state).abs().view(SNAKES, self.EMBED) + self.bias(state))
        return (hidden * self.second(state).abs()).sum() + self.value(self.hidden(state).relu()).squeeze(0)

    def recorded(self):
        layers = (self.first, self.bias, self.second, self.hidden)
        return {"mixer.hyper.weight": torch.cat([layer.weight for layer in layers]).t().contiguous(),
                "mixer.value.weight": self.value.weight.squeeze(0), "mixer.value.bias": self.value.bias}


def values_of(agent, window, count):
    """Values at each transition that is there and after the last one, by place in the window."""
    state, values = torch.zeros(SNAKES, HIDDEN), {}
    for place in range(LENGTH - count, LENGTH + 1):
        seen = window["seen"][place]
        if place < BURN_IN:
            with torch.no_grad():
                values[place], state = agent(seen, state)
        else:
            values[place], state = agent(seen, state)
    return values


def main(path):
    torch.manual_seed(20261121)
    agent, target, mixer, mixer_target = Agent(), Agent(), Mixer(), Mixer()
    out = {f"{kind}0.{k}": v.clone() for kind, m in (("net", agent), ("target", target)) for k, v in m.state_dict().items()}
    out |= {f"{kind}0.{k}": v.detach().clone() for kind, m in (("mixer", mixer), ("mixer_target", mixer_target))
            for k, v in m.recorded().items()}
    optimizer, mixer_optimizer = (torch.optim.Adam(m.parameters(), lr=LEARNING_RATE) for m in (agent, mixer))
    huber = nn.SmoothL1Loss(reduction="sum")
    for update in range(UPDATES):
        windows = []
        for number, count in enumerate(COUNTS):
            over = torch.zeros(LENGTH)
            over[-1] = number % 2  # a game ends with its window's last transition, or goes on
            moves = torch.rand(LENGTH, SNAKES, MOVES) < 0.6
            moves[~moves.any(-1)] = True  # never none
            there = torch.zeros(LENGTH, 1)
            there[LENGTH - count:] = 1
            windows.append({"seen": torch.randn(LENGTH + 1, SNAKES, FEATURES), "there": there,
                            "action": torch.randint(MOVES, (LENGTH, SNAKES)), "reward": 2 * torch.randn(LENGTH, SNAKES),
                            "discount": (0.97 * (1 - over)).unsqueeze(1).expand(LENGTH, SNAKES), "next_moves": moves})
        loss, seen_values = torch.zeros(()), []
        for window, count in zip(windows, COUNTS):
            values, later = values_of(agent, window, count), values_of(target, window, count)
            for place in range(max(BURN_IN, LENGTH - count), LENGTH):
                best = values[place + 1].detach().masked_fill(~window["next_moves"][place], -torch.inf).argmax(1, keepdim=True)
                next_value = later[place + 1].gather(1, best).squeeze(1).detach()
                y = window["reward"][place].sum() + window["discount"][place, 0] * mixer_target(
                    next_value, window["seen"][place + 1]).detach()
                chosen = values[place].gather(1, window["action"][place].unsqueeze(1)).squeeze(1)
                loss = loss + huber(mixer(chosen, window["seen"][place]), y)
        loss = loss / (len(COUNTS) * (LENGTH - BURN_IN))
        optimizer.zero_grad()
        mixer_optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRAD_NORM)
        nn.utils.clip_grad_norm_(mixer.parameters(), MAX_GRAD_NORM)  # each network by its own norm
        optimizer.step()
        mixer_optimizer.step()
        with torch.no_grad():
            for slow, fast in (*zip(target.parameters(), agent.parameters()), *zip(mixer_target.parameters(), mixer.parameters())):
                slow.lerp_(fast, TAU)
        recorded = {name: torch.cat([w[name] for w in windows]).float() for name in ("reward", "discount", "next_moves", "there")}
        recorded |= {"action": nn.functional.one_hot(torch.cat([w["action"] for w in windows]), MOVES),
                     "state": torch.cat([w["seen"][:-1] for w in windows]),
                     "next_state": torch.cat([w["seen"][1:] for w in windows]), "loss": loss, "norm": norm}
        out |= {f"update{update}.{k}": v.detach().float().clone() for k, v in recorded.items()}
    out |= {f"{kind}5.{k}": v.clone() for kind, m in (("net", agent), ("target", target)) for k, v in m.state_dict().items()}
    out |= {f"{kind}5.{k}": v.detach().clone() for kind, m in (("mixer", mixer), ("mixer_target", mixer_target))
            for k, v in m.recorded().items()}
    torch.save(out, path)


main(sys.argv[1])
