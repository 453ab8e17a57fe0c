"""Two teams of a PettingZoo game: one avoids certain death, the other moves at random.

python examples/pettingzoo_match.py
"""

import numpy as np

from snake_ddp import multiagent


def careful(mask, random):
    return int(random.choice(np.flatnonzero(mask)))


def careless(mask, random):
    return int(random.integers(len(mask)))


def play(games=20, seed=1):
    """The mean score of each team."""
    env = multiagent.parallel_env(obs="30")
    random = np.random.default_rng(seed)
    scores = []
    for game in range(games):
        _, infos = env.reset(seed=seed + game)
        while env.agents:
            actions = {
                agent: (careful if agent.startswith("a") else careless)(infos[agent]["action_mask"], random)
                for agent in env.agents
            }
            _, rewards, terminated, truncated, infos = env.step(actions)
        scores.append(infos["a_0"]["scores"])
    return np.mean(scores, axis=0)


if __name__ == "__main__":
    own, other = play()
    print(f"mean score of 20 games: careful {own:.1f}, careless {other:.1f}")
