// What one stage learns, as the loop in run.cpp drives it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "snake_ddp/data/loader.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/nets/leaves.hpp"
#include "snake_ddp/pretrain/options.hpp"

namespace snake_ddp::pretrain {

/// Sums over samples: those of all ranks added up are those of one rank that saw every sample.
struct Sums {
  at::Tensor reals;   // [n] float64 on the CPU; the first is the sum of the samples' losses
  at::Tensor counts;  // [m] int64 on the CPU; the first is the number of samples
};

class Stage {
 public:
  virtual ~Stage() = default;

  [[nodiscard]] virtual nets::FlatParameters& parameters() = 0;
  [[nodiscard]] virtual const std::vector<nets::NamedBlock>& blocks() const = 0;
  /// What files hold beside the parameters: the shape.
  [[nodiscard]] virtual at::Tensor shape() const = 0;
  /// Seed, epoch and the like are the loop's.
  [[nodiscard]] virtual data::SampleOptions sample() const = 0;

  /// The batch's samples' losses, summed, over `divisor`.
  /// Shapes  `batch` lies on the stage's device; `weights` are those of `blocks()`; returns a scalar.
  virtual at::Tensor loss(const data::Batch& batch, const nets::Weights& weights, double divisor) = 0;

  /// Zeros, and the same with a batch's samples added.
  [[nodiscard]] virtual Sums no_sums() const = 0;
  virtual void tally(const data::Batch& batch, Sums& sums) const = 0;
  /// What sums over all ranks mean: numbers by name, "loss" among them.
  [[nodiscard]] virtual nlohmann::ordered_json told(const Sums& sums) const = 0;

  /// After the optimizer's step number `update`, on the batch of that step.
  /// Collective  every rank calls it.
  /// Returns     how many codes were revived.
  virtual std::int64_t after_update(const data::Batch& batch, std::int64_t update, learners::Adam& adam,
                                    dist::DistContext& context) = 0;

  /// Counters that a continuation needs. Views; Owner: the stage.
  [[nodiscard]] virtual nets::NamedTensors counters() = 0;

  /// Modules that the stage reads and must not change; empty where there are none.
  [[nodiscard]] virtual std::vector<at::Tensor> frozen() const = 0;
};

std::unique_ptr<Stage> make_tokenizer_stage(const PretrainOptions& options, at::Device device);

/// Throws  FileError where the tokenizer's file cannot be used.
std::unique_ptr<Stage> make_mask_stage(const PretrainOptions& options, at::Device device);

/// Of a share of values that were used: e to the entropy of their frequencies.
double perplexity_of(const at::Tensor& counts);

}  // namespace snake_ddp::pretrain
