// The settings of pretraining: flags and configuration keys come from this list.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dist/world.hpp"
#include "io/fields.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::pretrain {

struct PretrainOptions {
  std::string stage;
  std::string data_path;
  std::string cache_dir = "cache";
  std::string save_dir = "pretrained";
  std::string tokenizer;  // empty: <save_dir>/tokenizer_best.pth
  std::int64_t epochs = 10;
  std::int64_t batch_size = 128;
  double learning_rate = 1e-3;
  double max_grad_norm = 1.0;
  std::int64_t seed = 1;
  double mask_ratio = 0.15;
  std::int64_t view_radius = 0;

  std::int64_t codebook_size = 128;
  std::int64_t tokens_per_snake = 4;
  std::int64_t code_dim = 8;
  std::int64_t graph_dim = 32;
  double commitment = 0.25;
  std::int64_t revive_interval = 100;

  std::int64_t hidden_dim = 256;
  std::int64_t num_encoder_layers = 3;
  std::int64_t num_decoder_layers = 3;
  std::int64_t num_heads = 4;

  std::int64_t board_interval = 8;
  double validation_share = 0.1;
  std::string last_batch = "pad";
  std::int64_t num_workers = 2;
  std::int64_t prefetch = 4;
  std::int64_t save_interval = 500;
  std::string resume = "auto";

  std::string device = "auto";
  std::string dist_backend = "auto";
  double dist_timeout = 600;
  double join_timeout = 300;
  std::int64_t threads = 0;
};

/// Headings of --help that have flags of the command line alone, too.
inline constexpr const char *kRunning = "Running", *kThisMachine = "This machine";

/// The list over `options`, which must outlive it.
io::Fields fields(PretrainOptions& options);

/// Throws  UsageError for a given setting, by name, that only the other stage reads, unless it has its default.
void check_given(const PretrainOptions& options, const std::vector<std::string>& given);

/// Checks conditions that ranges of single fields cannot express.
/// Throws  UsageError.
void check_together(const PretrainOptions& options);

/// Trains until the epochs are done or a signal requests a stop.
/// Collective  every rank of `world` calls it with the same options.
/// Returns     kExitDone, or kExitResumable after an early stop outside torchrun.
/// Throws      core::Error of each kind.
core::ExitCode run_pretraining(const PretrainOptions& options, const dist::World& world);

}  // namespace snake_ddp::pretrain
