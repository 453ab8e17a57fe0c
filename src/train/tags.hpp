// The names of a run's points, for TensorBoard and metrics.jsonl.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "snake_ddp/play/deaths.hpp"

namespace snake_ddp::train {

struct TagEntry {
  std::string_view name, what;
};

/// The only list of tags: a point under another name does not compile, and the reference prints it.
inline constexpr TagEntry kTags[] = {
    {"reward/snake_1", "game reward of the first snake in an episode of rank 0"},
    {"reward/snake_2", "of the second snake"},
    {"reward/snake_3", "of the third snake"},
    {"reward/total", "of all three"},
    {"loss/actor", "the actor's loss in the last update; 0 without an actor"},
    {"loss/critic", "loss of the critic or Q-network in the last update"},
    {"eval/win_rate", "share of an evaluation's games that the team won"},
    {"eval/score", "the team's mean score in an evaluation"},
    {"eval/opponent_score", "the opponent's mean score in it"},
    {"deaths/head_on", "deaths per game in an evaluation: head-on with a foe"},
    {"deaths/boxed_in", "deaths per game: boxed in"},
    {"deaths/tail", "deaths per game: a foe's tail that stayed"},
    {"deaths/body", "deaths per game: a foe's body, or its own"},
    {"deaths/mate", "deaths per game: a mate's head, tail or body"},
    {"deaths/length_lost_early", "length that the deaths up to step 100 cost, per game"},
    {"deaths/length_lost_late", "length that later deaths cost, per game"},
    {"league/elo", "the learner's rating in a match against the league"},
    {"league/win_rate", "share of the match's games that it won"},
    {"league/members", "members of the league"},
    {"collect/episodes", "games that ended since this start, on all ranks"},
    {"collect/env_steps", "steps of all ranks' boards since this start"},
    {"collect/transitions", "transitions added to replay since this start"},
    {"collect/play_seconds",
     "seconds that all ranks spent on playing; with --boards device, on queuing moves and waiting for "
     "the device"},
    {"collect/episode_steps", "steps of a game: mean of all ranks' games since the last point"},
    {"collect/team_return", "the team's game reward, likewise"},
    {"collect/rival_return", "the opponents' game reward, likewise"},
    {"collect/win_rate", "share of these games that the team won"},
    {"perf/env_steps_per_second", "steps of all ranks' boards per second"},
    {"perf/updates_per_second", "updates per second"},
    {"perf/allreduce_ms", "mean time of a gradient all-reduce; left out while CUDA graphs hide it"},
    {"perf/allreduce_share", "share of the time spent in gradient all-reduces"},
    {"perf/memory_mb", "main memory of rank 0's process"},
    {"perf/gpu_memory_mb", "memory of rank 0's tensors on its GPU"},
    {"train/epsilon", "exploration rate; with --epsilon_min the largest of the boards"},
    {"train/difficulty",
     "the last opponent: its place in the list of scripted teams, from 0; after them the team itself, then a "
     "frozen network"},
    {"train/buffer_size", "transitions in rank 0's replay"},
    {"train/actor_grad_norm", "norm of the actor's gradient before clipping"},
    {"train/critic_grad_norm", "norm of the critic's or Q-network's gradient"},
    {"train/q_mean", "mean Q of the batch"},
};

class Tag {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): call sites read as names
  consteval Tag(const char* name) : name_(name) {
    if (std::none_of(std::begin(kTags), std::end(kTags),
                     [&](const TagEntry& tag) { return tag.name == name_; }))
      throw "add the name to kTags";
  }
  [[nodiscard]] constexpr std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

inline constexpr Tag kRewardTags[] = {"reward/snake_1", "reward/snake_2", "reward/snake_3"};
/// In the order of play::kDeathGroups.
inline constexpr Tag kDeathTags[] = {"deaths/head_on", "deaths/boxed_in", "deaths/tail", "deaths/body",
                                     "deaths/mate"};
static_assert(std::size(kDeathTags) == std::size(play::kDeathGroups));

}  // namespace snake_ddp::train
