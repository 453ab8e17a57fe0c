// A checkpoint's folder: the input is manifest.json, and from the first NUL on the bytes of the file "part". If the
// manifest is JSON, its checksum is corrected; otherwise the fuzzer would never get past it.
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fuzz.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/json_text.hpp"
#include "io/state_dict.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"

using namespace snake_ddp;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "snake_ddp_fuzz_XXXXXX").string();
    SD_CHECK(::mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~Folder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string sealed(std::string_view text) {
  try {
    nlohmann::ordered_json manifest = io::parse_ordered_json(text);
    if (!manifest.is_object()) return std::string(text);
    manifest.erase("checksum");
    const std::string body = manifest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    manifest["checksum"] = ::crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
    return manifest.dump();
  } catch (const core::FileError&) {
    return std::string(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const fs::path checkpoint = folder.path() / "step_000000000001";
  fs::create_directory(checkpoint);
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::ofstream(checkpoint / "manifest.json", std::ios::binary) << sealed(input.substr(0, end));
  std::ofstream(checkpoint / "part", std::ios::binary) << input.substr(std::min(end + 1, size));
  return fuzz::read_or_refuse([&] {
    const io::Manifest manifest = io::read_manifest(checkpoint.string());
    for (const io::CheckpointFile& file : manifest.files)
      SD_CHECK((checkpoint / file.name).lexically_normal().parent_path() == checkpoint,
               "a path outside of the folder: " + file.name);
    io::verify_checkpoint(checkpoint.string());
    if (const io::Seal* seal = manifest.find("part"))
      io::read_state_dict(io::read_sealed((checkpoint / "part").string(), *seal), "part");
  });
}
