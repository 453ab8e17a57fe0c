#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "activations.hpp"
#include "fit.hpp"
#include "host_mlp.hpp"
#include "nets/backend.hpp"
#include "nets/mixer.hpp"
#include "nets/mlp.hpp"
#include "nets/precision.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::nets {
namespace {

// The least numbers of rows per thread: of a product, of a recurrent step.
constexpr std::int64_t kProductGrain = 48, kGrain = 32;

// The row of one step. The pointers do not alias, which the compiler must know to keep several columns in flight.
void gru_row_forward(std::int64_t width, const float* __restrict input_bias,
                     const float* __restrict state_bias, const float* __restrict before, float valid,
                     float* __restrict reset, float* __restrict update, float* __restrict candidate,
                     float* __restrict recurrent, float* __restrict after) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float r = sigmoid_of(reset[j] + (input_bias[j] + state_bias[j]));
    const float z = sigmoid_of(update[j] + (input_bias[width + j] + state_bias[width + j]));
    const float u = recurrent[j] + state_bias[2 * width + j];
    const float n = tanh_of(candidate[j] + input_bias[2 * width + j] + r * u);
    reset[j] = r;
    update[j] = z;
    candidate[j] = n;
    recurrent[j] = u;
    after[j] = valid * (n + z * (before[j] - n));
  }
}

// From d, the gradient at the state after the step: those before the gates' activations, of the input's part and of the
// state's part of the candidate, in place; and what reaches the state before past all gates is added to d_before.
void gru_row_backward(std::int64_t width, const float* __restrict before, float valid,
                      const float* __restrict d, float* __restrict reset, float* __restrict update,
                      float* __restrict candidate, float* __restrict recurrent, float* __restrict d_before) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float r = reset[j], z = update[j], n = candidate[j], d_after = valid * d[j];
    const float d_candidate = d_after * (1.0F - z) * (1.0F - n * n);
    reset[j] = d_candidate * recurrent[j] * r * (1.0F - r);
    update[j] = d_after * (before[j] - n) * z * (1.0F - z);
    candidate[j] = d_candidate;
    recurrent[j] = d_candidate * r;
    d_before[j] += d_after * z;
  }
}

// Calls row(r, valid, reset, update, candidate, recurrent, before) for each row; threads share them.
template <class Row>
void for_rows(const GruStep& step, const Row& row) {
  const std::int64_t width = step.before.size(1);
  float *gates = step.gates.data_ptr<float>(), *recurrent = step.recurrent.data_ptr<float>();
  const float *before = step.before.data_ptr<float>(), *valid = step.valid.data_ptr<float>();
  at::parallel_for(0, step.before.size(0), kGrain, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) {
      float* gate = gates + r * 3 * width;
      row(r * width, valid[r], gate, gate + width, gate + 2 * width, recurrent + r * width,
          before + r * width);
    }
  });
}

// Rows of a matrix; null for an undefined one.
struct Rows {
  explicit Rows(const at::Tensor& t)
      : data(t.defined() ? t.data_ptr<float>() : nullptr), stride(t.defined() ? t.stride(0) : 0) {}
  [[nodiscard]] float* at(std::int64_t row) const { return data + row * stride; }
  float* data;
  std::int64_t stride;
};

// The pointers do not alias, which the compiler must know to keep several columns in flight.
void cell_row_forward(std::int64_t width, const float* __restrict before, float* __restrict input,
                      float* __restrict forget, float* __restrict candidate, float* __restrict output,
                      float* __restrict cell, float* __restrict squashed, float* __restrict h) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float i = sigmoid_of(input[j]), f = sigmoid_of(forget[j]), g = tanh_of(candidate[j]),
                o = sigmoid_of(output[j]), c = f * before[j] + i * g, t = tanh_of(c);
    input[j] = i;
    forget[j] = f;
    candidate[j] = g;
    output[j] = o;
    cell[j] = c;
    squashed[j] = t;
    h[j] = o * t;
  }
}

void cell_row_backward(std::int64_t width, const float* __restrict before, const float* __restrict squashed,
                       const float* __restrict above, float* __restrict input, float* __restrict forget,
                       float* __restrict candidate, float* __restrict output, float* __restrict d_cell) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float i = input[j], f = forget[j], g = candidate[j], o = output[j], t = squashed[j], dh = above[j];
    const float d = d_cell[j] + dh * o * (1.0F - t * t);
    input[j] = d * g * i * (1.0F - i);
    forget[j] = d * before[j] * f * (1.0F - f);
    candidate[j] = d * i * (1.0F - g * g);
    output[j] = dh * t * o * (1.0F - o);
    d_cell[j] = d * f;
  }
}

// The mixing network in main memory, row by row. `hyper` is the row of all hypernetworks.
float mix_row(const MixerShape& s, const float* hyper, const float* q, const float* u,
              float* __restrict hidden) {
  const std::int64_t e = s.embed;
  const float *bias = hyper + s.agents * e, *second = bias + e, *value = second + e;
  for (std::int64_t j = 0; j < e; ++j) hidden[j] = bias[j];
  for (std::int64_t i = 0; i < s.agents; ++i) {
    for (std::int64_t j = 0; j < e; ++j) hidden[j] += q[i] * std::abs(hyper[i * e + j]);
  }
  for (std::int64_t j = 0; j < e; ++j) hidden[j] = elu_of(hidden[j]);
  float sum = 0.0F;
  for (std::int64_t j = 0; j < e; ++j)
    sum += hidden[j] * std::abs(second[j]) + std::max(value[j], 0.0F) * u[j];
  return sum;
}

float sign_of(float x) { return static_cast<float>(x > 0.0F) - static_cast<float>(x < 0.0F); }

// `hyper` and `hidden` become their gradients, hidden's before elu; u's is added to d_u.
void mix_row_back(const MixerShape& s, float d, const float* q, const float* u, float* __restrict hyper,
                  float* __restrict hidden, float* __restrict d_q, float* __restrict d_u) {
  const std::int64_t e = s.embed;
  float *bias = hyper + s.agents * e, *second = bias + e, *value = second + e;
  for (std::int64_t j = 0; j < e; ++j) {
    d_u[j] += d * std::max(value[j], 0.0F);
    value[j] = value[j] > 0.0F ? d * u[j] : 0.0F;
    const float weight = second[j], out = hidden[j];
    second[j] = d * out * sign_of(weight);
    // elu: its slope is 1 above 0 and e^x = elu(x) + 1 below.
    hidden[j] = bias[j] = d * std::abs(weight) * (std::min(out, 0.0F) + 1.0F);
  }
  for (std::int64_t i = 0; i < s.agents; ++i) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < e; ++j) {
      float& weight = hyper[i * e + j];
      sum += std::abs(weight) * hidden[j];
      weight = q[i] * hidden[j] * sign_of(weight);
    }
    d_q[i] = sum;
  }
}

class HostBackend final : public Backend {
 public:
  bool in_main_memory() const override { return true; }
  std::int64_t at_a_time(std::int64_t rows, std::int64_t chunk) const override {
    return std::min(rows, chunk);
  }

  void product(at::Tensor out, const at::Tensor& left, const at::Tensor& right, bool add) const override {
    const kernels::MatrixView b{floats(right), right.stride(0), right.stride(1)};
    at::parallel_for(0, out.size(0), kProductGrain, [&](std::int64_t first, std::int64_t end) {
      const kernels::MatrixView a{floats(left) + first * left.stride(0), left.stride(0), left.stride(1)};
      kernels::multiply(end - first, out.size(1), left.size(1), a, b, floats(out) + first * out.stride(0),
                        out.stride(0), add);
    });
  }

  void sparse_product(at::Tensor out, const at::Tensor& left, const at::Tensor& right,
                      bool add) const override {
    const std::int64_t m = left.size(0), n = right.size(1), p = left.size(1);
    if (left.stride(0) == 1) {
      kernels::multiply_sparse_transposed(m, n, p, floats(left), left.stride(1), floats(right), floats(out),
                                          add);
    } else {
      SD_CHECK(!add, "sparse_product adds to its result only where the left side is a transposed view");
      kernels::multiply_sparse(m, n, p, floats(left), left.stride(0), floats(right), floats(out), n);
    }
  }

  at::Tensor transposed(const at::Tensor& weight, at::Tensor& scratch) const override {
    fit(scratch, {weight.size(1), weight.size(0)}, weight);
    return scratch.copy_(weight.t());
  }

  void norm_relu(const at::Tensor& bias, const Norm& norm, Activated& rows, bool keep) const override {
    if (!norm.gain.defined()) {
      bias_relu(rows.z, bias);
      rows.out = rows.z;
      return;
    }
    keep ? fit(rows.out, rows.z.sizes(), rows.z) : void(rows.out = rows.z);
    fit(rows.inverse_deviation, {rows.z.size(0)}, rows.z);
    kernels::norm_relu(rows.z.size(0), rows.z.size(1), floats(bias), floats(norm.gain), floats(norm.shift),
                       floats(rows.z), floats(rows.inverse_deviation), floats(rows.out));
  }

  at::Tensor norm_relu_back(const Norm& norm, const Activated& rows, at::Tensor d, at::Tensor d_bias,
                            const Norm& d_norm) const override {
    const std::int64_t width = d.size(1);
    // The kernels compute them in any case.
    const at::Tensor ignored = d_bias.defined() ? at::Tensor() : at::zeros({3, width}, d.options());
    const auto into = [&](const at::Tensor& wanted, std::int64_t row) {
      return ignored.defined() ? floats(ignored) + row * width : floats(wanted);
    };
    if (norm.gain.defined()) {
      kernels::norm_relu_backward(d.size(0), width, floats(norm.gain), floats(rows.z),
                                  floats(rows.inverse_deviation), floats(rows.out), floats(d),
                                  into(d_bias, 0), into(d_norm.gain, 1), into(d_norm.shift, 2));
    } else {
      kernels::bias_relu_backward(d.size(0), width, floats(rows.out), floats(d), into(d_bias, 0));
    }
    return d;
  }

  void bias_relu(at::Tensor z, const at::Tensor& bias) const override {
    kernels::bias_relu(z.size(0), z.size(1), floats(bias), floats(z));
  }

  void softmax(at::Tensor logits) const override { kernels::softmax_of_four(floats(logits), logits.numel()); }

  void few_outputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                   at::Tensor out) const override {
    kernels::few_outputs(hidden.size(0), hidden.size(1), weight.size(0), floats(hidden), floats(weight),
                         floats(bias), floats(out));
  }

  void few_outputs_back(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& d_out,
                        at::Tensor d_hidden, at::Tensor d_weight, at::Tensor d_bias) const override {
    d_weight.zero_(), d_bias.zero_();
    kernels::few_outputs_backward(hidden.size(0), hidden.size(1), weight.size(0), floats(hidden),
                                  floats(weight), floats(d_out), floats(d_hidden), floats(d_weight),
                                  floats(d_bias));
  }

  void gru_step(const at::Tensor& input_bias, const at::Tensor& state_bias,
                const GruStep& step) const override {
    const std::int64_t width = step.before.size(1);
    const float *of_input = floats(input_bias), *of_state = floats(state_bias);
    float* after = step.after.data_ptr<float>();
    for_rows(step, [&](std::int64_t at, float valid, float* reset, float* update, float* candidate,
                       float* recurrent, const float* before) {
      gru_row_forward(width, of_input, of_state, before, valid, reset, update, candidate, recurrent,
                      after + at);
    });
  }

  void gru_step_back(const GruStep& step, const at::Tensor& d_after,
                     const at::Tensor& d_before) const override {
    const std::int64_t width = step.before.size(1);
    const float* d = d_after.data_ptr<float>();
    float* to = d_before.data_ptr<float>();
    for_rows(step, [&](std::int64_t at, float valid, float* reset, float* update, float* candidate,
                       float* recurrent, const float* before) {
      gru_row_backward(width, before, valid, d + at, reset, update, candidate, recurrent, to + at);
    });
  }

  void lstm_step(const CellStep& step, const at::Tensor& h) const override {
    const std::int64_t width = h.size(1);
    const Rows gates(step.gates), c(step.c), tanh_c(step.tanh_c), before(step.c_before), out(h);
    const std::vector<float> nothing(before.data == nullptr ? static_cast<std::size_t>(width) : 0);
    at::parallel_for(0, h.size(0), kGrain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        float* gate = gates.at(row);
        cell_row_forward(width, before.data != nullptr ? before.at(row) : nothing.data(), gate, gate + width,
                         gate + 2 * width, gate + 3 * width, c.at(row), tanh_c.at(row), out.at(row));
      }
    });
  }

  void lstm_step_back(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c,
                      bool last) const override {
    const std::int64_t width = d_h.size(1);
    const Rows gates(step.gates), tanh_c(step.tanh_c), before(step.c_before), above(d_h), cell(d_c);
    const std::vector<float> nothing(before.data == nullptr ? static_cast<std::size_t>(width) : 0);
    at::parallel_for(0, d_h.size(0), kGrain, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t row = first; row < end; ++row) {
        float* gate = gates.at(row);
        if (last) std::fill_n(cell.at(row), width, 0.0F);
        cell_row_backward(width, before.data != nullptr ? before.at(row) : nothing.data(), tanh_c.at(row),
                          above.at(row), gate, gate + width, gate + 2 * width, gate + 3 * width,
                          cell.at(row));
      }
    });
  }

  void mix(const Mixer& mixer, const at::Tensor& q, MixerPass& pass) const override {
    const MixerShape& s = mixer.shape();
    const float *hyper = floats(pass.hyper), *values = floats(q),
                *u = floats(mixer.parameters().block(kValueWeight)),
                c = *floats(mixer.parameters().block(kValueBias));
    for (std::int64_t r = 0; r < q.size(0); ++r) {
      floats(pass.output)[r] = c + mix_row(s, hyper + r * pass.hyper.size(1), values + r * s.agents, u,
                                           floats(pass.hidden) + r * s.embed);
    }
  }

  void mix_back(const Mixer& mixer, const at::Tensor& q, const at::Tensor& d_output, MixerPass& pass,
                FlatParameters& gradients) const override {
    const MixerShape& s = mixer.shape();
    const float *u = floats(mixer.parameters().block(kValueWeight)), *d = floats(d_output);
    at::Tensor(gradients.block(kValueWeight)).zero_();
    float sum = 0.0F;
    for (std::int64_t r = 0; r < q.size(0); ++r) {
      sum += d[r];
      mix_row_back(s, d[r], floats(q) + r * s.agents, u, floats(pass.hyper) + r * pass.hyper.size(1),
                   floats(pass.hidden) + r * s.embed, floats(pass.d_q) + r * s.agents,
                   floats(gradients.block(kValueWeight)));
    }
    *floats(gradients.block(kValueBias)) = sum;
  }

  MlpPlan plan(const MlpShape& shape) const override {
    MlpPlan plan{product_precision() == Precision::kBf16, bf16_instructions()};
    if (!shape.mirrored_inputs.empty() && (!plan.in_bf16 || kernels::halves_pay(plan.instructions)))
      plan.halves = {kernels::halves_of(shape.mirrored_inputs),
                     kernels::halves_of(kernels::mirrored_units(shape.hidden))};
    return plan;
  }
  void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep) const override {
    forward_by_chunks(net, input, pass, keep);
  }
  void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
                FlatParameters& gradients) const override {
    backward_by_chunks(net, input, d_output, pass, gradients);
  }
};

}  // namespace

const Backend& host_backend() {
  static const HostBackend backend;
  return backend;
}

}  // namespace snake_ddp::nets
