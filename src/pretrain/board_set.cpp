#include "pretrain/board_set.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::pretrain {
namespace {

// The layout of game::State is part of the version: a change there needs a new number here.
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kWriteBytes = 1U << 20U;

struct Head {
  char magic[8] = {'S', 'D', 'B', 'O', 'A', 'R', 'D', 'S'};
  std::uint32_t version = kVersion;
  std::uint32_t board_bytes = sizeof(game::State);
  std::int64_t interval = 0;
  Recording recording;
  std::uint8_t nothing[24] = {};
};
static_assert(sizeof(Head) == 64);

struct Foot {
  std::int64_t games = 0, boards = 0;
  std::uint32_t crc32 = 0;  // of all bytes before the foot
  char magic[4] = {'W', 'H', 'O', 'L'};
};
static_assert(sizeof(Foot) == 24);

std::uint32_t crc_of(std::uint32_t before, const void* bytes, std::size_t size) {
  if (size == 0) return before;  // a set without games has no ends, and zlib starts anew at a null pointer
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(bytes), size));
}

// Why the games' ends or boards are impossible; empty if they are not. A checksum does not protect against deliberate ones.
std::string fault_in(const std::uint8_t* boards, const std::int64_t* ends, const Foot& foot) {
  std::int64_t before = 0;
  for (std::int64_t g = 0; g < foot.games; ++g) {
    if (ends[g] <= before || ends[g] > foot.boards)
      return fmt::format("game {} ends with board {} of {}, the one before with {}", g, ends[g], foot.boards,
                         before);
    before = ends[g];
  }
  if (before != foot.boards)
    return fmt::format("its games have {}, the file has {}", core::counted(before, "board"), foot.boards);
  for (std::int64_t b = 0; b < foot.boards; ++b) {
    const std::uint8_t* const image = boards + static_cast<std::size_t>(b) * sizeof(game::State);
    const std::string fault = game::fault_of_image(image);
    if (!fault.empty()) return fmt::format("board {}: {}", b, fault);
    if (reinterpret_cast<const game::State*>(image)->done())
      return fmt::format("board {}: its game is over, and sets have boards before a move", b);
  }
  return {};
}

bool is_head(const Head& head) { return std::memcmp(head.magic, Head().magic, sizeof head.magic) == 0; }

bool is_readable(const Head& head) {
  return head.version == kVersion && head.board_bytes == sizeof(game::State);
}

}  // namespace

Recording recording_of(const std::string& path) {
  const std::string bytes = io::head_of_file(path, sizeof(Head));
  Head head;
  if (bytes.size() < sizeof head) return {};
  std::memcpy(&head, bytes.data(), sizeof head);
  return is_head(head) && is_readable(head) ? head.recording : Recording{};
}

BoardSetWriter::BoardSetWriter(std::string path, std::int64_t interval, const Recording& recording)
    : path_(std::move(path)),
      part_(fmt::format("{}.part-{}", path_, ::getpid())),
      interval_(interval),
      file_(std::make_unique<io::SealedWriter>(part_)) {
  Head head;
  head.interval = interval_;
  head.recording = recording;
  put(&head, sizeof head);
}

BoardSetWriter::~BoardSetWriter() {
  if (!file_) return;
  file_.reset();
  ::unlink(part_.c_str());
}

void BoardSetWriter::put(const void* bytes, std::size_t size) {
  crc_ = crc_of(crc_, bytes, size);
  buffer_.append(static_cast<const char*>(bytes), size);
  if (buffer_.size() < kWriteBytes) return;
  file_->write(buffer_);
  buffer_.clear();
}

void BoardSetWriter::add_game(std::span<const game::State> boards) {
  if (boards.empty()) return;
  put(boards.data(), boards.size_bytes());
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + static_cast<std::int64_t>(boards.size()));
}

void BoardSetWriter::finish() {
  put(ends_.data(), ends_.size() * sizeof ends_[0]);
  Foot foot;
  foot.games = static_cast<std::int64_t>(ends_.size());
  foot.boards = ends_.empty() ? 0 : ends_.back();
  foot.crc32 = crc_;
  put(&foot, sizeof foot);
  file_->write(buffer_);
  file_->close();
  if (std::rename(part_.c_str(), path_.c_str()) != 0) throw io::file_error("rename", part_, errno);
  file_.reset();
}

BoardSet::BoardSet(const std::string& path) {
  const core::Descriptor file = io::open_to_read(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw io::file_error("read", path, errno);
  bytes_ = static_cast<std::size_t>(status.st_size);
  map_ = bytes_ == 0 ? MAP_FAILED : ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map_ == MAP_FAILED && bytes_ > 0) throw io::file_error("map", path, errno);
  const auto refuse = [&](const std::string& why) {
    if (bytes_ > 0) ::munmap(map_, bytes_);
    return core::FileError(fmt::format("{}: {}", path, why));
  };
  Head head;
  Foot foot;
  if (bytes_ < sizeof head) throw refuse("truncated: too small for a set of boards. Record it again");
  std::memcpy(&head, map_, sizeof head);
  if (!is_head(head))
    throw refuse("not a set of boards: wrong header. Record it again, or remove it from the folder");
  if (!is_readable(head)) {
    throw refuse(
        fmt::format("a set of boards of version {} with {} per board; this program reads version {} with {}. "
                    "Record it again, or remove it from the folder",
                    head.version, core::counted(head.board_bytes, "byte"), kVersion, sizeof(game::State)));
  }
  if (head.interval < 1)
    throw refuse(fmt::format("not of recorded games: an interval of {}. Record it again",
                             core::counted(head.interval, "step")));
  const auto* begin = static_cast<const std::uint8_t*>(map_);
  const std::size_t content = bytes_ >= sizeof head + sizeof foot ? bytes_ - sizeof foot : 0;
  if (content > 0) std::memcpy(&foot, begin + content, sizeof foot);
  if (content == 0 || std::memcmp(foot.magic, Foot().magic, sizeof foot.magic) != 0 || foot.games < 0 ||
      foot.boards < foot.games || foot.boards > static_cast<std::int64_t>(content / sizeof(game::State)) ||
      sizeof head + static_cast<std::size_t>(foot.boards) * sizeof(game::State) +
              static_cast<std::size_t>(foot.games) * sizeof(std::int64_t) !=
          content) {
    throw refuse(
        fmt::format("truncated: no end marker after its {}. Record it again", core::counted(bytes_, "byte")));
  }
  const std::uint32_t seen = crc_of(0, map_, content);
  if (seen != foot.crc32) {
    throw refuse(
        fmt::format("damaged: its checksum is {:08x}, expected {:08x}. Record it again", seen, foot.crc32));
  }
  const std::uint8_t* const boards = begin + sizeof head;
  const auto* const ends = reinterpret_cast<const std::int64_t*>(
      boards + static_cast<std::size_t>(foot.boards) * sizeof(game::State));
  if (const std::string fault = fault_in(boards, ends, foot); !fault.empty())
    throw refuse("not of recorded games: " + fault + ". Record it again");
  games_ = foot.games;
  boards_ = foot.boards;
  interval_ = head.interval;
  crc_ = foot.crc32;
  first_ = reinterpret_cast<const game::State*>(boards);
  ends_ = ends;
}

BoardSet::~BoardSet() { ::munmap(map_, bytes_); }

std::span<const game::State> BoardSet::game(std::int64_t g) const {
  const std::int64_t begin = g == 0 ? 0 : ends_[g - 1];
  return {first_ + begin, static_cast<std::size_t>(ends_[g] - begin)};
}

Split split_by_games(const BoardSet& set, double held_out_share) {
  const auto every = static_cast<std::int64_t>(std::llround(1.0 / held_out_share));
  Split split;
  for (std::int64_t g = 0; g < set.games(); ++g) {
    std::vector<std::int64_t>& side = g % every == every - 1 ? split.held_out : split.training;
    const std::span<const game::State> boards = set.game(g);
    for (std::int64_t i = boards.data() - &set.board(0), end = i + static_cast<std::int64_t>(boards.size());
         i < end; ++i)
      side.push_back(i);
  }
  if (split.training.empty() || split.held_out.empty()) {
    throw core::UsageError(
        fmt::format("the data set has {}: one in {} is held out for validation. Record more games, or "
                    "raise --validation_share",
                    core::counted(set.games(), "game"), every));
  }
  return split;
}

}  // namespace snake_ddp::pretrain
