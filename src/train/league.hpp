// The opponents of a learner besides itself: scripted ones, networks from files, and frozen copies of earlier versions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "nets/policy.hpp"
#include "rollout/player.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/play/elo.hpp"
#include "snake_ddp/play/obs_spec.hpp"
#include "train/judge.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::train {

class FileTeams;

struct LeagueOptions {
  std::vector<game::Opponent> scripted;  // members from the start
  const FileTeams* files = nullptr;      // null: none. Owner: the caller, longer than the league
  int places = 8;                        // for frozen teams
  std::int64_t games = 2000;             // of a match, shared among the members
  double entry = 0.7;                    // win rate at which a copy becomes a member
  std::uint64_t seed = 1;
  play::ObsSpec obs_spec;
  nets::Head head = nets::Head::kSoftmax;
  bool mask_fatal = false;
  std::optional<play::SearchSpec> search = {};  // in judgements, of all members that are Q-networks
  play::Training training = {};
  at::Device device = at::kCPU;  // of frozen teams
};

/// A member, and the learner's last result against it.
struct LeagueMember {
  game::Rival rival;         // its index, if it is frozen or from a file
  std::int64_t episode = 0;  // rank 0's when it became a member
  double hardness = 1;       // share of points that the learner did not score
  std::string file = {};     // the path, if it is from a file
};

/// Equal on all ranks.
struct Judgement {
  std::int64_t episode = 0;
  play::MatchResult total;
  std::vector<play::MatchResult> against;  // by member, as they were before it
  play::Rating rating;                     // in Elo, the first scripted member having 0
  std::size_t members = 0;                 // after it
  bool entered = false;                    // a copy of the learner is now a member
};

class League {
 public:
  explicit League(LeagueOptions options);

  [[nodiscard]] const std::vector<LeagueMember>& members() const { return members_; }

  /// Draw number `draw` of an opponent: a member, by difficulty, which counts at least 5 %.
  [[nodiscard]] game::Rival drawn(std::uint64_t seed, std::uint64_t draw) const;

  /// The frozen copy at an index, null if there is none. Owner: the league, until another copy replaces it.
  [[nodiscard]] nets::Policy* frozen(int place) const;

  /// The learner plays its games against all members, greedily as in evaluation. If it wins enough, a copy of
  /// it becomes a member and, if all places are taken, replaces the frozen one that is now easiest.
  /// Collective  the same on all ranks, whose weights are equal; `alive` is called between steps.
  /// Returns     nothing if `stopping` reported a stop request on any rank; a later call then plays the same games.
  std::optional<Judgement> judge(learners::Learner& learner, std::int64_t episode, dist::DistContext& context,
                                 const Alive& alive, const std::function<bool()>& stopping);

  /// Everything that a bit-exact continuation needs. Copies; Owner: the caller.
  [[nodiscard]] nets::NamedTensors state() const;

  /// Restores a state. Scripted members and those from files are those of the options, whatever they were before.
  /// Throws  FileError that starts with `what` if the values are impossible.
  void restore(const nets::NamedTensors& state, const std::string& what);

 private:
  // Known results of games between two members, by their names.
  struct Met {
    std::string a, b;
    std::int64_t wins, draws, losses;
  };
  // From rows of two members, wins, draws and losses.
  static std::vector<Met> results_of(const at::Tensor& met, const std::vector<LeagueMember>& members,
                                     const nets::StateReader& there);

  [[nodiscard]] rollout::Player player(nets::Policy& policy, const nets::NamedTensors& weights) const;
  [[nodiscard]] rollout::Player player(const LeagueMember& member) const;
  bool let_members_meet(dist::DistContext& context, const play::MatchOptions& options, const Alive& alive,
                        const std::function<bool()>& stopping);
  [[nodiscard]] const Met* find_met(const std::string& a, const std::string& b) const;
  [[nodiscard]] std::size_t number_of(const std::string& name) const;
  void enter(const nets::NamedTensors& weights, const Judgement& judgement);

  LeagueOptions options_;
  std::vector<LeagueMember> members_;  // scripted, then from files, then frozen
  struct Frozen {
    nets::NamedTensors weights;
    std::unique_ptr<nets::Policy> policy;
  };
  std::vector<Frozen> frozen_;  // by place
  std::vector<Met> met_;
  std::int64_t judgements_ = 0;
};

/// The name in reports: "level2", "file:PATH", or "#40000" for the copy that became a member at that episode.
std::string name_of(const LeagueMember& member);

}  // namespace snake_ddp::train
