#include "train/checkpoints.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/averaging.hpp"

namespace snake_ddp::train {
namespace {

using core::FileError;
using nlohmann::ordered_json;

// Rows that the writer takes at a time; appending waits at most for a copy of this many.
constexpr std::int64_t kRowsAtATime = 256;

nets::NamedTensors shared_part(const RunState& state) {
  nets::NamedTensors part;
  for (const auto& [name, tensor] : state.learner.state())
    part.emplace_back("learner." + name, tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  nets::add_under(part, "counters.", to_state(state.counters));
  if (!state.league.members().empty()) nets::add_under(part, "league.", state.league.state());
  for (const auto& [name, tensor] : state.averaging.state())
    part.emplace_back("averaging." + name, tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  nets::add_under(part, "files.", state.files.state());
  const rollout::GameCount count = state.collector.count();
  part.emplace_back("games.started", at::scalar_tensor(count.started, at::kLong));
  part.emplace_back("games.ended", at::scalar_tensor(count.ended, at::kLong));
  part.emplace_back("games.epsilon", at::scalar_tensor(count.epsilon, at::kDouble));
  return part;
}

nets::NamedTensors rank_part(const RunState& state, bool with_replay) {
  nets::NamedTensors part;
  nets::add_under(part, "collector.", state.collector.state());
  if (!with_replay) return part;
  part.emplace_back("replay.rows", at::scalar_tensor(state.replay.size(), at::kLong));
  part.emplace_back("replay.capacity", at::scalar_tensor(state.replay.capacity(), at::kLong));
  part.emplace_back("replay.next", at::scalar_tensor(state.replay.next_slot(), at::kLong));
  part.emplace_back("replay.appended", at::scalar_tensor(state.replay.appended(), at::kLong));
  if (state.rollout != nullptr) nets::add_under(part, "rollout.", state.rollout->state());
  for (const learners::Column& column : state.replay.columns())
    part.emplace_back("replay.columns." + column.name, at::tensor(column.shape, at::kLong));
  return part;
}

io::Seal write_rows(const std::string& path, learners::Snapshot rows, const std::atomic<bool>& stop) {
  io::SealedWriter writer(path);
  std::vector<float> piece(static_cast<std::size_t>(kRowsAtATime * rows.row_floats()));
  for (std::int64_t n = 0; (n = rows.read(kRowsAtATime, piece.data())) > 0;) {
    if (stop) throw FileError("stopped");
    writer.write({reinterpret_cast<const char*>(piece.data()),
                  static_cast<std::size_t>(n * rows.row_floats()) * sizeof(float)});
  }
  return writer.close();
}

}  // namespace

std::string rank_file(int rank) { return fmt::format("rank_{}.pth", rank); }
std::string replay_file(int rank) { return fmt::format("rank_{}.replay", rank); }

Checkpoints::~Checkpoints() {
  stop_ = true;
  if (job_.valid()) job_.wait();
}

void Checkpoints::begin(const RunState& state) {
  SD_CHECK(stage_ == Stage::kNone, "a checkpoint must be complete before the next one begins");
  const c10::NoGradGuard no_grad;
  begun_ = std::chrono::steady_clock::now();
  stage_ = Stage::kParts;
  failure_.clear();
  manifest_ = {};
  manifest_.step = state.counters.steps;
  manifest_.updates = state.counters.updates;
  manifest_.episode = state.collector.episodes_ended();
  manifest_.world_size = plan_.world_size;
  manifest_.version = plan_.version;
  manifest_.run = plan_.identity;
  manifest_.settings = plan_.settings;
  if (!plan_.sees_run) return;
  struct Taken {
    nets::NamedTensors shared, own;
    std::optional<learners::Snapshot> rows;
  };
  Taken taken;
  if (plan_.rank == 0) taken.shared = shared_part(state);
  taken.own = rank_part(state, plan_.with_replay);
  if (plan_.with_replay) taken.rows = state.replay.snapshot();
  const auto write = [&stop = stop_, rank = plan_.rank, run = plan_.run, step = manifest_.step](Taken& t) {
    Written written;
    try {
      const std::string folder = io::unfinished_checkpoint(run, step) + "/";
      const auto add = [&](const std::string& name, io::Seal seal) { written.files.push_back({name, seal}); };
      if (rank == 0) add(kSharedFile, io::write_sealed(folder + kSharedFile, io::state_dict_bytes(t.shared)));
      add(rank_file(rank), io::write_sealed(folder + rank_file(rank), io::state_dict_bytes(t.own)));
      if (t.rows) {
        add(replay_file(rank), write_rows(folder + replay_file(rank), std::move(*t.rows), stop));
        t.rows.reset();  // moved-from, it still refers to the buffer's columns
      }
    } catch (const FileError& e) {  // reported at the next vote; training continues
      written.failure = e.what();
    }
    return written;
  };
  job_ = std::async(std::launch::async,
                    [write, t = std::make_shared<Taken>(std::move(taken))] { return write(*t); });
}

bool Checkpoints::busy() const {
  return job_.valid() && job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

std::optional<Checkpoints::Outcome> Checkpoints::advance(dist::DistContext& context) {
  SD_CHECK(under_way(), "a checkpoint must have begun before it is finished");
  Written written;
  if (job_.valid()) written = job_.get();
  if (stage_ == Stage::kWhole) {
    stage_ = Stage::kNone;
    Outcome outcome;
    outcome.failure = failure_.empty() ? written.failure : failure_;
    outcome.step = manifest_.step;
    for (const io::CheckpointFile& f : manifest_.files) outcome.bytes += f.seal.bytes;
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    return outcome;
  }
  stage_ = Stage::kWhole;
  if (!context.is_main()) failure_ = written.failure;
  ordered_json record = {{"failure", written.failure}, {"files", ordered_json::array()}};
  for (const io::CheckpointFile& f : written.files)
    record["files"].push_back({{"name", f.name}, {"bytes", f.seal.bytes}, {"crc32", f.seal.crc32}});
  const auto replace = nlohmann::json::error_handler_t::replace;
  const std::vector<std::string> records =
      context.gather(record.dump(-1, ' ', false, replace), context.deadline());
  if (!context.is_main()) return std::nullopt;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const ordered_json part = ordered_json::parse(records[rank]);
    const std::string failure = part.at("failure");
    if (!failure.empty() && failure_.empty())
      failure_ = fmt::format("rank {} on {}: {}", rank, context.hosts().at(rank), failure);
    for (const ordered_json& f : part.at("files"))
      manifest_.files.push_back({f.at("name"), {f.at("bytes"), f.at("crc32")}});
  }
  job_ = std::async(std::launch::async,
                    [run = plan_.run, m = manifest_, keep = plan_.keep, failed = !failure_.empty()] {
                      Written done;
                      try {
                        if (!failed) io::finish_checkpoint(run, m, keep);
                      } catch (const FileError& e) {
                        done.failure = e.what();
                      }
                      if (failed || !done.failure.empty())
                        io::discard_unfinished(run);  // space for the next attempt
                      return done;
                    });
  return std::nullopt;
}

Checkpoints::Outcome Checkpoints::complete(dist::DistContext& context) {
  std::optional<Outcome> outcome;
  while (!outcome) {
    if (job_.valid()) job_.wait();
    outcome = advance(context);
  }
  outcome->failure = context.broadcast_text(outcome->failure, context.deadline());
  return *outcome;
}

}  // namespace snake_ddp::train
