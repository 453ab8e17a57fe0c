// Two ranks that average the gradients of a large module, against one plain average. It starts its ranks itself.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/reducer.hpp"
#include "snake_ddp/dist/self_launch.hpp"
#include "snake_ddp/nets/leaves.hpp"

namespace {

using namespace snake_ddp;

constexpr std::int64_t kWidth = 512, kRows = 512, kLayers = 12;

// A chain of layers; the odd ranks leave one out, so that it gets no gradient there.
at::Tensor loss_of(const nets::Weights& weights, const at::Tensor& x, bool leave_out) {
  at::Tensor hidden = x;
  for (std::size_t l = 0; l < weights.size(); ++l) {
    if (leave_out && l == weights.size() / 2) continue;
    hidden = at::linear(hidden, weights[l]).tanh();
  }
  return hidden.square().mean();
}

void run(const dist::World& world) {
  at::set_num_threads(1);
  dist::Options options;
  options.device = "cpu";
  options.shared_memory = false;  // through Gloo, as between machines
  dist::DistContext group(world, options);
  std::vector<nets::NamedBlock> blocks;
  for (std::int64_t l = 0; l < kLayers; ++l)
    blocks.push_back({fmt::format("{}", l), {kWidth, kWidth}, kWidth, 0});
  nets::FlatParameters parameters(nets::blocks_of(blocks), at::kCPU), gradients = parameters.like();
  nets::init_blocks(blocks, parameters, 1);
  const nets::Weights leaves = nets::leaves_over(parameters, gradients);
  const at::Tensor x =
      at::sin(at::arange(kRows * kWidth, at::kFloat) * (1.3 + group.rank())).view({kRows, kWidth});
  dist::Reducer reducer(leaves, gradients.flat(), group, 4 << 20);
  SD_CHECK(reducer.buckets() >= 2, "buckets");
  const auto learn = [&](bool leave_out) {
    gradients.flat().zero_();
    loss_of(leaves, x, leave_out).backward();
  };
  for (const bool leave_out : {false, true}) {
    const bool mine = leave_out && group.rank() == 1;
    learn(mine);
    at::Tensor expected = gradients.flat().clone();
    SD_CHECK(!mine || gradients.block(blocks.size() / 2).eq(0).all().item<bool>(), "no gradient there");
    group.all_reduce_mean(expected, group.deadline());
    reducer.begin();
    learn(mine);
    reducer.finish();
    SD_CHECK(gradients.flat().equal(expected), "buckets add up to the same bits");
    SD_CHECK(expected.abs().sum().item<float>() > 0, "a gradient");
  }
  if (group.is_main()) std::printf("buckets %zu\n", reducer.buckets());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (std::getenv("RANK") == nullptr) return dist::launch_local_ranks(2, std::nullopt, {argv, argv + argc});
    run(dist::this_world());
  } catch (const base::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
