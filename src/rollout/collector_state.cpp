// A collector's state as tensors, for checkpoints.
#include <ATen/ATen.h>

#include <cstring>

#include "board_work.hpp"
#include "rollout/collector.hpp"
#include "show_boards.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::rollout {
namespace {

// The boards of transitions that wait for their n-th reward become observations when it is there.
void check_windows(std::int64_t n, const at::Tensor& sizes, const at::Tensor& next, const at::Tensor& window,
                   const nets::StateReader& there) {
  const auto check_between = [&](const at::Tensor& values, std::int64_t low, std::int64_t high,
                                 const char* name) {
    there.refuse((values < low).logical_or(values > high).any().item<bool>(), name);
  };
  check_between(sizes, 0, n, "window_size");
  check_between(next, 0, n - 1, "window_next");
  for (std::int64_t w = 0; w < sizes.size(0); ++w) {
    const std::int64_t size = sizes.const_data_ptr<std::int64_t>()[w];
    const float* rows = window.const_data_ptr<float>() + w * n * play::kWindowWidth;
    for (std::int64_t k = 1; k <= size; ++k)
      there.refuse(
          !is_board(rows + (next.const_data_ptr<std::int64_t>()[w] - k + n) % n * play::kWindowWidth),
          "window");
  }
}

}  // namespace

at::Tensor codes_of(const std::vector<game::Rival>& rivals) {
  std::vector<std::int64_t> codes;
  for (const game::Rival& rival : rivals) codes.push_back(game::code_of(rival));
  return at::tensor(codes, at::kLong);
}

std::vector<game::State> Collector::boards() const {
  const at::Tensor images = boards_.to(at::kCPU);
  std::vector<game::State> boards(static_cast<std::size_t>(images.size(0)));
  std::memcpy(boards.data(), images.const_data_ptr(), boards.size() * sizeof(game::State));
  return boards;
}

std::uint64_t Collector::hash() const {
  std::uint64_t all = core::kHashStart;
  for (const game::State& board : boards()) all = core::add_to_hash(all, game::hash(board));
  return all;
}

GameCount Collector::count() const {
  return {started_.item<std::int64_t>(), ended_.item<std::int64_t>(), epsilon_.item<double>()};
}

void Collector::explore_from(double epsilon) {
  epsilon_.fill_(epsilon);
  fetched_epsilon_ = epsilon;
}

nets::NamedTensors Collector::state() const {
  const auto copy = [](const at::Tensor& t) {
    return t.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
  };
  nets::NamedTensors state = {
      {"layout", at::tensor({seats_.boards, options_.n_step,
                             window_size_.size(0) * options_.n_step * play::kWindowWidth},
                            at::kLong)},
      {"boards", copy(boards_)},
      {"games", copy(games_)},
      {"running", copy(running_)},
      {"running_epsilon", copy(running_epsilon_)},
      {"window", copy(window_.narrow(1, 0, play::kWindowWidth)).flatten()},
      {"window_size", copy(window_size_)},
      {"window_next", copy(window_next_)},
      {"epsilon", copy(epsilon_)},
      {"started", copy(started_)},
      {"ended", copy(ended_)}};
  if (options_.memory > 0)
    state.emplace_back("memory", copy(memory_.view({seats_.boards, 2, play::kTeamSize, options_.memory})));
  if (sources_[learners::kBack] >= 0) {
    // Counted back from replay's end, which may be in another slot when this is read.
    const at::Tensor last = last_row_.to(at::kCPU);
    state.emplace_back("rows_since", at::where(last == kNoRow, last, replay_.appended() - last));
  }
  return state;
}

bool Collector::restore(const nets::NamedTensors& state, const std::string& what) {
  const nets::NamedTensors own = this->state();
  const nets::StateReader there(state, what);
  const auto of = [&](const std::string& name) { return there.like(*nets::find(own, name), name); };
  if (!at::equal(of("layout"), *nets::find(own, "layout"))) return false;
  for (const auto& [name, tensor] : own) of(name);
  const at::Tensor images = of("boards"), running = of("running").clone(), window = of("window"),
                   sizes = of("window_size"), next = of("window_next");
  for (std::int64_t b = 0; b < seats_.boards; ++b) {
    const auto* image =
        images.const_data_ptr<std::uint8_t>() + b * static_cast<std::int64_t>(sizeof(game::State));
    there.refuse(!game::fault_of_image(image).empty(), "boards");
    game::State board;
    std::memcpy(&board, image, sizeof board);
    there.refuse(board.done(), "boards");  // one that is done starts a new game
    auto* field = running.data_ptr<std::int64_t>() + b * play::kFields;
    std::int64_t& opponent = field[play::kOpponent];
    there.refuse(
        opponent < game::kLastFrozenCode || opponent >= static_cast<std::int64_t>(game::kOpponents.size()),
        "running");
    const bool by_board = !options_.rivals.empty();
    const std::int64_t own_opponent =
        by_board ? game::code_of(options_.rivals[static_cast<std::size_t>(b)]) : opponent;
    if (by_board ? (opponent == game::kSelfCode) != (own_opponent == game::kSelfCode) : opponent < 0)
      return false;
    opponent = own_opponent;
    there.refuse(field[play::kSteps] < 0 || field[play::kSteps] > game::kMaxSteps, "running");
  }
  check_windows(options_.n_step, sizes, next, window, there);
  if (sources_[learners::kBack] >= 0) {
    const at::Tensor since = of("rows_since");
    there.refuse((since.masked_select(since != kNoRow) < 1).any().item<bool>(), "rows_since");
    last_row_.copy_(at::where(since == kNoRow, since, replay_.appended() - since));
  }
  if (options_.memory > 0) memory_.copy_(of("memory").view(memory_.sizes()));
  // Into the same tensors: recordings have their addresses.
  boards_.copy_(images);
  running_.copy_(running);
  running_epsilon_.copy_(of("running_epsilon"));
  games_.copy_(of("games"));
  window_.narrow(1, 0, play::kWindowWidth).copy_(window.view({-1, play::kWindowWidth}));
  window_size_.copy_(sizes);
  window_next_.copy_(next);
  epsilon_.copy_(of("epsilon"));
  started_.copy_(of("started"));
  ended_.copy_(of("ended"));
  const GameCount now = count();
  fetched_ = now.ended;
  fetched_epsilon_ = now.epsilon;
  look();
  return true;
}

}  // namespace snake_ddp::rollout
