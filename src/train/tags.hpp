// The names of a run's points, for TensorBoard and metrics.jsonl.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "snake_ddp/play/deaths.hpp"

namespace snake_ddp::train {

struct TagEntry {
  std::string_view name, what;
};

/// The only list of tags: a point under another name does not compile, and the reference prints it.
inline constexpr std::array kTags = {
    TagEntry{"reward/snake_1", "game reward of the first snake in an episode of rank 0"},
    TagEntry{"reward/snake_2", "of the second snake"},
    TagEntry{"reward/snake_3", "of the third snake"},
    TagEntry{"reward/total", "of all three"},
    TagEntry{"loss/actor", "the actor's loss in the last update; 0 without an actor"},
    TagEntry{"loss/critic", "loss of the critic or Q-network in the last update"},
    TagEntry{"eval/win_rate", "share of an evaluation's games that the team won"},
    TagEntry{"eval/score", "the team's mean score in an evaluation"},
    TagEntry{"eval/opponent_score", "the opponent's mean score in it"},
    TagEntry{"deaths/head_on", "deaths per game in an evaluation: head-on with a foe"},
    TagEntry{"deaths/boxed_in", "deaths per game: boxed in"},
    TagEntry{"deaths/tail", "deaths per game: a foe's tail that stayed"},
    TagEntry{"deaths/body", "deaths per game: a foe's body, or its own"},
    TagEntry{"deaths/mate", "deaths per game: a mate's head, tail or body"},
    TagEntry{"deaths/length_lost_early", "length that the deaths up to step 100 cost, per game"},
    TagEntry{"deaths/length_lost_late", "length that later deaths cost, per game"},
    TagEntry{"league/elo", "the learner's rating in a match against the league"},
    TagEntry{"league/win_rate", "share of the match's games that it won"},
    TagEntry{"league/members", "members of the league"},
    TagEntry{"collect/episodes", "games that ended since this start, on all ranks"},
    TagEntry{"collect/env_steps", "steps of all ranks' boards since this start"},
    TagEntry{"collect/transitions", "transitions added to replay since this start"},
    TagEntry{
        "collect/play_seconds",
        "seconds that all ranks spent on playing; with --boards device, on queuing moves and waiting for "
        "the device"},
    TagEntry{"collect/episode_steps", "steps of a game: mean of all ranks' games since the last point"},
    TagEntry{"collect/team_return", "the team's game reward, likewise"},
    TagEntry{"collect/rival_return", "the opponents' game reward, likewise"},
    TagEntry{"collect/win_rate", "share of these games that the team won"},
    TagEntry{"perf/env_steps_per_second", "steps of all ranks' boards per second"},
    TagEntry{"perf/updates_per_second", "updates per second"},
    TagEntry{"perf/allreduce_ms",
             "mean time of a gradient all-reduce; with NCCL measured on the GPU, and left out while CUDA "
             "graphs hide it"},
    TagEntry{"perf/allreduce_share", "share of the time spent in gradient all-reduces"},
    TagEntry{"perf/memory_mb", "main memory of rank 0's process"},
    TagEntry{"perf/gpu_memory_mb", "memory of rank 0's tensors on its GPU"},
    TagEntry{"train/epsilon", "exploration rate; with --epsilon_min the largest of the boards"},
    TagEntry{"train/difficulty",
             "the last opponent: 0 to 4 the level, 5 evasion, 6 territory, 7 the team itself, 8 a frozen "
             "network"},
    TagEntry{"train/buffer_size", "transitions in rank 0's replay"},
    TagEntry{"train/actor_grad_norm", "norm of the actor's gradient before clipping"},
    TagEntry{"train/critic_grad_norm", "norm of the critic's or Q-network's gradient"},
    TagEntry{"train/q_mean", "mean Q of the batch"},
};

class Tag {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): call sites read as names
  consteval Tag(const char* name) : name_(name) {
    if (std::none_of(kTags.begin(), kTags.end(), [&](const TagEntry& tag) { return tag.name == name_; }))
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
static_assert([] {
  for (std::size_t k = 0; k < std::size(play::kDeathGroups); ++k)
    if (!kDeathTags[k].name().ends_with(play::kDeathGroups[k].name)) return false;
  return std::size(kDeathTags) == std::size(play::kDeathGroups);
}());

}  // namespace snake_ddp::train
