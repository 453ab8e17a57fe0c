#include "pretrain/options.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>

#include "dist/build.hpp"
#include "dist/ranks.hpp"
#include "dist/self_launch.hpp"
#include "dist/signals.hpp"
#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "io/log_file.hpp"
#include "io/open_file.hpp"
#include "io/run_folder.hpp"
#include "io/state_dict.hpp"
#include "learners/adam.hpp"
#include "nets/token_reader.hpp"
#include "pretrain/board_set.hpp"
#include "pretrain/import.hpp"
#include "pretrain/loader.hpp"
#include "pretrain/stage.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::pretrain {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr std::int64_t kUpdatesAVote = 10;
constexpr std::int64_t kValidationDraws = -1;  // in place of the epoch: the same masks in each validation

constexpr const char* kCountsName = "place.counts";
constexpr std::int64_t kCounts = 7;

// What gives a saved position and its losses their meaning, as a number. `frozen`: hashes of the frozen weights.
std::int64_t task_of(const PretrainOptions& o, const std::vector<std::string>& frozen) {
  std::string task = fmt::format("{} {} {}", o.seed, o.view_radius, o.validation_share);
  task += fmt::format(" {}", o.stage == "tokenizer" ? o.commitment : o.mask_ratio);
  for (const std::string& hash : frozen) task += " " + hash;
  return static_cast<std::int64_t>(core::add_to_hash(core::kHashStart, std::string_view(task)));
}

std::string hash_of(const at::Tensor& flat) {
  return fmt::format("{:016x}", nets::add_to_hash(core::kHashStart, flat));
}

// The position in the data: all that a continuation needs besides tensors of the model.
struct EpochPosition {
  std::int64_t epoch = 0;     // from 0
  std::int64_t position = 0;  // samples of the epoch's order that are done, by all ranks
  std::int64_t updates = 0;
  std::int64_t revived = 0;               // codes, in this epoch
  std::int64_t best_epoch = 0;            // from 1; 0: none yet
  double loss_sum = 0, loss_samples = 0;  // of this epoch, of this rank; of all ranks once it is saved
  double best_loss = std::numeric_limits<double>::infinity();
};

class Run {
 public:
  Run(const PretrainOptions& options, const dist::World& world);
  core::ExitCode learn();

 private:
  void resume();
  using Rows = std::function<std::vector<std::int64_t>(std::int64_t)>;
  [[nodiscard]] Loader load(std::int64_t batches, std::int64_t epoch, const Rows& rows) const;
  bool stops();
  bool learn_epoch();
  void update(Batch batch, std::int64_t samples);
  [[nodiscard]] std::optional<ordered_json> validate();
  bool end_epoch(Clock::time_point begin);
  void save(const std::string& which);
  void add_up_loss();
  void check_weights();
  [[nodiscard]] nets::NamedTensors file(const at::Tensor& shape, bool whole, const at::Tensor& counts,
                                        const at::Tensor& losses);
  [[nodiscard]] std::string path_of(const std::string& which) const {
    return fmt::format("{}/{}_{}.pth", o_.save_dir, o_.stage, which);
  }
  void tell(const std::string& line);
  void forget_later_epochs() const;
  [[nodiscard]] std::string numbers_path() const { return fmt::format("{}/{}.jsonl", o_.save_dir, o_.stage); }

  const PretrainOptions o_;
  const dist::World world_;
  dist::Ranks ranks_;
  dist::DistContext& context_ = ranks_.context;
  dist::Watchdog& watchdog_ = ranks_.watchdog;
  std::optional<io::RunClaim> claim_;
  std::optional<io::LogFile> log_;
  core::Console console_{1, "; all are in pretrain.log"};
  std::optional<BoardSet> set_;
  Split split_;
  std::unique_ptr<Stage> stage_;
  nets::FlatParameters gradients_;
  nets::Weights leaves_;
  learners::Adam adam_;
  std::vector<std::string> frozen_;  // hashes
  EpochPosition place_;
  bool diverged_ = false, stopped_ = false;
};

Run::Run(const PretrainOptions& options, const dist::World& world)
    : o_(options),
      world_(world),
      ranks_(world, {o_.dist_backend, o_.device, o_.join_timeout, o_.dist_timeout, dist::build_text()}),
      stage_((at::set_num_threads(dist::threads(o_.threads, context_)),
              (o_.stage == "tokenizer" ? make_tokenizer_stage : make_mask_stage)(o_, context_.device()))),
      gradients_(stage_->parameters().like()),
      leaves_(nets::leaves_over(stage_->parameters(), gradients_)),
      adam_(stage_->parameters(), o_.learning_rate) {
  PretrainOptions shared = o_;
  dist::check_settings(io::to_json(fields(shared)), context_);
  if (context_.is_main()) {
    for (const std::string& folder : {o_.save_dir, o_.cache_dir}) io::make_folders(folder);
    claim_.emplace(o_.save_dir, "pretrain.log", "give this one another --save_dir");
    log_.emplace(o_.save_dir + "/pretrain.log");
    dist::log_the_end(o_.save_dir + "/pretrain.log");
  }
  tell(fmt::format("{}: pretraining {}, {}", dist::version_text(), o_.stage, dist::ranks_text(context_)));
  if (context_.shares_gpus()) tell(dist::kSharedGpus);
  set_.emplace(shared_set(o_, context_, watchdog_, [this](const std::string& line) { tell(line); }));
  context_.check_same("the data set", fmt::format("{:08x}", set_->checksum()), context_.deadline());
  split_ = split_by_games(*set_, o_.validation_share);
  const auto samples = static_cast<std::int64_t>(split_.training.size());
  const Shares shares{0, context_.size(), o_.batch_size, o_.last_batch == "drop"};
  if (samples < context_.size() || batch_count(samples, 0, shares) == 0) {
    throw core::UsageError(
        fmt::format("the data set has {} to learn from, {} take {} each in an update: "
                    "record more games, or lower --batch_size or --board_interval",
                    core::counted(samples, "board"), core::counted(context_.size(), "rank"), o_.batch_size));
  }
  tell(fmt::format("Data: {}, a board every {}; {} to learn from, {} held out",
                   core::counted(set_->games(), "game"), core::counted(set_->interval(), "step"),
                   core::counted(samples, "board"), split_.held_out.size()));
  for (const at::Tensor& frozen : stage_->frozen()) frozen_.push_back(hash_of(frozen));
  resume();
}

void Run::tell(const std::string& line) {
  if (!context_.is_main()) return;
  console_.line(line);
  log_->line(line);
}

// The contents of files: weights, and, except for the best ones, all that a continuation needs.
nets::NamedTensors Run::file(const at::Tensor& shape, bool whole, const at::Tensor& counts,
                             const at::Tensor& losses) {
  const auto views = [&](const nets::FlatParameters& flat) { return nets::views_of(stage_->blocks(), flat); };
  nets::NamedTensors all = {{std::string(nets::kModelPrefix) + "shape", shape}};
  nets::add_under(all, nets::kModelPrefix, views(stage_->parameters()));
  if (!whole) return all;
  nets::add_under(all, "adam.first.", views(adam_.first_moment));
  nets::add_under(all, "adam.second.", views(adam_.second_moment));
  all.emplace_back("adam.steps", adam_.steps);
  nets::add_under(all, "counters.", stage_->counters());
  all.emplace_back(kCountsName, counts);
  all.emplace_back("place.losses", losses);
  return all;
}

// From here on rank 0 has the sums of all ranks.
void Run::add_up_loss() {
  at::Tensor sums = at::tensor({place_.loss_sum, place_.loss_samples}, at::kDouble);
  dist::add_up(sums, context_, context_.deadline());
  place_.loss_sum = context_.is_main() ? sums[0].item<double>() : 0.0;
  place_.loss_samples = context_.is_main() ? sums[1].item<double>() : 0.0;
}

void Run::save(const std::string& which) {
  watchdog_.tick("saving");
  const bool best = which == "best";
  if (!best) {
    add_up_loss();
    for (auto& [name, tensor] : stage_->counters()) {
      context_.all_reduce_sum(tensor, context_.deadline());
      if (!context_.is_main()) tensor.zero_();
    }
  }
  if (!context_.is_main()) return;
  nets::NamedTensors all =
      file(stage_->shape(), !best,
           at::tensor({place_.epoch, place_.position, place_.updates, place_.revived, place_.best_epoch,
                       std::int64_t{set_->checksum()}, task_of(o_, frozen_)},
                      at::kLong),
           at::tensor({place_.loss_sum, place_.loss_samples, place_.best_loss}, at::kDouble));
  for (auto& [name, tensor] : all) tensor = tensor.to(at::kCPU);
  io::save_state_dict(path_of(which), all);
}

// Removes the lines of epochs that will be trained again from the file of numbers.
void Run::forget_later_epochs() const {
  const std::string path = numbers_path();
  if (!context_.is_main() || !io::is_there(path)) return;
  std::string kept;
  std::istringstream lines(io::read_file(path));
  std::int64_t epoch = 0;
  for (std::string line; epoch < place_.epoch && std::getline(lines, line); ++epoch) kept += line + '\n';
  io::write_file_atomically(path, kept);
}

// Rank 0 reads and broadcasts.
void Run::resume() {
  const std::string path = path_of("last");
  const bool there = context_.is_main() && o_.resume == "auto" && io::is_there(path);
  if (context_.broadcast_text(there ? "resume" : "begin", context_.deadline()) == "begin") {
    forget_later_epochs();
    check_weights();
    return;
  }
  at::Tensor shape = at::zeros_like(stage_->shape()), counts = at::zeros({kCounts}, at::kLong),
             losses = at::zeros({3}, at::kDouble);
  if (context_.is_main()) {
    const auto advice = [&] {
      return fmt::format("{} does not match these settings; --resume never starts over", path);
    };
    try {
      nets::copy_state(io::load_state_dict(path), file(shape, true, counts, losses), path);
    } catch (const core::FileError& e) {
      throw core::FileError(fmt::format("{}. {}", e.what(), advice()));
    }
    if (!shape.equal(stage_->shape())) throw core::UsageError(advice() + ": its shape differs");
    if (counts[5].item<std::int64_t>() != std::int64_t{set_->checksum()})
      throw core::UsageError(advice() + ": it was trained on other games");
    if (counts[6].item<std::int64_t>() != task_of(o_, frozen_))
      throw core::UsageError(advice() +
                             (o_.stage == "tokenizer"
                                  ? ": --seed, --view_radius, --validation_share or --commitment differs"
                                  : ": the tokenizer is another one, or --seed, --view_radius, "
                                    "--validation_share or --mask_ratio differs"));
  }
  for (at::Tensor* t : {&counts, &losses}) {
    *t = t->to(context_.device());
    context_.broadcast(*t, 0, context_.deadline());
    *t = t->to(at::kCPU);
  }
  for (at::Tensor* t :
       {&stage_->parameters().flat(), &adam_.first_moment.flat(), &adam_.second_moment.flat(), &adam_.steps})
    context_.broadcast(*t, 0, context_.deadline());
  const auto* n = counts.data_ptr<std::int64_t>();
  const auto* l = losses.data_ptr<double>();
  const bool main = context_.is_main();
  place_ = {n[0], n[1], n[2], n[3], n[4], main ? l[0] : 0.0, main ? l[1] : 0.0, l[2]};
  forget_later_epochs();
  tell(fmt::format("Resumed from {}: epoch {}, {} of it done, {}", path, place_.epoch + 1,
                   core::counted(place_.position, "board"), core::counted(place_.updates, "update")));
  check_weights();
}

void Run::check_weights() {
  context_.check_same("weights", hash_of(stage_->parameters().flat()), context_.deadline());
  const std::vector<at::Tensor> frozen = stage_->frozen();
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    const std::string now = hash_of(frozen[i]);
    SD_CHECK(now == frozen_[i], "frozen weights must stay as they were");
    context_.check_same("frozen weights", now, context_.deadline());
  }
}

// `samples`: of all ranks' batches. Each rank divides its sum by samples / ranks, so the mean over ranks is the mean
// over all samples.
void Run::update(Batch batch, std::int64_t samples) {
  batch = on_device(std::move(batch), context_.device());
  gradients_.flat().zero_();
  const double divisor = static_cast<double>(samples) / context_.size();
  const at::Tensor loss = stage_->loss(batch, leaves_, divisor);
  loss.backward();
  const c10::NoGradGuard no_grad;
  at::Tensor gradient = gradients_.flat();
  context_.all_reduce_mean(gradient, context_.deadline());
  const double sum = loss.item<double>() * divisor;
  diverged_ = diverged_ || !std::isfinite(sum);
  adam_.step(stage_->parameters().flat(), gradients_.flat(), o_.max_grad_norm);
  ++place_.updates;
  place_.loss_sum += sum;
  place_.loss_samples += batch.weight.sum().item<double>();
  place_.revived += stage_->after_update(batch, place_.updates, adam_, context_);
}

Loader Run::load(std::int64_t batches, std::int64_t epoch, const Rows& rows) const {
  SampleOptions sample = stage_->sample();
  sample.seed = static_cast<std::uint64_t>(o_.seed);
  sample.epoch = epoch;
  return {*set_,
          batches,
          rows,
          sample,
          {static_cast<int>(o_.num_workers), static_cast<int>(o_.prefetch), context_.device().is_cuda()}};
}

// Whether any rank got a stop request.
bool Run::stops() {
  struct Vote {
    std::int64_t stop, diverged;
  };
  const Vote agreed = dist::vote(Vote{dist::stop_requested(), diverged_}, context_);
  dist::check_divergence(agreed.diverged, "the loss of " + o_.stage, place_.updates, "--learning_rate");
  return agreed.stop > 0;
}

// Returns whether to continue.
bool Run::learn_epoch() {
  const auto n = static_cast<std::int64_t>(split_.training.size());
  const Shares shares{context_.rank(), context_.size(), o_.batch_size, o_.last_batch == "drop"};
  const std::vector<std::int64_t> order = epoch_order(n, static_cast<std::uint64_t>(o_.seed), place_.epoch);
  const std::int64_t begin = place_.position, count = batch_count(n, begin, shares),
                     whole = shares.batch * shares.ranks;
  const auto rows = [&](std::int64_t k) {
    std::vector<std::int64_t> mine = rank_batch(order, begin, k, shares);
    for (std::int64_t& i : mine)
      if (i != kNoSample) i = split_.training[static_cast<std::size_t>(i)];
    return mine;
  };
  Loader loader = load(count, place_.epoch, rows);
  for (std::int64_t k = 0; k < count; ++k) {
    update(loader.next(), std::min(whole, n - place_.position));
    place_.position = std::min(n, place_.position + whole);
    watchdog_.tick("learning");
    const bool saves = o_.save_interval > 0 && place_.updates % o_.save_interval == 0;
    // Weights that are not finite must not replace saved ones, so ranks vote before each save, too.
    if ((place_.updates % kUpdatesAVote == 0 || saves || k + 1 == count) && stops()) return false;
    if (saves && k + 1 < count) save("last");
  }
  return true;
}

// Sample k * batch + i is in batch k on whichever rank computes it: each sample's loss is the same for any number of
// ranks, and so are the sums, except for the order in which doubles are added. Returns nothing if a rank got a stop
// request.
std::optional<ordered_json> Run::validate() {
  const auto n = static_cast<std::int64_t>(split_.held_out.size());
  const std::int64_t batches = (n + o_.batch_size - 1) / o_.batch_size, ranks = context_.size(),
                     rank = context_.rank();
  const std::int64_t mine = (batches - rank + ranks - 1) / ranks;
  const auto rows = [&](std::int64_t k) {
    std::vector<std::int64_t> of(static_cast<std::size_t>(o_.batch_size), kNoSample);
    const std::int64_t first = (k * ranks + rank) * o_.batch_size;
    for (std::int64_t i = 0; i < o_.batch_size && first + i < n; ++i)
      of[static_cast<std::size_t>(i)] = split_.held_out[static_cast<std::size_t>(first + i)];
    return of;
  };
  Sums sums = stage_->no_sums();
  Loader loader = load(mine, kValidationDraws, rows);
  {
    const dist::StopWatch stop = context_.watch_for_stop(dist::stop_requested);
    for (std::int64_t k = 0; k < mine && !stop.stops(); ++k) {
      stage_->tally(on_device(loader.next(), context_.device()), sums);
      watchdog_.tick("validating");
    }
  }
  if (stops()) return std::nullopt;
  for (at::Tensor* t : {&sums.reals, &sums.counts}) dist::add_up(*t, context_, context_.deadline());
  SD_CHECK(sums.counts[0].item<std::int64_t>() == n,
           fmt::format("each of {} held-out samples must be counted once", n));
  return stage_->report(sums);
}

// Returns whether to continue. A stop leaves the position at the epoch's end, and the next start validates again.
bool Run::end_epoch(Clock::time_point begin) {
  const std::optional<ordered_json> validated = validate();
  if (!validated) return false;
  const ordered_json& validation = *validated;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  check_weights();
  add_up_loss();
  const std::int64_t epoch = place_.epoch + 1;
  const auto loss = validation.at("loss").get<double>();
  const bool best = loss < place_.best_loss;
  if (best) {
    place_.best_loss = loss;
    place_.best_epoch = epoch;
  }
  if (context_.is_main()) {
    ordered_json line = {{"epoch", epoch},
                         {"updates", place_.updates},
                         {"training_loss", place_.loss_sum / place_.loss_samples}};
    if (o_.stage == "tokenizer") line["revived"] = place_.revived;
    line["validation"] = validation;
    line["weights"] = hash_of(stage_->parameters().flat());
    line["seconds"] = seconds;
    const std::string path = numbers_path();
    const core::Descriptor file = io::open_to_append(path);
    if (const int error = core::write_all(file.get(), line.dump() + "\n"); error != 0)
      throw io::file_error("write", path, error);
    std::string text;
    for (const auto& [name, value] : validation.items()) {
      text += value.is_number_float() ? fmt::format(" {} {:.4g}", name, value.get<double>())
                                      : fmt::format(" {} {}", name, value.dump());
    }
    tell(fmt::format("[Epoch {:03}] training loss {:.4g}; held out:{}; {:.1f} s", epoch,
                     place_.loss_sum / place_.loss_samples, text, seconds));
  }
  place_.epoch = epoch;
  place_.position = place_.revived = 0;
  place_.loss_sum = place_.loss_samples = 0;
  if (best) save("best");
  save("last");
  return true;
}

core::ExitCode Run::learn() {
  while (place_.epoch < o_.epochs) {
    const auto begin = Clock::now();
    if (!learn_epoch() || !end_epoch(begin)) {
      stopped_ = true;
      break;
    }
  }
  if (stopped_) {
    save("last");
    tell(fmt::format("Stopped by a signal in epoch {} after {}; the same command continues from here",
                     place_.epoch + 1, core::counted(place_.updates, "update")));
  } else {
    tell(fmt::format("Pretraining completed! Best epoch {} with a loss of {:.6g}: {}", place_.best_epoch,
                     place_.best_loss, path_of("best")));
  }
  watchdog_.tick("leaving");
  context_.barrier("end of pretraining", context_.deadline());
  return stopped_ ? dist::exit_code_after_stop(core::kExitResumable) : core::kExitDone;
}

}  // namespace

core::ExitCode run_pretraining(const PretrainOptions& options, const dist::World& world) {
  check_together(options);
  core::keep_freed_memory();
  dist::watch_signals();
  Run run(options, world);
  return run.learn();
}

}  // namespace snake_ddp::pretrain
