"""PPO in one file, after CleanRL's ppo.py: snakes that share one network learn to beat a scripted team.

    python examples/ppo.py --updates 100 --save actor.pth
    ./snake_ddp eval --team_a actor.pth --team_b level2
"""

import argparse
import time

import torch
from torch import nn
from torch.distributions import Categorical

from snake_ddp.envs import SnakeVectorEnv
from snake_ddp.networks import Actor, save

HORIZON, GAMMA, LAMBDA, CLIP, ENTROPY = 64, 0.98, 0.9, 0.2, 0.01
EPOCHS, MINIBATCHES, RATE = 3, 6, 1e-3


def advantages_of(rewards, values, ends, last_value):
    """Generalised advantage estimation. A step that ended its game has nothing after it."""
    advantages = torch.zeros_like(rewards)
    later = torch.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        goes_on = 1 - ends[t]
        after = last_value if t + 1 == len(rewards) else values[t + 1]
        later = rewards[t] + GAMMA * goes_on * after - values[t] + GAMMA * LAMBDA * goes_on * later
        advantages[t] = later
    return advantages


def train(updates, snakes=384, obs="view", opponent="level2", seed=1, report=print):
    """Returns the trained actor, and the mean return of a snake in the games that ended last."""
    torch.manual_seed(seed)
    # The view is made for learning, and with SAME_STEP no step is spent on a reset.
    envs = SnakeVectorEnv(snakes, obs=obs, opponent=opponent, own_share=0.7, autoreset_mode="SameStep")
    features = envs.single_observation_space.shape[0]
    actor = Actor(features, hidden=128)  # a network that the program plays
    critic = nn.Sequential(nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, 1))
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=RATE, eps=1e-5)

    seen = torch.zeros(HORIZON, snakes, features)
    moves = torch.zeros(HORIZON, snakes, dtype=torch.int64)
    chances, rewards, ends, values = (torch.zeros(HORIZON, snakes) for _ in range(4))
    obs_now = torch.from_numpy(envs.reset(seed=seed)[0])
    mean_return, begun = float("nan"), time.monotonic()

    for update in range(1, updates + 1):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - (update - 1) / updates)
        with torch.no_grad():
            for t in range(HORIZON):
                policy = Categorical(logits=actor.logits(obs_now))
                seen[t], moves[t] = obs_now, policy.sample()
                chances[t], values[t] = policy.log_prob(moves[t]), critic(obs_now)[:, 0]
                shown, reward, terminated, truncated, info = envs.step(moves[t].numpy())
                obs_now, rewards[t] = torch.from_numpy(shown), torch.from_numpy(reward)
                ends[t] = torch.from_numpy(terminated | truncated)
                if info:
                    mean_return = float(info["final_info"]["scores"][info["_final_info"], 0].mean()) / 3
            advantages = advantages_of(rewards, values, ends, critic(obs_now)[:, 0])
            targets = advantages + values

        rows = [part.flatten(0, 1) for part in (seen, moves, chances, advantages, targets)]
        for _ in range(EPOCHS):
            for chosen in torch.randperm(HORIZON * snakes).chunk(MINIBATCHES):
                x, move, chance, advantage, target = (part[chosen] for part in rows)
                policy = Categorical(logits=actor.logits(x))
                ratio = (policy.log_prob(move) - chance).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
                value_loss = (critic(x)[:, 0] - target).square().mean()
                loss = 0.5 * value_loss - gain - ENTROPY * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()

        steps = update * HORIZON * snakes
        report(f"update {update}: {steps} snake steps, {steps / (time.monotonic() - begun):.0f}/s, return {mean_return:.2f}")
    envs.close()
    return actor, mean_return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--obs", default="view", choices=["26", "30", "window", "view"])
    parser.add_argument("--opponent", default="level2")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", metavar="FILE", help="write the actor's weights")
    line = parser.parse_args()
    actor, _ = train(line.updates, obs=line.obs, opponent=line.opponent, seed=line.seed)
    if line.save:
        save(actor, line.save)
        print(f"Wrote {line.save}")


if __name__ == "__main__":
    main()
