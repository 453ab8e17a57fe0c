// The moves of teams on given boards: `app_probe BOARDS OUT SPEC...`; a SPEC that ends in `+mask_fatal` plays with
// that flag.
//   BOARDS  a JSON object a line: snakes, directions, beans as in recorded games, and step
//   OUT     .pth file: open [N, 6] (bit d: encode::open_moves has move d), outlook [N, 6, 4, 2] (game::look_ahead: room and
//           territory of each move), and for the k-th SPEC answers{k} [N, 6, 4] (what
//           its network answers, by direction) and moves{k} [N, 6] (the likeliest or best one that it may make)
#include <ATen/ATen.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../recorded_board.hpp"
#include "snake_ddp/app/team.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/moves.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/game/reach.hpp"
#include "snake_ddp/records/atomic_file.hpp"

namespace {

using namespace snake_ddp;

std::vector<game::State> read_boards(const std::string& path) {
  std::vector<game::State> boards;
  const std::string text = records::read_file(path);
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    boards.push_back(tests::recorded_board(nlohmann::json::parse(text.substr(at, end - at))));
  }
  return boards;
}

void probe(const std::vector<std::string>& a) {
  const std::vector<game::State> boards = read_boards(a.at(0));
  const auto n = static_cast<std::int64_t>(boards.size());
  at::Tensor open = at::empty({n, game::kSnakes}, at::kLong);
  at::Tensor outlooks = at::empty({n, game::kSnakes, game::kMoves, 2}, at::kLong);
  for (std::int64_t b = 0; b < n; ++b) {
    const game::State& board = boards[static_cast<std::size_t>(b)];
    const game::Reach reach = game::reach_of(board);
    for (int i = 0; i < game::kSnakes; ++i) {
      open[b][i] = static_cast<std::int64_t>(encode::open_moves(board, i));
      game::Outlook outlook[game::kMoves];
      game::look_ahead(board, reach, i, outlook);
      for (int move = 0; move < game::kMoves; ++move) {
        outlooks[b][i][move][0] = outlook[move].room;
        outlooks[b][i][move][1] = outlook[move].territory;
      }
    }
  }
  files::NamedTensors out = {{"open", open}, {"outlook", outlooks}};
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
      at::Tensor rows = at::zeros({n, game::kTeamSize, player.sight.features() + 1}, at::kFloat);
      const std::int64_t width = rows.stride(0);
      for (std::int64_t b = 0; b < n; ++b)
        player.sight.write(boards[static_cast<std::size_t>(b)], side, rows.data_ptr<float>() + b * width);
      sides.push_back(player.policy->action_values(rows).clone());
    }
    const at::Tensor by_move = at::cat(sides, 1).contiguous(), answers = at::empty_like(by_move);
    at::Tensor moves = at::empty({n, game::kSnakes}, at::kLong);
    for (std::int64_t b = 0; b < n; ++b) {
      const game::State& board = boards[static_cast<std::size_t>(b)];
      for (int i = 0; i < game::kSnakes; ++i) {
        const std::int64_t at = (b * game::kSnakes + i) * game::kMoves;
        float* const values = answers.data_ptr<float>() + at;
        encode::to_directions(player.sight.up(board, i), by_move.data_ptr<float>() + at, values);
        const unsigned may = player.mask_fatal ? encode::open_moves(board, i) : play::kAllMoves;
        moves[b][i] = static_cast<std::int64_t>(play::best_move(values, may));
      }
    }
    out.emplace_back("answers" + std::to_string(k - 2), answers);
    out.emplace_back("moves" + std::to_string(k - 2), moves);
  }
  files::save_state_dict(a.at(1), out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    probe({argv + 1, argv + argc});
  } catch (const base::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
