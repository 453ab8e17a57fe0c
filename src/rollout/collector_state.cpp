// A collector's state as tensors, for checkpoints.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/rollout/collector.hpp"
#include "stored_board.hpp"

namespace snake_ddp::rollout {
namespace {

// An opponent as a number: of the scripted ones, -1 for oneself, -2 and less for frozen teams.
constexpr std::int64_t kSelf = -1, kFirstFrozen = -2, kMaxFrozen = 1000;

std::int64_t number_of(const agents::Rival& rival) {
  if (rival.is_frozen()) return kFirstFrozen - rival.frozen;
  return rival.is_self() ? kSelf : static_cast<std::int64_t>(*rival.scripted);
}

agents::Rival rival_of(std::int64_t number) {
  if (number <= kFirstFrozen) return {std::nullopt, static_cast<int>(kFirstFrozen - number)};
  if (number == kSelf) return {};
  return {static_cast<agents::Opponent>(number)};
}

at::Tensor numbers(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

const at::Tensor& find(const nets::NamedTensors& in, const std::string& name, const std::string& what) {
  const at::Tensor* found = nets::find(in, name);
  if (found == nullptr) throw base::FileError(fmt::format("{} has no \"{}\"", what, name));
  return *found;
}

}  // namespace

nets::NamedTensors Collector::state() const {
  const auto boards = static_cast<std::int64_t>(boards_.size());
  at::Tensor images = at::empty({boards, static_cast<std::int64_t>(sizeof(game::State))}, at::kByte);
  std::memcpy(images.data_ptr(), boards_.data(), boards_.size() * sizeof(game::State));
  at::Tensor games = at::empty({boards}, at::kLong);
  at::Tensor running = at::zeros({boards, play::kFields}, at::kLong);
  at::Tensor running_epsilon = at::empty({boards}, at::kDouble);
  for (std::size_t b = 0; b < boards_.size(); ++b) {
    games.data_ptr<std::int64_t>()[b] = games_[b];
    auto* field = running.data_ptr<std::int64_t>() + static_cast<std::int64_t>(b) * play::kFields;
    const Episode& e = running_[b];
    field[play::kStarted] = e.started;
    std::copy(std::begin(e.snake_return), std::end(e.snake_return), field + play::kReturns);
    field[play::kSteps] = e.steps;
    field[play::kOpponent] = number_of(e.opponent);
    running_epsilon.data_ptr<double>()[b] = e.epsilon;
  }
  nets::NamedTensors state = {
      {"layout", numbers({boards, options_.n_step, static_cast<std::int64_t>(window_.size())})},
      {"boards", images},
      {"games", games},
      {"running", running},
      {"running_epsilon", running_epsilon},
      {"window", at::tensor(window_)},
      {"window_size", numbers(window_size_)},
      {"window_next", numbers(window_next_)},
      {"epsilon", at::scalar_tensor(epsilon_, at::kDouble)},
      {"started", at::scalar_tensor(started_, at::kLong)},
      {"ended", at::scalar_tensor(ended_, at::kLong)}};
  if (options_.memory > 0) state.emplace_back("memory", memory_.clone());
  if (linked_) {
    // Counted back from replay's end, which may be in another slot when this is read.
    std::vector<std::int64_t> since = last_row_;
    for (std::int64_t& row : since) row = row == kNoRow ? kNoRow : replay_.appended() - row;
    state.emplace_back("rows_since", numbers(since));
  }
  return state;
}

bool Collector::restore(const nets::NamedTensors& state, const std::string& what) {
  const nets::NamedTensors own = this->state();
  const auto of = [&](const std::string& name) {
    const at::Tensor& there = find(state, name, what);
    const at::Tensor& here = find(own, name, what);
    if (there.dtype() != here.dtype() || there.sizes() != here.sizes())
      throw base::FileError(
          fmt::format("{}: \"{}\" has another shape or type than its layout says", what, name));
    return there.contiguous();
  };
  if (!at::equal(of("layout"), find(own, "layout", what))) return false;
  const auto refuse = [&](bool condition, const char* name) {
    if (condition) throw base::FileError(fmt::format("{}: impossible values in \"{}\"", what, name));
  };
  const at::Tensor images = of("boards"), games = of("games"), running = of("running"), window = of("window"),
                   sizes = of("window_size"), next = of("window_next"), epsilons = of("running_epsilon");
  std::vector<game::State> boards(boards_.size());
  std::vector<Episode> episodes(boards_.size());
  for (std::size_t b = 0; b < boards_.size(); ++b) {
    const auto* image = images.data_ptr<std::uint8_t>() + b * sizeof(game::State);
    refuse(!game::fault_of_image(image).empty(), "boards");
    std::memcpy(&boards[b], image, sizeof(game::State));
    refuse(boards[b].done(), "boards");  // one that is done starts a new game
    const auto* field = running.data_ptr<std::int64_t>() + static_cast<std::int64_t>(b) * play::kFields;
    const std::int64_t opponent = field[play::kOpponent];
    refuse(opponent < kFirstFrozen - kMaxFrozen ||
               opponent >= static_cast<std::int64_t>(agents::kOpponents.size()),
           "running");
    const agents::Rival rival = rival_of(opponent);
    refuse(rival.is_self() && !options_.self_play, "running");
    if (rival.is_frozen() && (!options_.frozen || options_.frozen(rival.frozen) == nullptr)) return false;
    refuse(field[play::kSteps] < 0 || field[play::kSteps] > game::kMaxSteps, "running");
    episodes[b].started = field[play::kStarted];
    for (int snake = 0; snake < game::kTeamSize; ++snake)
      episodes[b].snake_return[snake] = static_cast<int>(field[play::kReturns + snake]);
    episodes[b].steps = static_cast<int>(field[play::kSteps]);
    episodes[b].opponent = rival;
    episodes[b].epsilon = epsilons.data_ptr<double>()[b];
  }
  const auto check_between = [&](const at::Tensor& values, std::int64_t low, std::int64_t high,
                                 const char* name) {
    refuse((values < low).logical_or(values > high).any().item<bool>(), name);
  };
  check_between(sizes, 0, options_.n_step, "window_size");
  check_between(next, 0, options_.n_step - 1, "window_next");
  // Their boards become observations when the n-th reward is there.
  for (std::size_t seat = 0; seat < window_size_.size(); ++seat) {
    const std::int64_t n = options_.n_step, size = sizes.data_ptr<std::int64_t>()[seat];
    const float* rows = window.data_ptr<float>() + static_cast<std::int64_t>(seat) * n * play::kWindowWidth;
    for (std::int64_t k = 1; k <= size; ++k)
      refuse(!is_board(rows + (next.data_ptr<std::int64_t>()[seat] - k + n) % n * play::kWindowWidth),
             "window");
  }
  if (linked_) {
    const at::Tensor since = of("rows_since");
    const at::Tensor known = since.masked_select(since != kNoRow);
    refuse((known < 1).any().item<bool>(), "rows_since");
    for (std::size_t seat = 0; seat < last_row_.size(); ++seat) {
      const std::int64_t rows = since.data_ptr<std::int64_t>()[seat];
      last_row_[seat] = rows == kNoRow ? kNoRow : replay_.appended() - rows;
    }
  }
  if (options_.memory > 0) memory_.copy_(of("memory"));
  boards_ = std::move(boards);
  running_ = std::move(episodes);
  for (std::size_t b = 0; b < boards_.size(); ++b)
    games_[b] = static_cast<std::uint32_t>(games.data_ptr<std::int64_t>()[b]);
  std::copy_n(sizes.data_ptr<std::int64_t>(), window_size_.size(), window_size_.data());
  std::copy_n(next.data_ptr<std::int64_t>(), window_next_.size(), window_next_.data());
  std::memcpy(window_.data(), window.data_ptr<float>(), window_.size() * sizeof(float));
  epsilon_ = of("epsilon").item<double>();
  started_ = of("started").item<std::int64_t>();
  ended_ = of("ended").item<std::int64_t>();
  return true;
}

void Collector::start_new_games(const GameCount& count) {
  started_ = count.started;
  ended_ = count.ended;
  epsilon_ = count.epsilon;
  std::fill(window_size_.begin(), window_size_.end(), 0);
  // Each board has started at most as many games as all boards together.
  std::fill(games_.begin(), games_.end(), static_cast<std::uint32_t>(count.started));
  for (std::size_t b = 0; b < boards_.size(); ++b) start_game(b);
}

}  // namespace snake_ddp::rollout
