#include "snake_ddp/nets/precision.hpp"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::nets {
namespace {

Precision chosen = Precision::kFloat32;
base::Bf16By chosen_instructions = base::Bf16By::kFloats;

}  // namespace

Precision precision_from_name(const std::string& name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "tf32") return Precision::kTf32;
  if (name == "bf16") return Precision::kBf16;
  throw base::UsageError("--products " + name + ": not known; allowed: float32, tf32, bf16");
}

void set_product_precision(Precision precision, base::Bf16By instructions) {
  chosen = precision;
  chosen_instructions = instructions;
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::kTf32);
}

Precision product_precision() { return chosen; }

base::Bf16By bf16_instructions() { return chosen_instructions; }

void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (chosen == Precision::kBf16) {
    out.copy_(at::mm(a.to(at::kBFloat16), b.to(at::kBFloat16)));
  } else {
    at::mm_out(out, a, b);
  }
}

void affine_out(at::Tensor& out, const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b) {
  if (chosen == Precision::kFloat32) {
    at::addmm_out(out, bias, a, b);
    return;
  }
  product_out(out, a, b);
  out.add_(bias);
}

}  // namespace snake_ddp::nets
