#include "train/stored_rows.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

#include "snake_ddp/core/error.hpp"
#include "train/checkpoints.hpp"

namespace snake_ddp::train {
namespace {

using core::FileError;

// Rows of a checkpoint of another world size, in turn to every rank: row `n` counted over all parts, newest rows
// aligned, goes to rank n modulo the world size.
void deal_rows(std::vector<StoredRows>& parts, int rank, int world_size, learners::Buffer& replay) {
  std::int64_t longest = 0;
  for (const StoredRows& p : parts) longest = std::max(longest, p.rows);
  std::vector<float> row(static_cast<std::size_t>(replay.row_floats()));
  const std::span<char> bytes(reinterpret_cast<char*>(row.data()), row.size() * sizeof(float));
  std::int64_t n = 0;
  for (std::int64_t age = longest; age > 0; --age) {
    for (StoredRows& p : parts) {
      if (p.rows < age) continue;
      p.file->read(bytes);
      if (!replay.possible(row.data())) throw FileError(p.path + ": a row is not a board");
      if (n++ % world_size == rank) replay.append_row(row.data());
    }
  }
}

}  // namespace

StoredRows open_rows(const std::string& folder, int rank, const nets::NamedTensors& part,
                     const io::Manifest& manifest, const learners::Buffer& replay) {
  const std::string path = folder + "/" + replay_file(rank);
  const nets::StateReader there(part, path);
  const auto number = [&](const char* name) { return there.number<std::int64_t>(name); };
  StoredRows s{path,
               number("replay.rows"),
               number("replay.capacity"),
               number("replay.next"),
               number("replay.appended"),
               true,
               nullptr};
  const nets::NamedTensors columns = nets::under(part, "replay.columns.");
  s.fits = columns.size() == replay.columns().size();
  for (std::size_t c = 0; s.fits && c < columns.size(); ++c) {
    const learners::Column& own = replay.columns()[c];
    s.fits = columns[c].first == own.name && columns[c].second.scalar_type() == at::kLong &&
             at::equal(columns[c].second, at::tensor(own.shape, at::kLong));
  }
  const io::Seal& seal = *manifest.find(replay_file(rank));
  s.file = std::make_unique<io::SealedReader>(path, seal);
  const auto row_bytes = static_cast<std::uint64_t>(replay.row_floats()) * sizeof(float);
  const bool possible = s.rows >= 0 && s.rows <= s.capacity && s.next >= 0 && s.next < s.capacity &&
                        (s.rows == s.capacity || s.next == s.rows) &&
                        (!s.fits || static_cast<std::uint64_t>(s.rows) * row_bytes == seal.bytes);
  if (!possible) throw FileError(path + ": its row counts contradict each other");
  return s;
}

bool is_linked(const learners::Buffer& replay) {
  return std::any_of(replay.columns().begin(), replay.columns().end(),
                     [](const learners::Column& column) { return column.name == "back"; });
}

std::string dealt_text(const learners::Buffer& replay, bool rollouts, std::int64_t rows) {
  if (rollouts) return "each rank starts a new rollout";
  if (is_linked(replay)) return "replay starts empty: consecutive rows of a game cannot be redistributed";
  return rows > 0 ? "replay is redistributed" : "replay starts empty: the checkpoint has none";
}

bool fill_replay(std::vector<StoredRows>& parts, bool same_ranks, int rank, int world_size,
                 learners::Buffer& replay) {
  const bool as_it_was = same_ranks && parts.size() == 1 && parts[0].capacity == replay.capacity();
  if (as_it_was) {
    const StoredRows& p = parts[0];
    replay.restart(p.rows == p.capacity ? p.next : 0, p.appended - p.rows);
  }
  deal_rows(parts, same_ranks ? 0 : rank, same_ranks ? 1 : world_size, replay);
  for (StoredRows& p : parts) p.file->close();
  replay.settle();
  return as_it_was;
}

}  // namespace snake_ddp::train
