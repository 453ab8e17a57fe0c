#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <utility>

#include "champion.hpp"
#include "nets/mlp.hpp"
#include "nets/net_mirror.hpp"
#include "nets/precision.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/sides.hpp"

namespace {

using namespace snake_ddp;

const core::Mirror kMirror = game::mirror_of(game::ObsKind::kAhead);

nets::Mlp fresh_net(nets::MlpShape shape) {
  nets::Mlp net(std::move(shape), at::kCPU, nets::kQNetName);
  net.init(3);
  return net;
}

nets::Mlp symmetric_net(std::int64_t hidden, bool norm) {
  nets::Mlp net = fresh_net({309, hidden, 4, norm, kMirror.inputs});
  nets::NetMirror(net, kMirror).make_symmetric(net.parameters().flat());
  return net;
}

// As passes of the library's side compute: folded if there are images, then rounded if that side rounds.
play::QWeights weights_of(const nets::Mlp& net, const std::vector<core::MirrorImage>& images) {
  play::QWeights weights = rollout::search_weights(net.named(), "test");
  if (!images.empty()) play::fold(weights, images);
  if (nets::product_precision() == nets::Precision::kBf16) play::round_weights(weights, net.instructions());
  return weights;
}

}  // namespace

TEST_CASE("the network has the bits of LibTorch's side, with layer norm and without, at odd widths",
          "[property]") {
  for (const bool norm : {true, false}) {
    for (const std::int64_t hidden : {16, 40, 256}) {
      const nets::Mlp net = fresh_net({309, hidden, 4, norm});
      const play::QWeights weights = rollout::search_weights(net.named(), "test");
      const at::Tensor mostly_zero = at::randn({100, 310}).mul_(at::rand({100, 310}).lt(0.3));
      nets::MlpPass pass;
      nets::forward(net, mostly_zero, pass);
      play::QScratch scratch;
      const at::Tensor q = at::empty({100, 4});
      play::forward(weights, 100, mostly_zero.data_ptr<float>(), 310, scratch, q.data_ptr<float>());
      CHECK(at::equal(q, pass.output));
    }
  }
}

TEST_CASE(
    "a symmetric network has the bits of LibTorch's side, and nearly those of the same weights without the "
    "short cut",
    "[property]") {
  for (const bool norm : {true, false}) {
    for (const std::int64_t hidden : {16, 40, 256}) {
      nets::Mlp net = symmetric_net(hidden, norm);
      const auto images = nets::symmetric_inputs(net.named(), kMirror, "test");
      REQUIRE(images.size() == 309);
      play::QWeights weights = rollout::search_weights(net.named(), "test");
      CHECK(play::is_symmetric(weights, kMirror));
      CHECK_FALSE(play::is_symmetric(weights, {}));
      for (auto& layer : weights.layer) {
        for (core::AlignedFloats* block : {&layer.weight, &layer.bias, &layer.gain, &layer.shift}) {
          if (block->empty()) continue;
          const float kept = std::exchange(block->back(), 0.7F);
          CHECK_FALSE(play::is_symmetric(weights, kMirror));
          block->back() = kept;
        }
      }
      const at::Tensor mostly_zero = at::randn({100, 310}).mul_(at::rand({100, 310}).lt(0.3));
      nets::MlpPass pass;
      pass.row_by_row = true;
      nets::forward(net, mostly_zero, pass);
      play::QScratch scratch;
      const at::Tensor q = at::empty({100, 4}), plain = at::empty({100, 4});
      play::forward(weights_of(net, images), 100, mostly_zero.data_ptr<float>(), 310, scratch,
                    q.data_ptr<float>());
      CHECK(at::equal(q, pass.output));
      play::forward(rollout::search_weights(net.named(), "test"), 100, mostly_zero.data_ptr<float>(), 310,
                    scratch, plain.data_ptr<float>());
      CHECK_FALSE(at::equal(q, plain));
      CHECK((q - plain).abs().max().item<double>() < 1e-5);

      net.parameters().flat()[5] += 0.01;
      CHECK(nets::symmetric_inputs(net.named(), kMirror, "test").empty());
      CHECK(nets::symmetric_inputs(net.named(), {}, "test").empty());
    }
  }
}

TEST_CASE("in bfloat16 the network has the bits of LibTorch's side, too", "[property]") {
  // Instructions that this processor does not have are emulated.
  const auto [instructions, symmetric] =
      GENERATE(std::pair{core::Bf16By::kTiles, true}, std::pair{core::Bf16By::kVectors, true},
               std::pair{core::Bf16By::kVectors, false});
  CAPTURE(static_cast<int>(instructions), symmetric);
  const std::vector<core::MirrorImage> images = symmetric ? kMirror.inputs : std::vector<core::MirrorImage>();
  nets::set_product_precision(nets::Precision::kBf16, instructions);
  const nets::Mlp net = symmetric ? symmetric_net(256, true) : fresh_net({309, 256, 4, true});
  const play::QWeights weights = weights_of(net, images);
  nets::set_product_precision(nets::Precision::kFloat32);
  const at::Tensor mostly_zero = at::randn({100, 310}).mul_(at::rand({100, 310}).lt(0.3));
  const auto q_of = [&](const play::QWeights& of, std::int64_t count) {
    play::QScratch scratch;
    at::Tensor q = at::empty({count, 4});
    play::forward(of, count, mostly_zero.data_ptr<float>(), 310, scratch, q.data_ptr<float>());
    return q;
  };
  nets::MlpPass pass;
  nets::forward(net, mostly_zero, pass);
  CHECK(at::equal(q_of(weights, 100), pass.output));
  CHECK(at::equal(q_of(weights, 3), pass.output.narrow(0, 0, 3)));
  const at::Tensor usual = q_of(weights_of(net, images), 100);
  CHECK_FALSE(at::equal(usual, pass.output));
  CHECK((usual - pass.output).abs().max().item<double>() < 0.02);
}

TEST_CASE("a leaf of a network that is not symmetric depends on its board alone", "[property]") {
  const std::vector<game::State> boards = champion::boards(4, 10);
  const play::QWeights weights = rollout::search_weights(fresh_net({309, 64, 4, true}).named(), "test");
  play::Evaluator evaluator(weights, {game::ObsKind::kView}, {});
  std::vector<play::Leaf> together(boards.size()), alone(boards.size());
  evaluator(boards, together);
  for (std::size_t k = 0; k < boards.size(); ++k)
    evaluator(std::span(boards).subspan(k, 1), std::span(alone).subspan(k, 1));
  for (std::size_t k = 0; k < boards.size(); ++k)
    CHECK(std::memcmp(together[k].q, alone[k].q, sizeof alone[k].q) == 0);
}

TEST_CASE("a leaf depends on its board alone, and a finished board is worth nothing", "[property]") {
  std::vector<game::State> boards = champion::boards(4, 10);
  REQUIRE(boards.size() > 30);
  boards[7].is_done = true;
  play::Evaluator evaluator = champion::evaluator();
  std::vector<play::Leaf> together(boards.size()), alone(boards.size());
  evaluator(boards, together);
  for (std::size_t k = 0; k < boards.size(); ++k)
    evaluator(std::span(boards).subspan(k, 1), std::span(alone).subspan(k, 1));
  for (std::size_t k = 0; k < boards.size(); ++k) {
    CHECK(std::memcmp(together[k].q, alone[k].q, sizeof alone[k].q) == 0);
    CHECK(together[k].value == alone[k].value);
    CHECK((together[k].value == 0.0F) == boards[k].done());
  }
}

TEST_CASE("the value is the difference of both teams' over what each counts of the other's points",
          "[unit]") {
  const std::vector<game::State> boards = champion::boards(2, 10);
  std::vector<game::State> swapped;
  for (const game::State& s : boards) swapped.push_back(game::with_sides_swapped(s));
  std::vector<play::Leaf> leaves(boards.size()), others(boards.size()), scaled(boards.size());
  play::Evaluator evaluator = champion::evaluator();
  evaluator(boards, leaves);
  evaluator(swapped, others);
  play::Evaluator(champion::net(), champion::obs_spec(), {1.0, 2.0, 0.99})(boards, scaled);
  for (std::size_t k = 0; k < boards.size(); ++k) {
    double team[2] = {0, 0};
    for (int i = 0; i < game::kSnakes; ++i) {
      double best = -1e9;
      for (int a = 0; a < game::kMoves; ++a)
        if ((leaves[k].open[i] >> a & 1) != 0) best = std::max(best, static_cast<double>(leaves[k].q[i][a]));
      CHECK(leaves[k].open[i] == game::open_moves(boards[k], i));
      team[i / 3] += best / 3;
    }
    CHECK(static_cast<double>(leaves[k].value) == Approx((team[0] - team[1]) / 1.5).margin(1e-5));
    CHECK(static_cast<double>(scaled[k].value) == Approx((team[0] - team[1]) / 4.0).margin(1e-5));
    CHECK(others[k].value == Approx(-leaves[k].value).margin(1e-5));
  }
}

TEST_CASE("with the heading up, values are those of the directions that the moves lead to", "[unit]") {
  nets::Mlp net({game::obs_size(game::ObsKind::kAhead), 16, 4, false}, at::kCPU, nets::kQNetName);
  for (const auto& [name, tensor] : net.named()) tensor.zero_();
  net.named().back().second.copy_(at::tensor({0.0F, 1.0F, 2.0F, 3.0F}));  // the last bias
  const play::QWeights weights = rollout::search_weights(net.named(), "test");
  const std::vector<game::State> boards = champion::boards(2, 10);
  std::vector<play::Leaf> leaves(boards.size());
  play::Evaluator(weights, {game::ObsKind::kAhead}, {})(boards, leaves);
  constexpr int kLeftOf[4] = {game::kLeft, game::kRight, game::kDown, game::kUp};
  for (std::size_t k = 0; k < boards.size(); ++k) {
    for (int i = 0; i < game::kSnakes; ++i) {
      const int heading = boards[k].direction(i);
      CHECK(leaves[k].q[i][heading] == 0.0F);
      CHECK(leaves[k].q[i][heading ^ 1] == 1.0F);
      CHECK(leaves[k].q[i][kLeftOf[heading]] == 2.0F);
      CHECK(leaves[k].q[i][kLeftOf[heading] ^ 1] == 3.0F);
    }
  }
}

TEST_CASE("values from elsewhere are asked for in batches, for boards whose games are running", "[unit]") {
  std::vector<game::State> boards = champion::boards(3, 10);
  REQUIRE(boards.size() > 20);
  boards[2].is_done = boards[9].is_done = true;
  std::vector<std::size_t> asked, batches;
  play::QScratch scratch;
  const play::Values values = [&](std::span<const game::State> all, std::span<const std::size_t> places,
                                  const float* rows, float* q) {
    REQUIRE(all.data() == boards.data());
    asked.insert(asked.end(), places.begin(), places.end());
    batches.push_back(places.size());
    const std::int64_t row = champion::obs_spec().features() + 1;
    play::forward(champion::net(), static_cast<std::int64_t>(places.size()) * game::kSnakes, rows, row,
                  scratch, q);
  };
  play::Evaluator evaluator(values, champion::obs_spec(), {}, 7);
  std::vector<play::Leaf> leaves(boards.size()), wanted(boards.size());
  evaluator(boards, leaves);
  champion::evaluator()(boards, wanted);
  CHECK(asked.size() == boards.size() - 2);
  CHECK(std::find_if(asked.begin(), asked.end(), [&](std::size_t k) { return boards[k].done(); }) ==
        asked.end());
  CHECK(std::all_of(batches.begin(), batches.end() - 1, [](std::size_t n) { return n == 7; }));
  for (std::size_t k = 0; k < boards.size(); ++k) {
    CHECK(std::memcmp(leaves[k].q, wanted[k].q, sizeof wanted[k].q) == 0);
    CHECK(leaves[k].value == wanted[k].value);
    CHECK(std::memcmp(leaves[k].open, wanted[k].open, sizeof wanted[k].open) == 0);
  }
}

TEST_CASE("a team of values from elsewhere plays as the network that gives them, with a search and without",
          "[property]") {
  const auto hashes = [](const play::MakeMover& team) {
    std::vector<std::uint64_t> all;
    play::MatchOptions options{2, 5};
    options.watch = [&](std::int64_t, const game::State& state) { all.push_back(game::hash(state)); };
    play::play_match(team, play::scripted(game::Opponent::kLevel2), options);
    return all;
  };
  const play::Values values = [scratch = play::QScratch()](std::span<const game::State>,
                                                           std::span<const std::size_t> places,
                                                           const float* rows, float* q) mutable {
    play::forward(champion::net(), static_cast<std::int64_t>(places.size()) * game::kSnakes, rows,
                  champion::obs_spec().features() + 1, scratch, q);
  };
  const play::Evaluator evaluator(values, champion::obs_spec(), {}, 1000);
  play::SearchSpec none;
  none.kind = play::SearchSpec::Kind::kNone;
  const auto team = [&](const play::SearchSpec& spec) {
    return play::mover(std::make_shared<const play::Searcher>(play::Searcher{{}, {}, spec}), evaluator);
  };
  CHECK(hashes(team(none)) == hashes(champion::bare()));
  const play::SearchSpec look = *play::try_spec("look1");
  CHECK(hashes(team(look)) == hashes(champion::searching(look)));
  CHECK(hashes(team(look)) != hashes(team(none)));
}

TEST_CASE("an actor's file gives no weights for search", "[unit]") {
  const auto actor = io::load_state_dict(test_data("upstream_actor_2000.pth"));
  CHECK_THROWS_AS(rollout::search_weights(actor, "actor"), core::FileError);
}

TEST_CASE("searches end in the middle of a move when they are told to", "[unit]") {
  const nets::Mlp net = fresh_net({309, 16, 4, false});
  for (const char* spec : {"look4", "puct1000000", "puct1000000x1000", "puct@60000ms"}) {
    CAPTURE(spec);
    const auto player = std::make_shared<const play::Searcher>(
        play::Searcher{rollout::search_weights(net.named(), "test"), {}, *play::try_spec(spec)});
    int asked = 0;
    play::MatchOptions match;
    match.games = 4;
    match.stop = [&asked] { return ++asked > 5; };
    const rollout::Player searching{std::nullopt, nullptr, {.kind = game::ObsKind::kAhead},
                                    false,        true,    player};
    const play::MatchResult result =
        rollout::play_match(searching, {game::Opponent::kLevel0, nullptr, {}, false}, match);
    CHECK(result.games == 0);
    CHECK(asked < 20);
  }
}
