#include "nets/precision.hpp"

#include <ATen/Context.h>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::nets {
namespace {

Precision chosen = Precision::kFloat32;
core::Bf16By chosen_instructions = core::Bf16By::kFloats;

}  // namespace

Precision precision_from_name(const std::string& name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "tf32") return Precision::kTf32;
  if (name == "bf16") return Precision::kBf16;
  throw core::UsageError("--products " + name + ": not known; allowed: float32, tf32, bf16");
}

void set_product_precision(Precision precision, core::Bf16By instructions) {
  chosen = precision;
  chosen_instructions = instructions;
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::kTf32);
}

Precision product_precision() { return chosen; }

core::Bf16By bf16_instructions() { return chosen_instructions; }

}  // namespace snake_ddp::nets
