#include "snake_ddp/pretrain/options.hpp"

#include <fmt/format.h>

#include <limits>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::pretrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

config::Field text(std::string name, std::string* target, std::string help,
                   std::vector<std::string> choices = {}) {
  return {std::move(name), target, std::move(help), -kNone, kNone, std::move(choices)};
}

template <class Number>
config::Field number(std::string name, Number* target, std::string help, double least, double most) {
  return {std::move(name), target, std::move(help), least, most, {}};
}

config::Field flag(std::string name, bool* target, std::string help) {
  return {std::move(name), target, std::move(help), -kNone, kNone, {}};
}

constexpr double kMany = 1e15;

}  // namespace

config::Fields fields(PretrainOptions& o) {
  return {
      text("stage", &o.stage, "what is learned: tokenizer, then mask_predictor",
           {"tokenizer", "mask_predictor"}),
      text("data_path", &o.data_path, "folder of recorded games, or one file of them"),
      text("cache_dir", &o.cache_dir, "folder for their binary form"),
      text("save_dir", &o.save_dir,
           "folder for what was learned: STAGE_best.pth, STAGE_last.pth, STAGE.jsonl"),
      text("tokenizer", &o.tokenizer,
           "file of the tokenizer that the mask predictor reads; empty: that in --save_dir"),
      number("epochs", &o.epochs, "passes over the data set", 1, kMany),
      number("batch_size", &o.batch_size, "boards of a rank's batch", 1, 1e7),
      number("learning_rate", &o.learning_rate, "of Adam", 0, 1),
      text("lr_scaling", &o.lr_scaling, "factor on the learning rate in the world size",
           {"none", "linear", "sqrt"}),
      number("max_grad_norm", &o.max_grad_norm, "gradients longer than this are shortened to it", 1e-6, 1e9),
      number("seed", &o.seed, "of weights, order and masks", 0, 4e18),
      number("mask_ratio", &o.mask_ratio, "share of a board's six snakes that are masked, at least one", 0.01,
             0.99),
      number("view_radius", &o.view_radius,
             "above 0: one of the snakes looks, cells farther than this are hidden, and the snakes there are "
             "the masked ones",
             0, 10),
      number("codebook_size", &o.codebook_size, "codes that a token may be", 2, 65536),
      number("tokens_per_snake", &o.tokens_per_snake, "tokens of a snake, each with a codebook of its own", 1,
             64),
      number("code_dim", &o.code_dim, "numbers of a code", 1, 1024),
      number("graph_dim", &o.graph_dim, "width of the tokenizer's graph layers", 1, 4096),
      number("commitment", &o.commitment, "weight of the commitment loss", 0, 100),
      number("revive_interval", &o.revive_interval,
             "updates after which codes that nobody used are put where graphs are; 0: never", 0, kMany),
      number("hidden_dim", &o.hidden_dim, "width of the mask predictor", 1, 65536),
      number("num_encoder_layers", &o.num_encoder_layers, "its layers that read", 1, 100),
      number("num_decoder_layers", &o.num_decoder_layers, "its layers that answer", 1, 100),
      number("num_heads", &o.num_heads, "heads of its attention; they divide --hidden_dim", 1, 1024),
      number("board_interval", &o.board_interval, "of a recorded game each so many-th board is taken", 1,
             200),
      number("validation_share", &o.validation_share, "share of the games that is held out", 0.001, 0.5),
      text("last_batch", &o.last_batch, "what does not fill a batch of all ranks: pad, or drop",
           {"pad", "drop"}),
      number("num_workers", &o.num_workers,
             "threads of a rank that make batches; 0: none beside the main one", 0, 256),
      number("prefetch", &o.prefetch, "batches that may wait", 1, 1024),
      number("save_interval", &o.save_interval,
             "updates between two saves within an epoch; 0: at its end only", 0, kMany),
      text("resume", &o.resume,
           "auto: go on from STAGE_last.pth in --save_dir where it is; never: begin anew", {"auto", "never"}),
      text("device", &o.device, "where the stage computes", {"auto", "cpu", "cuda"}),
      text("dist_backend", &o.dist_backend, "what ranks talk through", {"auto", "nccl", "gloo"}),
      flag("shared_memory", &o.shared_memory,
           "CPU ranks of one machine sum through shared memory; off: through Gloo"),
      number(
          "bucket_mb", &o.bucket_mb,
          "gradients are averaged while the backward pass goes on, in pieces of so many MiB; CPU ranks only",
          1e-3, 1e6),
      number("dist_timeout", &o.dist_timeout, "seconds until a collective without an answer ends the run",
             0.1, 1e6),
      number("join_timeout", &o.join_timeout, "seconds that ranks wait for each other at the start", 0.1,
             1e6),
      number("threads", &o.threads, "of LibTorch's products; 0: cores / ranks on this machine", 0, 4096),
  };
}

void check_together(const PretrainOptions& o) {
  if (o.stage.empty()) throw base::UsageError("pretrain needs --stage tokenizer or --stage mask_predictor");
  if (o.data_path.empty())
    throw base::UsageError(
        "pretrain needs --data_path, a folder of recorded games: snake_ddp eval --record_boards makes one");
  if (o.hidden_dim % o.num_heads != 0)
    throw base::UsageError(
        fmt::format("--num_heads {} does not divide --hidden_dim {}", o.num_heads, o.hidden_dim));
}

}  // namespace snake_ddp::pretrain
