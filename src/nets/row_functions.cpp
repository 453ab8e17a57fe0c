#include "snake_ddp/nets/row_functions.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "fit.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::nets {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// The least number of rows, and of spans, per thread.
constexpr std::int64_t kGrainRows = 96, kGrainSpans = 16;

// The output of `node`, which was computed from these inputs, if any of them needs a gradient.
at::Tensor made_by(std::shared_ptr<Node> node, const variable_list& inputs, at::Tensor output) {
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::create_gradient_edge(output, std::move(node));
  return output;
}

bool needs_gradient(const variable_list& inputs) {
  return c10::GradMode::is_enabled() &&
         std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.requires_grad(); });
}

// out = a * b, its rows divided among threads.
void multiply_rows(std::int64_t m, std::int64_t n, std::int64_t p, kernels::MatrixView a,
                   kernels::MatrixView b, float* out, bool add) {
  at::parallel_for(0, m, kGrainRows, [&](std::int64_t first, std::int64_t end) {
    kernels::multiply(end - first, n, p, {a.data + first * a.row, a.row, a.column}, b, out + first * n, n,
                      add);
  });
}

struct LinearNode final : Node {
  at::Tensor x, weight;

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor d = gradients[0].contiguous();
    const std::int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
    variable_list found(3);
    if (task_should_compute_output(0)) {
      found[0] = at::empty({rows, in});
      multiply_rows(rows, in, out, {floats(d), out, 1}, {floats(weight), in, 1}, floats(found[0]), false);
    }
    if (task_should_compute_output(1) && rows > 0) {
      // Straight into a leaf's gradient: another pass over it would take as long as a tenth of the product.
      const at::Tensor sum = weight.is_leaf() ? weight.grad() : at::Tensor();
      const bool adds = sum.defined() && sum.is_contiguous();
      if (!adds) found[1] = at::empty({out, in});
      multiply_rows(out, in, rows, {floats(d), 1, out}, {floats(x), in, 1}, floats(adds ? sum : found[1]),
                    adds);
    }
    if (task_should_compute_output(2)) found[2] = d.sum(0);
    return found;
  }
  void release_variables() override { x.reset(), weight.reset(); }
};

struct AttentionNode final : Node {
  at::Tensor query, key_value, odds;
  std::int64_t heads = 1;
  std::vector<kernels::AttentionSpan> spans;

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor d = gradients[0].contiguous();
    at::Tensor d_query = at::empty_like(query), d_key_value = at::empty_like(key_value);
    const float *q = floats(query), *kv = floats(key_value), *p = floats(odds), *d_mixed = floats(d);
    float *d_q = floats(d_query), *d_kv = floats(d_key_value);
    const std::int64_t width = query.size(1);
    at::parallel_for(0, static_cast<std::int64_t>(spans.size()), kGrainSpans,
                     [&](std::int64_t first, std::int64_t end) {
                       for (std::int64_t i = first; i < end; ++i)
                         kernels::attend_backward(spans[static_cast<std::size_t>(i)], heads, width, q, kv, p,
                                                  d_mixed, d_q, d_kv);
                     });
    return {d_query, d_key_value};
  }
  void release_variables() override { query.reset(), key_value.reset(), odds.reset(); }
};

struct KnownGradientNode final : Node {
  std::vector<at::Tensor> known;

  variable_list apply(variable_list&& gradients) override {
    variable_list found;
    for (const at::Tensor& k : known) found.push_back(k * gradients[0]);
    return found;
  }
  void release_variables() override { known.clear(); }
};

}  // namespace

at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  SD_CHECK(x.dim() == 2 && x.is_contiguous() && weight.is_contiguous(), "whole rows");
  const std::int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  at::Tensor y = at::empty({rows, out});
  float *to = floats(y), *start = floats(bias);
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(start, out, to + r * out);
  multiply_rows(rows, out, in, {floats(x), in, 1}, {floats(weight), 1, in}, to, true);
  const variable_list inputs = {x, weight, bias};
  if (!needs_gradient(inputs)) return y;
  const auto node = std::make_shared<LinearNode>();
  node->x = x;
  node->weight = weight;
  return made_by(node, inputs, std::move(y));
}

at::Tensor attend_rows(const at::Tensor& query, const at::Tensor& key_value, std::int64_t heads,
                       const std::vector<kernels::AttentionSpan>& spans) {
  SD_CHECK(query.is_contiguous() && key_value.is_contiguous(), "whole rows");
  std::int64_t odds_count = 0;
  for (const kernels::AttentionSpan& s : spans)
    odds_count = std::max(odds_count, s.odds + heads * s.queries * s.keys);
  at::Tensor odds = at::empty({odds_count}), mixed = at::empty_like(query);
  const float *q = floats(query), *kv = floats(key_value);
  float *p = floats(odds), *to = floats(mixed);
  const std::int64_t width = query.size(1);
  at::parallel_for(0, static_cast<std::int64_t>(spans.size()), kGrainSpans,
                   [&](std::int64_t first, std::int64_t end) {
                     for (std::int64_t i = first; i < end; ++i)
                       kernels::attend(spans[static_cast<std::size_t>(i)], heads, width, q, kv, p, to);
                   });
  const variable_list inputs = {query, key_value};
  if (!needs_gradient(inputs)) return mixed;
  const auto node = std::make_shared<AttentionNode>();
  node->query = query;
  node->key_value = key_value;
  node->odds = odds;
  node->heads = heads;
  node->spans = spans;
  return made_by(node, inputs, std::move(mixed));
}

at::Tensor with_gradient(const at::Tensor& value, const Weights& leaves, const FlatParameters& gradient) {
  const auto node = std::make_shared<KnownGradientNode>();
  for (std::size_t i = 0; i < leaves.size(); ++i) node->known.push_back(gradient.block(i));
  return made_by(node, leaves, value.detach());
}

}  // namespace snake_ddp::nets
