#include "pretrain/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::pretrain {
namespace {

using io::flag, io::number, io::text;

constexpr double kMany = 1e15;
constexpr const char *kTokenizer = "tokenizer", *kMaskPredictor = "mask_predictor";

// A field that only one stage reads.
io::Field only(const char* stage, io::Field field) {
  field.used_by = {stage};
  return field;
}

}  // namespace

io::Fields fields(PretrainOptions& o) {
  return io::joined({
      io::under(kRunning,
                {text("stage", &o.stage, "what to train: tokenizer, then mask_predictor",
                      {kTokenizer, kMaskPredictor}),
                 text("data_path", &o.data_path, "folder of recorded games, or one file"),
                 text("save_dir", &o.save_dir, "output folder: STAGE_best.pth, STAGE_last.pth, STAGE.jsonl"),
                 text("cache_dir", &o.cache_dir, "folder for the binary form of the data"),
                 text("resume", &o.resume,
                      "auto: continue from STAGE_last.pth in --save_dir if it exists; never: start over",
                      {"auto", "never"})}),
      io::under(
          "Data",
          {number("board_interval", &o.board_interval, "steps between the boards taken from a recorded game",
                  1, 200),
           number("validation_share", &o.validation_share, "fraction of the games held out for validation",
                  0.001, 0.5),
           number(
               "view_radius", &o.view_radius,
               "above 0: cells farther than this from one of the snakes are hidden, and the snakes there are "
               "masked",
               0, 10),
           text("last_batch", &o.last_batch, "what to do with a last batch that is not full on all ranks",
                {"pad", "drop"}),
           number("num_workers", &o.num_workers,
                  "threads per rank that prepare batches; 0: the main thread does", 0, 256),
           number("prefetch", &o.prefetch, "batches prepared ahead", 1, 1024)}),
      io::under("Learning",
                {number("epochs", &o.epochs, "passes over the data set", 1, kMany),
                 number("batch_size", &o.batch_size, "boards in each rank's batch", 1, 1e7),
                 number("learning_rate", &o.learning_rate, "learning rate of Adam", 0, 1),
                 number("max_grad_norm", &o.max_grad_norm, "gradients are clipped to this norm", 1e-6, 1e9),
                 number("seed", &o.seed, "random seed of weights, order and masks", 0, 4e18),
                 number("save_interval", &o.save_interval,
                        "updates between saves within an epoch; 0: only at its end", 0, kMany)}),
      io::under(
          "Tokenizer",
          {only(kTokenizer,
                number("codebook_size", &o.codebook_size, "number of codes in a codebook", 2, 65536)),
           only(kTokenizer, number("tokens_per_snake", &o.tokens_per_snake,
                                   "tokens per snake, each with its own codebook", 1, 64)),
           only(kTokenizer, number("code_dim", &o.code_dim, "width of a code", 1, 1024)),
           only(kTokenizer,
                number("graph_dim", &o.graph_dim, "width of the tokenizer's graph layers", 1, 4096)),
           only(kTokenizer, number("commitment", &o.commitment, "weight of the commitment loss", 0, 100)),
           only(kTokenizer,
                number("revive_interval", &o.revive_interval,
                       "updates after which unused codes are moved to encoded snakes; 0: never", 0, kMany))}),
      io::under(
          "Mask predictor",
          {only(kMaskPredictor, text("tokenizer", &o.tokenizer,
                                     "tokenizer file for the mask predictor; empty: the one in --save_dir")),
           only(kMaskPredictor,
                number("mask_ratio", &o.mask_ratio,
                       "share of a board's six snakes that is masked, at least one", 0.01, 0.99)),
           only(kMaskPredictor, number("hidden_dim", &o.hidden_dim, "width of the mask predictor", 1, 65536)),
           only(kMaskPredictor, number("num_encoder_layers", &o.num_encoder_layers,
                                       "encoder layers of the mask predictor", 1, 100)),
           only(kMaskPredictor, number("num_decoder_layers", &o.num_decoder_layers,
                                       "decoder layers of the mask predictor", 1, 100)),
           only(kMaskPredictor,
                number("num_heads", &o.num_heads, "attention heads; must divide --hidden_dim", 1, 1024))}),
      io::under(
          kThisMachine,
          {text("device", &o.device, "where the networks run", {"auto", "cpu", "cuda"}),
           text("dist_backend", &o.dist_backend, "communication between ranks", {"auto", "nccl", "gloo"}),
           number("dist_timeout", &o.dist_timeout,
                  "seconds that a collective may take; after that the run ends with an error", 0.1, 1e6),
           number("join_timeout", &o.join_timeout, "seconds that ranks wait for each other at the start", 0.1,
                  1e6),
           number("threads", &o.threads, "threads of LibTorch's matmuls; 0: cores / ranks on this machine", 0,
                  4096)}),
  });
}

void check_given(const PretrainOptions& options, const std::vector<std::string>& given) {
  if (options.stage.empty()) return;
  PretrainOptions copy = options, defaults;
  const std::vector<std::string> refusals =
      io::without_effect(fields(copy), fields(defaults), given, "stage", options.stage);
  if (!refusals.empty()) throw core::UsageError(fmt::format("{}: leave it out", fmt::join(refusals, "; ")));
}

void check_together(const PretrainOptions& o) {
  if (o.stage.empty()) throw core::UsageError("pretrain needs --stage tokenizer or --stage mask_predictor");
  if (o.data_path.empty())
    throw core::UsageError(
        "pretrain needs --data_path, a folder of recorded games: snake_ddp eval --record_boards makes one");
  for (const auto& [name, folder] :
       {std::pair("save_dir", &o.save_dir), std::pair("cache_dir", &o.cache_dir)})
    if (folder->empty())
      throw core::UsageError(
          fmt::format("--{} \"\": name a folder, or leave it out; an empty variable in a script?", name));
  if (o.hidden_dim % o.num_heads != 0)
    throw core::UsageError(
        fmt::format("--num_heads {} does not divide --hidden_dim {}", o.num_heads, o.hidden_dim));
}

}  // namespace snake_ddp::pretrain
