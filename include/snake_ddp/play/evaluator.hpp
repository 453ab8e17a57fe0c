// What a Q-network says about boards, seen from both teams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "snake_ddp/game/state.hpp"
#include "snake_ddp/play/obs_spec.hpp"
#include "snake_ddp/play/q_net.hpp"

namespace snake_ddp::play {

/// Boards that pass through the network together: 192 rows, which the second-level cache holds beside the weights.
inline constexpr std::size_t kBoardsTogether = 32;

struct Leaf {
  float q[game::kSnakes][game::kMoves];  // of each snake, as its own team sees it
  std::uint8_t open[game::kSnakes];      // game::open_moves
  float value;  // the future lead of team A over team B in points per snake; 0 on a finished board
};

/// Fills a leaf for each board. A leaf must depend on its board only.
using Evaluate = std::function<void(std::span<const game::State>, std::span<Leaf>)>;

/// What the network was trained for; this determines what its values mean.
struct Training {
  /// --rival_reward: a team's values count the foes' points as that much of a loss. The default is that of
  /// configs/champion.json.
  double rival_reward = 0.5;
  double reward_scale = 1.0;
  double gamma = 0.99;

  /// The difference of the teams' values that is worth one point per snake.
  [[nodiscard]] double point() const { return (1.0 + rival_reward) * reward_scale; }
};

/// What the moves of all six snakes of some boards are worth to their teams, the boards at `places` among `boards`.
/// Shapes  rows [places, 6, features + 1], as ObsSpec writes them; q [places, 6, 4], the moves as the network numbers them.
using Values = std::function<void(std::span<const game::State> boards, std::span<const std::size_t> places,
                                  const float* rows, float* q)>;

/// An `Evaluate` by a network. With V_T the mean over team T's snakes of max Q over open moves, and p the
/// `rival_reward`: V_A = A - p B and V_B = B - p A for the points per snake A, B to come, so
///   value = A - B = (V_A - V_B) / (1 + p).
/// Owner   refers to the weights. Copies share nothing else, unless `Values` does.
class Evaluator {
 public:
  Evaluator(const QWeights& net, const ObsSpec& obs_spec, const Training& training);
  /// With values from elsewhere, of at most `boards_together` boards at once.
  Evaluator(Values values, const ObsSpec& obs_spec, const Training& training, std::size_t boards_together);
  /// From now on `stop` is called for every few boards; if it returns true, evaluating ends.
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }
  /// Throws  Cut.
  void operator()(std::span<const game::State> boards, std::span<Leaf> leaves);

 private:
  Values values_;
  ObsSpec sight_;
  float point_;
  std::size_t boards_together_;
  std::function<bool()> stop_;
  std::vector<std::size_t> places_;
  std::vector<float> rows_, q_;
};

}  // namespace snake_ddp::play
