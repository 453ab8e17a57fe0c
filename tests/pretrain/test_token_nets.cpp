#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <tuple>

#include "learners/adam.hpp"
#include "learners/buffer.hpp"
#include "learners/columns.hpp"
#include "learners/learner.hpp"
#include "learners/with_tokens.hpp"
#include "nets/mask_predictor.hpp"
#include "nets/token_reader.hpp"
#include "nets/tokenizer.hpp"
#include "snake_ddp/core/error.hpp"

namespace sd = snake_ddp;
using namespace snake_ddp::nets;
using sd::learners::TokenSource;

namespace {

const TokenizerShape kTokenizer{6, 4, 8, 2, 5, 3};
const MaskPredictorShape kPredictor{3, 2, 5, 8, 2, 2, 1};

struct Net {
  Net(std::vector<NamedBlock> named, std::uint64_t seed)
      : blocks(std::move(named)), parameters(blocks_of(blocks), at::kCPU), gradients(parameters.like()) {
    init_blocks(blocks, parameters, seed);
  }
  std::vector<NamedBlock> blocks;
  FlatParameters parameters, gradients;
  [[nodiscard]] const Weights& weights() const { return parameters.blocks(); }
};

// Graphs whose nodes are in a row, with the last one missing.
at::Tensor graphs_in_a_row(std::int64_t count) {
  at::Tensor graphs = at::zeros({count, kTokenizer.nodes, kTokenizer.features});
  for (std::int64_t g = 0; g < count; ++g) {
    for (std::int64_t n = 0; n + 1 < kTokenizer.nodes; ++n) {
      graphs[g][n][0] = 1;
      graphs[g][n][1] = static_cast<float>(n * (1 + g % 3)) / static_cast<float>(kColumnsPerUnit);
      graphs[g][n][3] = 0.1F * static_cast<float>(g);
    }
  }
  return graphs;
}

// Graphs as boards have them: nodes in random cells of the torus, some missing, and one graph without any.
at::Tensor scattered_graphs(std::int64_t count, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto drawn = [&](std::int64_t below) {
    return at::randint(below, {count, kTokenizer.nodes}, generator, at::kFloat);
  };
  const at::Tensor columns = (drawn(6) + 7) / kColumnsPerUnit, rows = (drawn(4) - 2) / kRowsPerUnit,
                   present = drawn(4).gt(0).to(at::kFloat);
  at::Tensor graphs =
      at::stack({at::ones_like(present), columns, rows, drawn(9) / 10}, 2) * present.unsqueeze(2);
  graphs[1].zero_();
  return graphs;
}

NamedTensors file_of(const Net& net, const at::Tensor& shape) {
  NamedTensors file = {{"model.shape", shape}};
  add_under(file, kModelPrefix, views_of(net.blocks, net.parameters));
  return file;
}

TokenReader reader_of(const Net& tokenizer, const Net& predictor, const TokenizerShape& shape = kTokenizer,
                      const MaskPredictorShape& predictor_shape = kPredictor) {
  return {frozen_tokenizer(file_of(tokenizer, shape_tensor(shape)), at::kCPU, "a"),
          frozen_mask_predictor(file_of(predictor, shape_tensor(predictor_shape)), at::kCPU, "b"), "here"};
}

}  // namespace

TEST_CASE("a backward pass through leaves fills the flat gradient", "[unit]") {
  const Net net({{"a", {2, 3}, 3, 0}, {"b", {2, 0}, 0, 1}}, 1);
  const Weights leaves = leaves_over(net.parameters, net.gradients);
  const at::Tensor x = at::tensor({1.0F, 2.0F, 3.0F});
  for (int times = 1; times <= 2; ++times) {
    (at::mv(leaves[0], x) * leaves[1]).sum().backward();
    CHECK(net.gradients.block(0)[1].equal(x * times));
    CHECK(net.gradients.block(1).allclose(at::mv(net.parameters.block(0), x) * times));
  }
}

TEST_CASE("tokens do not depend on where on the torus a node's neighbour lies, only that it is one",
          "[property]") {
  const Net net(tokenizer_blocks(kTokenizer), 3);
  at::Tensor near = at::zeros({1, 6, 4}), far = at::zeros({1, 6, 4});
  near[0][0] = far[0][0] = at::tensor({1.0F, 0.0F, 0.0F, 0.3F});
  near[0][1] = at::tensor({1.0F, 0.9F, 0.0F, 0.0F});
  near[0][2] = at::tensor({1.0F, -1.0F, 0.0F, 0.0F});  // next to the one before, over the edge
  far[0][1] = near[0][1].clone();
  far[0][2] = at::tensor({1.0F, -0.8F, 0.0F, 0.0F});  // three cells off
  Weights weights = net.weights();
  const auto change_of = [&](const at::Tensor& graphs) {
    const at::Tensor before = encode_graphs(kTokenizer, weights, graphs);
    Weights other = weights;
    for (std::size_t i = 0; i < net.blocks.size(); ++i)
      if (net.blocks[i].name == "layer_1.near") other[i] = weights[i] + 1.0;
    return (encode_graphs(kTokenizer, other, graphs) - before).abs().max().item<float>();
  };
  CHECK(change_of(near) > 1e-4F);
  CHECK(change_of(far) == 0.0F);
}

TEST_CASE("the nearest code is the nearest, and its vector is in the codebook", "[unit]") {
  const Net net(tokenizer_blocks(kTokenizer), 4);
  const Weights weights = net.weights();
  const at::Tensor latent = encode_graphs(kTokenizer, weights, graphs_in_a_row(7)) + at::randn({7, 2, 3});
  const at::Tensor tokens = nearest_codes(kTokenizer, weights, latent),
                   vectors = code_vectors(kTokenizer, weights, tokens);
  const at::Tensor books = codebooks_of(net.parameters).view({2, 5, 3});
  for (std::int64_t n = 0; n < 7; ++n) {
    for (std::int64_t t = 0; t < 2; ++t) {
      const at::Tensor distances = (books[t] - latent[n][t]).square().sum(1);
      CHECK(distances.argmin().item<std::int64_t>() == tokens[n][t].item<std::int64_t>());
      CHECK(vectors[n][t].equal(books[t][tokens[n][t].item<std::int64_t>()]));
    }
  }
}

TEST_CASE("a tokenizer fits a few graphs, and each of its blocks gets a gradient", "[unit]") {
  Net net(tokenizer_blocks(kTokenizer), 5);
  const Weights leaves = leaves_over(net.parameters, net.gradients);
  const at::Tensor graphs = graphs_in_a_row(9);
  sd::learners::Adam adam(net.parameters, 0.01);
  double first = 0, last = 0;
  for (int k = 0; k < 200; ++k) {
    net.gradients.flat().zero_();
    const TokenizerLoss loss = tokenizer_loss(kTokenizer, leaves, graphs);
    (loss.reconstruction + loss.codebook + 0.25 * loss.commitment).mean().backward();
    if (k == 0) {
      for (std::size_t i = 0; i < net.blocks.size(); ++i) {
        INFO(net.blocks[i].name);
        CHECK(net.gradients.block(i).abs().max().item<float>() > 0);
      }
    }
    last = loss.reconstruction.mean().item<double>();
    if (k == 0) first = last;
    adam.step(net.parameters.flat(), net.gradients.flat(), 1.0);
  }
  CHECK(last < 0.1 * first);
}

TEST_CASE("masked places do not affect the prediction, visible ones do", "[property]") {
  const Net net(mask_predictor_blocks(kPredictor), 6);
  const Weights& weights = net.weights();
  const at::Tensor tokens = at::randint(5, {4, 3, 2}, at::kLong);
  at::Tensor unseen = at::zeros({4, 3});
  unseen.select(1, 1).fill_(1);
  const at::Tensor before = predict_tokens(kPredictor, weights, tokens, unseen);
  REQUIRE(before.sizes() == at::IntArrayRef({4, 3, 2, 5}));
  at::Tensor hidden = tokens.clone(), shown = tokens.clone();
  hidden.select(1, 1).fill_(0).add_(3 - tokens.select(1, 1).clamp_max(3));
  shown.select(1, 2).add_(1).remainder_(5);
  CHECK(predict_tokens(kPredictor, weights, hidden, unseen).equal(before));
  CHECK((predict_tokens(kPredictor, weights, shown, unseen) - before)
            .abs()
            .amax({1, 2, 3})
            .gt(1e-6)
            .all()
            .item<bool>());
}

TEST_CASE("a mask predictor fits one batch, and each of its blocks gets a gradient", "[unit]") {
  Net net(mask_predictor_blocks(kPredictor), 7);
  const Weights leaves = leaves_over(net.parameters, net.gradients);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const at::Tensor tokens = at::randint(5, {16, 3, 2}, generator, at::kLong);
  at::Tensor unseen = at::zeros({16, 3});
  unseen.select(1, 0).fill_(1);
  sd::learners::Adam adam(net.parameters, 0.01);
  double last = 0;
  for (int k = 0; k < 300; ++k) {
    net.gradients.flat().zero_();
    const at::Tensor logits = predict_tokens(kPredictor, leaves, tokens, unseen).select(1, 0).flatten(0, 1);
    const at::Tensor loss = at::cross_entropy_loss(logits, tokens.select(1, 0).flatten());
    loss.backward();
    if (k == 0) {
      for (std::size_t i = 0; i < net.blocks.size(); ++i) {
        INFO(net.blocks[i].name);
        CHECK(net.gradients.block(i).abs().max().item<float>() > 0);
      }
    }
    last = loss.item<double>();
    adam.step(net.parameters.flat(), net.gradients.flat(), 1.0);
  }
  CHECK(last < 0.1);
}

TEST_CASE("a token reader returns the codes of visible snakes, and expected codes for the others", "[unit]") {
  const Net tokenizer(tokenizer_blocks(kTokenizer), 8), predictor(mask_predictor_blocks(kPredictor), 9);
  const TokenReader reader = reader_of(tokenizer, predictor);
  REQUIRE(reader.graph_floats() == 3 * 6 * 4);
  REQUIRE(reader.features() == 3 * (2 * 3 + 1));
  at::Tensor graphs = graphs_in_a_row(3);
  graphs[1].zero_();  // the second snake is not seen
  const at::Tensor output = reader.read(graphs.view({1, -1}));
  CHECK(output.narrow(1, 18, 3).equal(at::tensor({0.0F, 1.0F, 0.0F}).view({1, 3})));
  const at::Tensor tokens =
      nearest_codes(kTokenizer, tokenizer.weights(), encode_graphs(kTokenizer, tokenizer.weights(), graphs));
  const at::Tensor known = code_vectors(kTokenizer, tokenizer.weights(), tokens);
  CHECK(output[0].narrow(0, 0, 6).allclose(known[0].flatten()));
  CHECK(output[0].narrow(0, 12, 6).allclose(known[2].flatten()));
  const at::Tensor odds = predict_tokens(kPredictor, predictor.weights(), tokens.view({1, 3, 2}),
                                         at::tensor({0.0F, 1.0F, 0.0F}).view({1, 3}))
                              .softmax(3)[0][1];
  const at::Tensor books = codebooks_of(tokenizer.parameters).view({2, 5, 3});
  for (std::int64_t t = 0; t < 2; ++t)
    CHECK(output[0].narrow(0, 6 + 3 * t, 3).allclose((odds[t].unsqueeze(1) * books[t]).sum(0), 1e-5, 1e-6));
}

TEST_CASE(
    "what a token reader returns of a row does not depend on the other rows, and on threads by rounding only",
    "[property]") {
  for (const auto& [tokenizer_shape, predictor_shape] :
       {std::pair(kTokenizer, kPredictor),
        std::pair(TokenizerShape{6, 4, 16, 4, 32, 8}, MaskPredictorShape{3, 4, 32, 20, 4, 2, 2})}) {
    const Net tokenizer(tokenizer_blocks(tokenizer_shape), 8),
        predictor(mask_predictor_blocks(predictor_shape), 9);
    const TokenReader reader = reader_of(tokenizer, predictor, tokenizer_shape, predictor_shape);
    constexpr std::int64_t kRows = 300;  // several blocks
    at::Tensor graphs = scattered_graphs(3 * kRows, 5).view({kRows, 3, -1});
    graphs.narrow(0, 0, kRows / 2).select(1, 1).zero_();  // half of the rows have an unseen snake
    graphs = graphs.view({kRows, -1});
    const at::Tensor all = reader.read(graphs);
    for (const auto& [first, count] :
         {std::pair<std::int64_t, std::int64_t>(0, 1), {3, 2}, {149, 5}, {17, 64}, {40, 131}, {299, 1}})
      CHECK(reader.read(graphs.narrow(0, first, count)).equal(all.narrow(0, first, count)));
    const int threads = at::get_num_threads();
    at::set_num_threads(3);
    CHECK(at::allclose(reader.read(graphs), all, 1e-4, 1e-5));
    at::set_num_threads(threads);
  }
}

namespace {

// A board is a number here. A snake sees the graphs of all three snakes, or of some.
constexpr std::int64_t kBoard = 1;

TokenSource source_of(const Net& tokenizer, const Net& predictor, std::int64_t* read = nullptr) {
  return {
      reader_of(tokenizer, predictor), kBoard, [read](const at::Tensor& boards) {
        if (read != nullptr) *read += boards.size(0);
        const at::Tensor seen =
            boards.remainder(8).view({-1, 1, 1}).ge(at::arange(1, 4).view({1, 3, 1}));  // the viewers differ
        return graphs_in_a_row(9).view({1, 3, -1}) * seen;
      }};
}

sd::learners::LearnerOptions qmix_options(std::int64_t features) {
  sd::learners::LearnerOptions options;
  options.algo = "qmix";
  options.hidden_size = 16;
  options.features = features;
  return options;
}

}  // namespace

TEST_CASE(
    "a learner with tokens learns like one that gets the tokens directly, and does not change the reader",
    "[unit]") {
  const Net tokenizer(tokenizer_blocks(kTokenizer), 8), predictor(mask_predictor_blocks(kPredictor), 9);
  const TokenSource eyes = source_of(tokenizer, predictor);
  constexpr std::int64_t kPlain = 7, kBatch = 5;
  const auto learner =
      make_learner_with_tokens(qmix_options(kPlain), source_of(tokenizer, predictor), /*boards=*/4);
  const auto direct = sd::learners::make_learner(qmix_options(kPlain + eyes.reader.features()));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
  const auto observation = [&] {
    const at::Tensor plain = at::rand({kBatch, 3, kPlain}, generator, at::kFloat),
                     one = at::ones({kBatch, 3, 1}),
                     boards = at::randint(8, {kBatch, kBoard}, generator, at::kFloat),
                     tokens = eyes.reader.read(eyes.graphs(boards).flatten(0, 1)).view({kBatch, 3, -1});
    return std::pair(at::cat({plain, boards.view({kBatch, 1, kBoard}).expand({kBatch, 3, kBoard}), one}, 2),
                     at::cat({plain, tokens, one}, 2));
  };
  REQUIRE(learner->columns()[0].shape == std::vector<std::int64_t>{3, kPlain + kBoard + 1});
  for (int k = 0; k < 5; ++k) {
    // Other calls of the loop are forwarded to the inner learner.
    if (k == 2) learner->scale_rates(0.25), direct->scale_rates(0.25);
    if (k == 4) learner->start_from_exported(), direct->start_from_exported();
    const auto now = observation(), next = observation();
    sd::learners::Batch seen = sd::learners::random_batch(learner->columns(), kBatch), for_direct = seen;
    std::tie(seen.columns[sd::learners::kObservation], for_direct.columns[sd::learners::kObservation]) = now;
    std::tie(seen.columns[sd::learners::kNextObservation],
             for_direct.columns[sd::learners::kNextObservation]) = next;
    learner->update(seen, [](at::Tensor&) {});
    direct->update(for_direct, [](at::Tensor&) {});
    const at::Tensor expected = direct->policy().action_values(now.second);
    CHECK(learner->policy().action_values(now.first).equal(expected));
    CHECK(learner->judged_policy().action_values(now.first).equal(expected));
  }
  const NamedTensors state = learner->state(), direct_state = direct->state(), frozen = eyes.reader.named();
  REQUIRE(state.size() == direct_state.size() + frozen.size());
  for (std::size_t i = 0; i < direct_state.size(); ++i) CHECK(state[i].second.equal(direct_state[i].second));
  for (std::size_t i = 0; i < frozen.size(); ++i)
    CHECK(state[direct_state.size() + i].second.equal(frozen[i].second));
  // A changed reader is an error, unless state_changed is called.
  at::Tensor(state.back().second).add_(1);
  CHECK_THROWS_AS(learner->state(), sd::core::Bug);
  learner->state_changed();
  CHECK_NOTHROW(learner->state());
}

TEST_CASE("a learner reads a board once while it is among the last ones, and anew for a changed reader",
          "[unit]") {
  const Net tokenizer(tokenizer_blocks(kTokenizer), 8), predictor(mask_predictor_blocks(kPredictor), 9);
  std::int64_t read = 0;
  const auto learner = make_learner_with_tokens(qmix_options(2), source_of(tokenizer, predictor, &read), 6);
  const auto rows = [](const std::vector<float>& boards) {
    return at::cat(
        {at::ones({std::ssize(boards), 3, 2}), at::tensor(boards).view({-1, 1, 1}).expand({-1, 3, kBoard}),
         at::ones({std::ssize(boards), 3, 1})},
        2);
  };
  const auto newly_read = [&](const std::vector<float>& boards, Policy& policy) {
    const std::int64_t before = read;
    (void)policy.action_values(rows(boards));
    return read - before;
  };
  CHECK(newly_read({0, 1, 2}, learner->policy()) == 3);
  CHECK(newly_read({0, 2, 3}, learner->policy()) == 1);
  sd::learners::Batch batch = sd::learners::random_batch(learner->columns(), 4);
  batch.columns[sd::learners::kObservation] = rows({0, 1, 3, 3});
  batch.columns[sd::learners::kNextObservation] = rows({1, 2, 4, 0});
  const std::int64_t before = read;
  learner->update(batch, [](at::Tensor&) {});
  CHECK(read - before == 1);  // 4
  CHECK(newly_read({5, 6, 7}, learner->judged_policy()) == 3);
  CHECK(newly_read({5, 6}, learner->policy()) == 2);  // not kept for a judgement
  CHECK(newly_read({1, 2, 3, 4, 5, 6}, learner->policy()) == 0);
  CHECK(newly_read({0}, learner->policy()) == 1);  // the oldest had left
  learner->state_changed();                        // of the inner learner, as when weights are averaged
  CHECK(newly_read({3, 4}, learner->policy()) == 0);
  at::Tensor(learner->state().back().second).add_(1);
  learner->state_changed();
  CHECK(newly_read({3, 4}, learner->policy()) == 2);
}

TEST_CASE("files that are not a stage's are rejected with the reason", "[unit]") {
  const Net tokenizer(tokenizer_blocks(kTokenizer), 8);
  NamedTensors file = file_of(tokenizer, shape_tensor(kTokenizer));
  CHECK_NOTHROW(frozen_tokenizer(file, at::kCPU, "a"));
  CHECK_THROWS_AS(frozen_mask_predictor(file, at::kCPU, "a"), sd::core::FileError);
  CHECK_THROWS_AS(frozen_tokenizer({file.begin() + 1, file.end()}, at::kCPU, "a"), sd::core::FileError);
  CHECK_THROWS_AS(frozen_tokenizer({file.begin(), file.end() - 1}, at::kCPU, "a"), sd::core::FileError);
  NamedTensors broken = file;
  broken[1].second = at::full_like(broken[1].second, NAN);
  CHECK_THROWS_WITH(frozen_tokenizer(broken, at::kCPU, "a"),
                    Catch::Contains(broken[1].first) && Catch::Contains("not finite"));
  file[0].second = at::tensor({6L, 4L, 8L, 2L, 5L, -3L}, at::kLong);
  CHECK_THROWS_AS(frozen_tokenizer(file, at::kCPU, "a"), sd::core::FileError);
}
