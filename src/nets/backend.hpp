// How networks are computed: by our own kernels in main memory, or by ATen's operators on any device. A network is written once,
// on top of this interface; what is computed differently on the two sides is here, and nowhere else.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "snake_ddp/core/bf16.hpp"
#include "snake_ddp/kernels/halves.hpp"

namespace snake_ddp::nets {

class FlatParameters;
class Mixer;
class Mlp;
struct MixerPass;
struct MlpPass;
struct MlpShape;

/// The parameters of a layer norm, or their gradients, [width]; undefined where a layer has none.
struct Norm {
  at::Tensor gain, shift;
};

/// A hidden layer's rows. In main memory `z` is normalised in place; by the library it stays the product.
struct Activated {
  at::Tensor z, out;                   // [R, hidden], before and after; the same without layer norm
  at::Tensor mean, inverse_deviation;  // [R], with layer norm only; the mean by the library only
};

/// What a gated recurrent unit reads and writes in one step.
struct GruStep {
  at::Tensor gates,
      recurrent;  // [R, 3 hidden]: reset, update and candidate; [R, hidden]: the state's part of the candidate
  at::Tensor before, after;  // [R, hidden], the states
  at::Tensor valid;          // [R, 1], the factor for the state after the step
};

/// Gates and states of one step of an LSTM. Rows may be strided; the elements of a row are contiguous.
/// Follows  Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997, with forget gates (Gers
///          et al. 2000) and without peepholes, as torch.nn.LSTM has it; gates in its order: input, forget, cell, output.
struct CellStep {
  at::Tensor gates;      // [B, 4 H]
  at::Tensor c, tanh_c;  // [B, H]
  at::Tensor c_before;   // [B, H]; undefined at the first step, where it counts as 0
};

/// How passes of an Mlp are computed, chosen when it is made.
struct MlpPlan {
  bool in_bf16 = false;  // factors of hidden layers' products are rounded to bfloat16
  core::Bf16By instructions = core::Bf16By::kFloats;
  std::vector<kernels::Halves> halves =
      {};  // the inputs of the hidden layers as sums and differences; empty: not used
};

/// Threads  ATen's where not stated otherwise; no result depends on their number.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Our own kernels.
  [[nodiscard]] virtual bool in_main_memory() const = 0;
  /// How many of `rows` rows go through all passes before the next ones: in main memory at most `chunk`, which stay in cache.
  [[nodiscard]] virtual std::int64_t at_a_time(std::int64_t rows, std::int64_t chunk) const = 0;

  /// out = left * right, or out += left * right.
  /// Shapes  left [m, p], right [p, n] with adjacent columns, out [m, n] with adjacent columns.
  virtual void product(at::Tensor out, const at::Tensor& left, const at::Tensor& right,
                       bool add = false) const = 0;
  /// out = left * right, the same bits as `product`, where many elements of left are 0: our own products skip them.
  /// Shapes  as above; left may be a transposed view, and only then may `add` be set; out and right are contiguous.
  /// Threads the calling one.
  virtual void sparse_product(at::Tensor out, const at::Tensor& left, const at::Tensor& right,
                              bool add = false) const = 0;
  /// `weight` transposed, as the right factor of a product: a view for the library, a copy in `scratch` for ours.
  virtual at::Tensor transposed(const at::Tensor& weight, at::Tensor& scratch) const = 0;

  /// rows.out = max(norm(rows.z + bias), 0).
  /// Shapes  rows.z [R, width], contiguous, overwritten; bias [width]. Without `keep` no backward pass can follow.
  virtual void norm_relu(const at::Tensor& bias, const Norm& norm, Activated& rows,
                         bool keep = true) const = 0;
  /// `d` holds dL/d(rows.out) and is overwritten. Adds to d_bias and d_norm, if they are defined.
  /// Returns dL/dz.
  virtual at::Tensor norm_relu_back(const Norm& norm, const Activated& rows, at::Tensor d, at::Tensor d_bias,
                                    const Norm& d_norm) const = 0;
  /// z = max(z + bias, 0) in place.
  /// Shapes  z [R, width], contiguous; bias [width].
  virtual void bias_relu(at::Tensor z, const at::Tensor& bias) const = 0;
  /// In place, for each row of 4.
  virtual void softmax(at::Tensor logits) const = 0;

  /// out = hidden * weight^T + bias, for a handful of outputs.
  /// Shapes  hidden [R, width], weight [outputs, width], bias [outputs], out [R, outputs]; all contiguous.
  virtual void few_outputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                           at::Tensor out) const = 0;
  /// The gradients of its arguments, from dL/d(out); all overwritten.
  virtual void few_outputs_back(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& d_out,
                                at::Tensor d_hidden, at::Tensor d_weight, at::Tensor d_bias) const = 0;

  /// step.gates and step.recurrent hold products before the call, activations after. Fills step.after.
  /// Shapes  input_bias and state_bias [3 hidden].
  virtual void gru_step(const at::Tensor& input_bias, const at::Tensor& state_bias,
                        const GruStep& step) const = 0;
  /// From dL/d(step.after): the gradients before the gates' activations, in place; what reaches the state before past all gates is
  /// added to d_before.
  virtual void gru_step_back(const GruStep& step, const at::Tensor& d_after,
                             const at::Tensor& d_before) const = 0;

  /// i, f, o = sigmoid, g = tanh of the gates; c = f c_before + i g; h = o tanh(c).
  /// Shapes  step.gates: before activation before the call, activated after; fills step.c, step.tanh_c and h [B, H].
  virtual void lstm_step(const CellStep& step, const at::Tensor& h) const = 0;
  /// Shapes  d_h [B, H]; d_c [B, H]: dL/dc through the next step before the call (`last`: taken as 0, whatever it holds),
  ///         dL/d(c_before) after; step.gates: activated before, dL/d(gates before activation) after.
  virtual void lstm_step_back(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c,
                              bool last) const = 0;

  /// All of a mixing network's passes but the products of state and hypernetworks; nets/mixer.hpp.
  virtual void mix(const Mixer& mixer, const at::Tensor& q, MixerPass& pass) const = 0;
  virtual void mix_back(const Mixer& mixer, const at::Tensor& q, const at::Tensor& d_output, MixerPass& pass,
                        FlatParameters& gradients) const = 0;

  /// Whole passes of an Mlp, whose layers our kernels compute together; nets/mlp.hpp.
  [[nodiscard]] virtual MlpPlan plan(const MlpShape& shape) const = 0;
  virtual void forward(const Mlp& net, const at::Tensor& input, MlpPass& pass, bool keep) const = 0;
  virtual void backward(const Mlp& net, const at::Tensor& input, const at::Tensor& d_output, MlpPass& pass,
                        FlatParameters& gradients) const = 0;
};

/// Our own kernels; tensors must be in main memory.
const Backend& host_backend();
/// ATen's operators: for any device, and on the CPU as the tests' oracle.
const Backend& aten_backend();
/// What networks on a device use.
inline const Backend& backend_of(at::Device device) {
  return device.is_cpu() ? host_backend() : aten_backend();
}

/// sum += the sum of the rows.
void add_rows(const at::Tensor& rows, at::Tensor sum);

}  // namespace snake_ddp::nets
