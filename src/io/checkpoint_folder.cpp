#include "io/checkpoint_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <limits>
#include <string_view>
#include <system_error>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

namespace fs = std::filesystem;
using core::FileError;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kDamaged = "damaged_", kLeft = "left_";
constexpr const char* kManifest = "manifest.json";

fs::path home(const std::string& run) { return fs::path(run) / "checkpoints"; }

// For what changes something in it.
fs::path own_home(const std::string& run) {
  refuse_link(home(run).string());
  return home(run);
}

std::string name_of(std::int64_t step) { return fmt::format("{}{:012}", kStepPrefix, step); }

fs::path unfinished_path(const std::string& run, std::int64_t step) {
  return home(run) / ("." + name_of(step));
}

std::uint32_t crc_of(const std::string& text) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Hidden first, so that no reader sees half of a folder that is being removed.
void remove_checkpoint(const std::string& run, std::int64_t step) {
  const fs::path gone = own_home(run) / ("." + name_of(step) + ".old");
  remove_quietly(gone);
  std::error_code error;
  fs::rename(checkpoint_folder(run, step), gone, error);
  if (!error) remove_quietly(gone);
}

ordered_json to_json(const Manifest& m) {
  ordered_json files = ordered_json::array();
  for (const CheckpointFile& f : m.files)
    files.push_back({{"name", f.name}, {"bytes", f.seal.bytes}, {"crc32", f.seal.crc32}});
  return {{"format", kFormat},    {"step", m.step},         {"updates", m.updates},
          {"episode", m.episode}, {"version", m.version},   {"world_size", m.world_size},
          {"run", m.run},         {"settings", m.settings}, {"files", files}};
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// The library's own conversion of a number that does not fit is undefined.
template <class Whole>
Whole whole(const ordered_json& object, const char* name) {
  const ordered_json& value = object.at(name);
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Whole>::max()))
    throw FileError(fmt::format("\"{}\" is {}", name, value.dump(-1, ' ', true)));
  return value.get<Whole>();
}

Manifest manifest_of(const ordered_json& object) {
  Manifest m;
  if (object.at("format") != kFormat) throw FileError("it has no format");
  m.step = whole<std::int64_t>(object, "step");
  m.updates = whole<std::int64_t>(object, "updates");
  m.episode = whole<std::int64_t>(object, "episode");
  m.version = object.at("version").get<std::string>();
  m.world_size = whole<int>(object, "world_size");
  m.run = object.at("run").get<std::string>();
  m.settings = object.at("settings");
  if (m.world_size < 1 || !m.settings.is_object()) throw FileError("numbers out of range");
  for (const ordered_json& file : object.at("files")) {
    CheckpointFile f{file.at("name").get<std::string>(),
                     {whole<std::uint64_t>(file, "bytes"), whole<std::uint32_t>(file, "crc32")}};
    if (!is_plain_name(f.name))
      throw FileError(fmt::format("the file name \"{}\" points outside the folder", f.name));
    m.files.push_back(std::move(f));
  }
  return m;
}

void sync_home(const std::string& run) {
  const int error = sync_folder(home(run));
  if (error != 0) throw file_error("sync", home(run).string(), error);
}

void move_entry(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw file_error("rename", from.string(), error.value());
}

// Names of the folders in a run's checkpoints/ with this prefix.
std::vector<std::string> folders_in_home(const std::string& run, std::string_view beginning) {
  std::vector<std::string> names;
  for (const std::string& name : names_in(home(run).string()))
    if (name.starts_with(beginning) && is_folder(home(run) / name)) names.push_back(name);
  return names;
}

// `name` in a run's checkpoints/, with a number appended if that name exists.
fs::path free_name(const std::string& run, const std::string& name) {
  fs::path free = own_home(run) / name;
  for (int n = 2; is_link(free) || is_there(free); ++n) free = home(run) / fmt::format("{}.{}", name, n);
  return free;
}

// At each moment one of them is whole in the folder of checkpoints. Network file systems cannot exchange two folders.
void replace_checkpoint(const std::string& run, const fs::path& unfinished, const fs::path& folder) {
  if (::renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0)
    return remove_quietly(unfinished);
  const fs::path left = free_name(run, std::string(kLeft) + folder.filename().string());
  move_entry(folder, left);
  move_entry(unfinished, folder);
  remove_quietly(left);
}

}  // namespace

const Seal* Manifest::find(const std::string& name) const {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const CheckpointFile& f) { return f.name == name; });
  return found == files.end() ? nullptr : &found->seal;
}

std::string checkpoint_folder(const std::string& run, std::int64_t step) {
  return checkpoint_folder(run, name_of(step));
}

std::string checkpoint_folder(const std::string& run, const std::string& name) {
  return (home(run) / name).string();
}

std::string unfinished_checkpoint(const std::string& run, std::int64_t step) {
  const fs::path folder = unfinished_path(run, step);
  for (const fs::path& path : {home(run), folder}) make_own_folder(path);
  return folder.string();
}

void finish_checkpoint(const std::string& run, const Manifest& manifest, int keep) {
  // The run's folder may have been moved away since the files were written, and created again by the run.
  const fs::path unfinished = unfinished_path(run, manifest.step);
  for (const CheckpointFile& f : manifest.files) {
    const fs::path file = unfinished / f.name;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(file, error);
    if (error || bytes != f.seal.bytes)
      throw FileError(
          fmt::format("{} was written, but now {}: was the run's folder moved or removed?", file.string(),
                      error ? "it cannot be read (" + error.message() + ")"
                            : fmt::format("has {} of {}", bytes, core::counted(f.seal.bytes, "byte"))));
  }
  ordered_json object = to_json(manifest);
  object["checksum"] = crc_of(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  write_json((unfinished / kManifest).string(), object);
  const fs::path folder = checkpoint_folder(run, manifest.step), next_latest = home(run) / ".latest";
  // Everything that needs disk space comes before the rename: a folder with a final name is complete.
  write_file_atomically(next_latest.string(), folder.filename().string() + "\n");
  if (is_link(folder) || is_there(folder)) {
    replace_checkpoint(run, unfinished, folder);
  } else {
    move_entry(unfinished, folder);
  }
  move_entry(next_latest, home(run) / "latest");
  sync_home(run);
  int kept = 0;
  for (const std::int64_t step : checkpoints_of(run)) {
    if (step != manifest.step && ++kept >= keep) remove_checkpoint(run, step);
  }
}

void discard_unfinished(const std::string& run) {
  for (const std::string& name : names_in(own_home(run)))
    if (name.starts_with("." + std::string(kStepPrefix))) remove_quietly(home(run) / name);
}

std::vector<std::int64_t> checkpoints_of(const std::string& run) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : folders_in_home(run, kStepPrefix)) {
    const auto step = core::try_number<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
    if (step && *step >= 0 && name == name_of(*step)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

std::vector<std::string> damaged_checkpoints_of(const std::string& run) {
  std::vector<std::string> names = folders_in_home(run, std::string(kDamaged) + std::string(kStepPrefix));
  std::sort(names.begin(), names.end(), std::greater<>());
  return names;
}

Manifest read_manifest(const std::string& checkpoint) {
  const std::string path = (fs::path(checkpoint) / kManifest).string();
  const auto damaged = [&](const std::string& why) {
    return DamagedFile(fmt::format("{} is damaged: {}", path, why));
  };
  std::string text;
  try {
    text = read_file(path);
  } catch (const SystemError& e) {
    // A missing folder proves nothing: another rank, or a slow network drive, may have it.
    if (e.number != ENOENT || !is_folder(checkpoint)) throw;
    throw damaged("it is missing");
  }
  ordered_json object;
  try {
    object = parse_ordered_json(text);
  } catch (const FileError& e) {
    throw damaged(e.what());
  }
  if (!object.is_object()) throw damaged("not what was written; truncated?");
  // Before the checksum, which another format may compute in another way.
  if (object.contains("format") && object["format"].is_number_unsigned() && object["format"] != kFormat) {
    throw FileError(fmt::format(
        "{} is of format {}, written by {}, and this version reads format {}: use that version", path,
        object["format"].dump(),
        object.contains("version") ? object["version"].dump(-1, ' ', true) : "a newer version", kFormat));
  }
  if (!object.contains("checksum")) throw damaged("not what was written; truncated?");
  const ordered_json checksum = object["checksum"];
  object.erase("checksum");
  if (checksum != crc_of(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)))
    throw damaged("its checksum is wrong");
  try {
    return manifest_of(object);
  } catch (const nlohmann::json::exception& e) {
    throw FileError(fmt::format("{} cannot be used: {}", path, e.what()));
  } catch (const FileError& e) {
    throw FileError(fmt::format("{} cannot be used: {}", path, e.what()));
  }
}

Manifest verify_checkpoint(const std::string& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  std::array<char, 1 << 16> piece;
  for (const CheckpointFile& f : manifest.files) {
    SealedReader reader((fs::path(checkpoint) / f.name).string(), f.seal);
    for (std::uint64_t left = f.seal.bytes; left > 0;) {
      const std::size_t now = std::min<std::uint64_t>(left, piece.size());
      reader.read({piece.data(), now});
      left -= now;
    }
    reader.close();
  }
  return manifest;
}

std::string set_aside(const std::string& run, std::int64_t step) {
  const fs::path there = free_name(run, std::string(kDamaged) + name_of(step));
  std::error_code error;
  fs::rename(checkpoint_folder(run, step), there, error);
  return error ? std::string() : there.string();
}

std::vector<std::string> take_up(const std::string& run, const std::string& name, std::int64_t step) {
  std::vector<std::string> left;
  refuse_link(home(run));
  for (const std::int64_t other : checkpoints_of(run)) {
    const std::string its_name = name_of(other);
    if (other < step || its_name == name) continue;
    const fs::path there = free_name(run, std::string(kLeft) + its_name);
    move_entry(home(run) / its_name, there);
    left.push_back(there.filename().string());
  }
  if (name != name_of(step)) move_entry(home(run) / name, checkpoint_folder(run, step));
  sync_home(run);
  write_file_atomically((home(run) / "latest").string(), name_of(step) + "\n");
  return left;
}

void mark_resumable(const std::string& run, bool resumable) {
  const fs::path marker = own_home(run) / "resumable";
  if (!resumable) {
    remove_quietly(marker);
    return;
  }
  try {
    write_file_atomically(marker.string(), "stopped early; start with --resume " + run + "\n");
  } catch (const FileError&) {  // an empty file fits on most full disks, and means the same
    create_file(marker);
  }
}

}  // namespace snake_ddp::io
