// What an LSTM does between its matrix products, for one step and one direction.
// Follows  Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997, with forget gates (Gers
//          et al. 2000) and without peepholes, as torch.nn.LSTM has it; gates in its order: input, forget, cell, output.
#pragma once

#include <ATen/core/Tensor.h>

namespace snake_ddp::nets {

/// Gates and states of one step. Rows may be strided; the elements of a row are contiguous.
struct CellStep {
  at::Tensor gates;      // [B, 4 H]
  at::Tensor c, tanh_c;  // [B, H]
  at::Tensor c_before;   // [B, H]; undefined at the first step, where it counts as 0
};

/// i, f, o = sigmoid, g = tanh of the gates; c = f c_before + i g; h = o tanh(c). On the CPU.
/// Shapes  step.gates: before activation before the call, activated after; fills step.c, step.tanh_c and h [B, H].
/// Threads ATen's; the result does not depend on their number.
void cell_forward(const CellStep& step, const at::Tensor& h);

/// The gradient through the cell. On the CPU.
/// Shapes  d_h [B, H]; d_c [B, H]: dL/dc through the next step before the call (`last`: taken as 0, whatever it holds),
///         dL/d(c_before) after; step.gates: activated before, dL/d(gates before activation) after.
void cell_backward(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c, bool last);

/// An LSTM's step by ATen's operators: for any device, and as the tests' oracle.
void plain_cell_forward(const CellStep& step, const at::Tensor& h);
void plain_cell_backward(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c, bool last);

}  // namespace snake_ddp::nets
