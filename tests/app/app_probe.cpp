// The moves of teams on given boards: `app_probe BOARDS OUT SPEC...`; a SPEC that ends in `+mask_fatal` plays with
// that flag.
//   BOARDS  a JSON object a line: snakes, directions, beans as in recorded games, and step
//   OUT     .pth file: open [N, 6] (bit d: game::open_moves has move d), move_features [N, 6, 4, 2] (game::look_ahead: room and
//           territory of each move), and for the k-th SPEC answers{k} [N, 6, 4] (what
//           its network answers, by direction) and moves{k} [N, 6] (the likeliest or best one that it may make)
#include <ATen/ATen.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../recorded_board.hpp"
#include "app/team.hpp"
#include "io/atomic_file.hpp"
#include "io/state_dict.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/reach.hpp"

namespace {

using namespace snake_ddp;

std::vector<game::State> read_boards(const std::string& path) {
  std::vector<game::State> boards;
  const std::string text = io::read_file(path);
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    boards.push_back(tests::recorded_board(nlohmann::json::parse(text.substr(at, end - at))));
  }
  return boards;
}

void probe(const std::vector<std::string>& a) {
  const std::vector<game::State> boards = read_boards(a.at(0));
  const auto n = static_cast<std::int64_t>(boards.size());
  at::Tensor open = at::empty({n, game::kSnakes}, at::kLong);
  at::Tensor all = at::empty({n, game::kSnakes, game::kMoves, 2}, at::kLong);
  for (std::int64_t b = 0; b < n; ++b) {
    const game::State& board = boards[static_cast<std::size_t>(b)];
    const game::Reach reach = game::reach_of(board);
    for (int i = 0; i < game::kSnakes; ++i) {
      open[b][i] = static_cast<std::int64_t>(game::open_moves(board, i));
      game::MoveFeatures move_features[game::kMoves];
      game::look_ahead(board, reach, i, move_features);
      for (int move = 0; move < game::kMoves; ++move) {
        all[b][i][move][0] = move_features[move].room;
        all[b][i][move][1] = move_features[move].territory;
      }
    }
  }
  io::NamedTensors out = {{"open", open}, {"outlook", all}};
  for (std::size_t k = 2; k < a.size(); ++k) {
    std::string spec = a[k];
    constexpr std::string_view kMask = "+mask_fatal";
    const bool mask = spec.ends_with(kMask);
    if (mask) spec.resize(spec.size() - kMask.size());
    const app::Team team = app::team_from_spec(spec, mask);
    const rollout::Player& player = team.player;
    SD_CHECK(player.policy != nullptr, spec + " is not a network");
    std::vector<at::Tensor> sides;
    for (int side = 0; side < 2; ++side) {
      at::Tensor rows = at::zeros({n, game::kTeamSize, player.obs_spec.features() + 1}, at::kFloat);
      const std::int64_t width = rows.stride(0);
      for (std::int64_t b = 0; b < n; ++b)
        player.obs_spec.write(boards[static_cast<std::size_t>(b)], side, rows.data_ptr<float>() + b * width);
      sides.push_back(player.policy->action_values(rows).clone());
    }
    const at::Tensor by_move = at::cat(sides, 1).contiguous(), answers = at::empty_like(by_move);
    at::Tensor moves = at::empty({n, game::kSnakes}, at::kLong);
    for (std::int64_t b = 0; b < n; ++b) {
      const game::State& board = boards[static_cast<std::size_t>(b)];
      for (int i = 0; i < game::kSnakes; ++i) {
        const std::int64_t at = (b * game::kSnakes + i) * game::kMoves;
        float* const values = answers.data_ptr<float>() + at;
        game::to_directions(player.obs_spec.up(board, i), by_move.data_ptr<float>() + at, values);
        const unsigned may = player.mask_fatal ? game::open_moves(board, i) : play::kAllMoves;
        moves[b][i] = static_cast<std::int64_t>(play::best_move(values, may));
      }
    }
    out.emplace_back("answers" + std::to_string(k - 2), answers);
    out.emplace_back("moves" + std::to_string(k - 2), moves);
  }
  io::save_state_dict(a.at(1), out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    probe({argv + 1, argv + argc});
  } catch (const core::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
