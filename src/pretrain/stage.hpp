// One stage's model, loss and measurements, for the loop in run.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "dist/context.hpp"
#include "learners/adam.hpp"
#include "nets/leaves.hpp"
#include "pretrain/loader.hpp"
#include "pretrain/options.hpp"

namespace snake_ddp::pretrain {

/// Sums over samples: added over all ranks they are those of one rank that saw every sample.
struct Sums {
  at::Tensor reals;   // [n] float64 on the CPU; the first is the sum of the samples' losses
  at::Tensor counts;  // [m] int64 on the CPU; the first is the number of samples
};

class Stage {
 public:
  virtual ~Stage() = default;

  [[nodiscard]] nets::FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] const std::vector<nets::NamedBlock>& blocks() const { return blocks_; }
  /// What files contain besides the parameters: the shape.
  [[nodiscard]] virtual at::Tensor shape() const = 0;
  /// How samples are drawn; the loop sets seed and epoch.
  [[nodiscard]] virtual SampleOptions sample() const = 0;

  /// The sum of the losses of the batch's samples, divided by `divisor`.
  /// Shapes  `batch` is on the stage's device; `weights` are those of `blocks()`; returns a scalar.
  virtual at::Tensor loss(const Batch& batch, const nets::Weights& weights, double divisor) = 0;

  /// Zeros, and the same with a batch's samples added.
  [[nodiscard]] virtual Sums no_sums() const = 0;
  virtual void tally(const Batch& batch, Sums& sums) const = 0;
  /// The meaning of sums over all ranks: numbers by name, "loss" among them.
  [[nodiscard]] virtual nlohmann::ordered_json report(const Sums& sums) const = 0;

  /// After the optimizer's step number `update`, on the batch of that step.
  /// Collective  every rank calls it.
  /// Returns     how many codes were revived.
  virtual std::int64_t after_update(const Batch& /*batch*/, std::int64_t /*update*/, learners::Adam& /*adam*/,
                                    dist::DistContext& /*context*/) {
    return 0;
  }

  /// Counters that a continuation needs. Views; Owner: the stage.
  [[nodiscard]] virtual nets::NamedTensors counters() { return {}; }

  /// Modules that the stage reads and must not change; empty if there are none.
  [[nodiscard]] virtual std::vector<at::Tensor> frozen() const { return {}; }

 protected:
  Stage(const PretrainOptions& o, std::vector<nets::NamedBlock> blocks, at::Device device)
      : o_(o), blocks_(std::move(blocks)), parameters_(nets::blocks_of(blocks_), device) {
    nets::init_blocks(blocks_, parameters_, static_cast<std::uint64_t>(o.seed));
  }

  const PretrainOptions o_;
  const std::vector<nets::NamedBlock> blocks_;
  nets::FlatParameters parameters_;
};

std::unique_ptr<Stage> make_tokenizer_stage(const PretrainOptions& options, at::Device device);

/// Throws  FileError if the tokenizer's file cannot be used.
std::unique_ptr<Stage> make_mask_stage(const PretrainOptions& options, at::Device device);

/// How many values are effectively used: e to the entropy of their frequencies.
double perplexity_of(const at::Tensor& counts);

}  // namespace snake_ddp::pretrain
