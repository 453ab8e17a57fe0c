#include "snake_ddp/bench/benches.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "products.hpp"
#include "snake_ddp/agents/opponents.hpp"
#include "snake_ddp/base/host.hpp"
#include "snake_ddp/bench/jobs.hpp"
#include "snake_ddp/data/board_set.hpp"
#include "snake_ddp/data/loader.hpp"
#include "snake_ddp/encode/snake_graph.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/nets/token_reader.hpp"
#include "snake_ddp/pretrain/stage.hpp"

namespace snake_ddp::bench {
namespace {

constexpr std::uint64_t kRecordedGames = 64;
constexpr int kViewRadius = 4;

// Games between level 2 and level 4, every eighth board, as `eval --record_boards` writes them.
void record_games(const std::string& path, std::int64_t interval) {
  data::BoardSetWriter writer(path, interval);
  for (std::uint64_t stream = 0; stream < kRecordedGames; ++stream) {
    game::State state = game::new_board({1, stream});
    std::vector<game::State> boards;
    for (bool done = false; !done;) {
      if ((state.step() - 1) % interval == 0) boards.push_back(state);
      game::Actions actions;
      agents::act(agents::Opponent::kLevel2, state, 0, actions, 1, stream);
      agents::act(agents::Opponent::kLevel4, state, 1, actions, 1, stream);
      done = game::advance(state, actions, {1, stream}).done;
    }
    writer.add_game(boards);
  }
  writer.finish();
}

std::vector<std::int64_t> rows_of_batch(const data::BoardSet& set, std::int64_t batch_size, std::int64_t k) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < batch_size; ++i) rows.push_back((k * batch_size + i) % set.boards());
  return rows;
}

double step_us(double seconds, pretrain::Stage& stage, const data::Batch& batch,
               const pretrain::PretrainOptions& o) {
  nets::FlatParameters gradients = stage.parameters().like();
  const nets::Weights leaves = nets::leaves_over(stage.parameters(), gradients);
  learners::Adam adam(stage.parameters(), o.learning_rate, false);
  return median_us(seconds, [&] {
    gradients.flat().zero_();
    stage.loss(batch, leaves, static_cast<double>(o.batch_size)).backward();
    const c10::NoGradGuard no_grad;
    adam.step(stage.parameters().flat(), gradients.flat(), o.max_grad_norm);
  });
}

// A stage's file without what only a continuation needs.
nets::NamedTensors model_of(pretrain::Stage& stage) {
  nets::NamedTensors model = {{std::string(nets::kModelPrefix) + "shape", stage.shape()}};
  nets::add_under(model, nets::kModelPrefix, nets::views_of(stage.blocks(), stage.parameters()));
  return model;
}

Row per_second(std::string name, double count, double us, double least_us) {
  return {std::move(name), count * 1e6 / us, "samples/s", count * 1e6 / least_us, least_us / us};
}

std::int64_t nodes_in(const at::Tensor& graphs) {
  return graphs.select(-1, 0).gt(0).sum().item<std::int64_t>();
}

Row loader_row(double seconds, const data::BoardSet& set, const data::SampleOptions& sample, int workers,
               const pretrain::PretrainOptions& o, double needed) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  data::Loader loader(set, kMost, [&](std::int64_t k) { return rows_of_batch(set, o.batch_size, k); }, sample,
                      {workers, static_cast<int>(o.prefetch), false});
  for (std::int64_t k = 0; k < 2 * o.prefetch; ++k) (void)loader.next();
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t batches = 0;
  for (const auto end = begin + std::chrono::duration<double>(seconds);
       std::chrono::steady_clock::now() < end; ++batches)
    (void)loader.next();
  const double rate = static_cast<double>(batches * o.batch_size) /
                      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {fmt::format("pretrain_loader_{}_worker{}", workers, workers == 1 ? "" : "s"), rate, "samples/s",
          needed, rate / needed};
}

// What three agents see on each board, [boards * 3, 6, nodes, features].
at::Tensor views_of_agents(const data::BoardSet& set, std::int64_t boards) {
  at::Tensor views =
      at::empty({boards * game::kTeamSize, game::kSnakes, encode::kGraphNodes, encode::kNodeFeatures});
  float hidden[game::kSnakes];
  auto* to = views.data_ptr<float>();
  for (std::int64_t b = 0; b < boards; ++b) {
    const game::State& board = set.board(b * (set.boards() / boards));
    for (int agent = 0; agent < game::kTeamSize; ++agent, to += encode::kGraphsFloats)
      encode::write_graphs(board, 0, {board.head(agent), kViewRadius}, to, hidden);
  }
  return views;
}

Row reading_row(double seconds, const at::Tensor& views, pretrain::Stage& tokenizer,
                pretrain::Stage& predictor) {
  const c10::NoGradGuard no_grad;
  const nets::TokenReader reader(
      nets::frozen_tokenizer(model_of(tokenizer), at::kCPU, "the bench's tokenizer"),
      nets::frozen_mask_predictor(model_of(predictor), at::kCPU, "its mask predictor"), "the bench");
  const std::int64_t count = views.size(0), places = count * game::kSnakes,
                     seen = nodes_in(views.select(2, 0));
  const double us = median_us(seconds / 2, [&] { (void)reader.read(views.view({count, -1})); });
  std::vector<Product> products = tokenizer_products(
      nets::tokenizer_shape_from(tokenizer.shape(), "the bench"), seen, nodes_in(views), /*learns=*/false);
  for (const Product& p :
       mask_predictor_products(nets::mask_predictor_shape_from(predictor.shape(), "the bench"), count, seen,
                               places - seen, /*learns=*/false))
    products.push_back(p);
  return per_second("read_tokens", static_cast<double>(count), us, time_of(seconds / 2, products).fastest);
}

}  // namespace

std::vector<Row> measure_pretrain(double seconds, std::int64_t batch_size) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  base::keep_freed_memory();
  const double part = seconds / 5;
  const TemporaryFolder folder;
  pretrain::PretrainOptions o;
  o.batch_size = batch_size;
  record_games(folder.path() + "/games.boards", o.board_interval);
  const data::BoardSet set(folder.path() + "/games.boards");
  const std::vector<std::int64_t> rows = rows_of_batch(set, o.batch_size, 0);
  const auto size = static_cast<double>(o.batch_size);
  o.tokenizer = folder.path() + "/tokenizer.pth";

  const auto tokenizer = pretrain::make_tokenizer_stage(o, at::kCPU);
  const data::Batch whole = data::make_batch(set, rows, tokenizer->sample(), false);
  const nets::TokenizerShape shape = nets::tokenizer_shape_from(tokenizer->shape(), "the bench");
  const std::int64_t graphs = whole.hidden.numel() - whole.hidden.sum().item<std::int64_t>(),
                     nodes = nodes_in(whole.seen);
  const double tokenizer_us = step_us(part / 2, *tokenizer, whole, o);
  Row first =
      per_second("pretrain_tokenizer", size, tokenizer_us,
                 time_of(part / 2, tokenizer_products(shape, graphs, nodes, /*learns=*/true)).fastest);

  files::save_state_dict(o.tokenizer, model_of(*tokenizer));
  const auto predictor = pretrain::make_mask_stage(o, at::kCPU);
  const data::Batch masked = data::make_batch(set, rows, predictor->sample(), false);
  const auto asked = masked.masked.sum().item<std::int64_t>(),
             seen = at::maximum(masked.masked, masked.hidden).lt(1).sum().item<std::int64_t>();
  const double predictor_us = step_us(part / 2, *predictor, masked, o);
  std::vector<Product> products = tokenizer_products(shape, graphs, nodes, /*learns=*/false);
  for (const Product& p :
       mask_predictor_products(nets::mask_predictor_shape_from(predictor->shape(), "the bench"), o.batch_size,
                               seen, asked, /*learns=*/true))
    products.push_back(p);
  Row second = per_second("pretrain_mask_predictor", size, predictor_us, time_of(part / 2, products).fastest);

  const double needed = std::max(first.value, second.value);
  std::vector<Row> all = {std::move(first), std::move(second)};
  for (const int workers : {1, 2})
    all.push_back(loader_row(part, set, predictor->sample(), workers, o, needed));
  all.push_back(reading_row(part, views_of_agents(set, o.batch_size), *tokenizer, *predictor));
  at::set_num_threads(threads);
  return all;
}

}  // namespace snake_ddp::bench
