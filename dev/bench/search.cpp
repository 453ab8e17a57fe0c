#include "benches.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>

#include "nets/mlp.hpp"
#include "nets/net_mirror.hpp"
#include "rollout/player.hpp"
#include "snake_ddp/core/bf16.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/kernels/halves.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/play/mover.hpp"

namespace snake_ddp::bench {
namespace {

constexpr std::int64_t kGames = 64;
constexpr std::size_t kChunk = play::kBoardsTogether * game::kSnakes;  // rows

// Boards of games between good teams, in no order.
std::vector<game::State> played_boards() {
  std::vector<game::State> boards;
  play::MatchOptions options{kGames, 1};
  options.watch = [&](std::int64_t number, const game::State& state) {
    if (!state.done() && (state.step() + number) % 25 == 0) boards.push_back(state);
  };
  const play::MakeMover territory = play::scripted(game::Opponent::kTerritory);
  play::play_match(territory, territory, options);
  return boards;
}

// Calls per second of processor time, of the fastest call within `seconds` of it: other programs may share the machine.
double fastest(double seconds, const std::function<void()>& call) {
  double best = 0;
  const auto end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  do {
    const std::clock_t begin = std::clock();
    call();
    best =
        std::max(best, CLOCKS_PER_SEC / static_cast<double>(std::max<std::clock_t>(1, std::clock() - begin)));
  } while (std::clock() < end);
  return best;
}

struct Champion {
  std::vector<game::State> boards = played_boards();
  play::ObsSpec obs_spec{game::ObsKind::kAhead};
  play::QWeights net;
  std::vector<float> rows;

  Champion() {
    // Like models/champion.pth.
    const core::Mirror mirror = game::mirror_of(obs_spec.kind);
    nets::Mlp fresh({obs_spec.features(), 256, 4, true}, at::kCPU, nets::kQNetName);
    fresh.init(1);
    nets::NetMirror(fresh, mirror).make_symmetric(fresh.parameters().flat());
    net = rollout::search_weights(fresh.named(), "bench");
    play::fold(net, mirror.inputs);
    rows.resize(boards.size() * game::kSnakes * width());
  }
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(obs_spec.features()) + 1; }

  void encode() {
    float* out = rows.data();
    for (const game::State& state : boards)
      for (int team = 0; team < 2; ++team, out += game::kTeamSize * width()) obs_spec.write(state, team, out);
  }
  // The products of the three layers, without what is between them.
  void multiply(std::vector<float>& hidden, std::vector<float>& upper, std::vector<float>& q) const {
    const std::int64_t n = net.hidden;
    for (std::size_t first = 0; first < rows.size() / width(); first += kChunk) {
      const auto count = static_cast<std::int64_t>(std::min(kChunk, rows.size() / width() - first));
      kernels::multiply_halves(net.inputs, count, rows.data() + first * width(),
                               static_cast<std::int64_t>(width()), net.folded[0].data(), n / 2,
                               hidden.data());
      kernels::multiply_units(count, hidden.data(), net.folded[1].data(), n / 2, upper.data());
      kernels::multiply(count, game::kMoves, n, {upper.data(), n, 1},
                        {net.layer[2].weight.data(), game::kMoves, 1}, q.data(), game::kMoves);
    }
  }
};

}  // namespace

std::vector<Row> measure_search(double seconds, const std::string& products_in) {
  if (products_in == "tf32") throw core::UsageError("--products tf32: searches compute in float32 or bf16");
  if (products_in == "bf16") core::require_bf16();
  constexpr const char* kSearches[] = {"look1", "look4", "puct100"};
  const double part = seconds / 6;
  Champion bench;
  if (products_in == "bf16") play::round_weights(bench.net);
  const auto teams = static_cast<double>(2 * bench.boards.size());
  std::vector<play::Leaf> leaves(bench.boards.size());
  play::Evaluator evaluator(bench.net, bench.obs_spec, {});
  const double evaluations = teams * fastest(part, [&] { evaluator(bench.boards, leaves); });
  const double encodings = teams * fastest(part, [&] { bench.encode(); });
  std::vector<float> hidden(kChunk * 256), upper(hidden.size()), q(kChunk * game::kMoves);
  const double products = teams * fastest(part, [&] { bench.multiply(hidden, upper, q); });
  const double limit = 1 / (1 / encodings + 1 / products);
  std::vector<Row> rows = {{"search_evaluations", evaluations, "teams/s", limit, evaluations / limit}};

  const std::span<const game::State> block(bench.boards.data(), play::kBlock);
  const std::vector<std::uint8_t> team(block.size(), 0);
  const std::vector<std::uint64_t> games(block.size(), 0);
  std::vector<game::Actions> actions(block.size());
  for (const char* name : kSearches) {
    const play::Searcher player{bench.net, {}, *play::try_spec(name)};
    const auto mover = play::mover(std::make_shared<const play::Searcher>(player), bench.obs_spec)(1);
    std::size_t evaluated = 0;
    const double moves =
        static_cast<double>(block.size()) * fastest(part, [&] { mover->act(block, team, 0, actions, {}); });
    // What the search of one block evaluates, both teams of each board.
    const play::Evaluate counting = [&](std::span<const game::State> b, std::span<play::Leaf> l) {
      evaluated += 2 * b.size();
      evaluator(b, l);
    };
    play::choose(player, counting, block, team, 1, games, actions);
    const double bound = evaluations * static_cast<double>(block.size()) / static_cast<double>(evaluated);
    rows.push_back({std::string("search_") + name, moves, "team moves/s", bound, moves / bound});
  }
  return rows;
}

}  // namespace snake_ddp::bench
