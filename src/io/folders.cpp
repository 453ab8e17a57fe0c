#include "io/folders.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "io/atomic_file.hpp"
#include "io/open_file.hpp"

namespace snake_ddp::io {
namespace {

namespace fs = std::filesystem;

// Nothing for what is missing.
std::optional<struct stat> status_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  throw file_error("look at", path, errno);
}

}  // namespace

bool is_there(const std::string& path) { return status_at(path).has_value(); }

bool is_folder(const std::string& path) {
  const auto status = status_at(path);
  return status && S_ISDIR(status->st_mode);
}

bool is_link(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error))
    names.push_back(it->path().filename().string());
  if (error && error.value() != ENOENT) throw file_error("list", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) throw file_error("find the folder of", path, error.value());
  return whole.lexically_normal().string();
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw file_error("make folder", path, error.value());
}

void make_own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return;
  if (errno != EEXIST) throw file_error("make folder", path, errno);
  refuse_link(path);
  if (!is_folder(path)) throw file_error("make folder", path, ENOTDIR);
}

void refuse_link(const std::string& path) {
  if (is_link(path)) throw link_error(path);
}

}  // namespace snake_ddp::io
