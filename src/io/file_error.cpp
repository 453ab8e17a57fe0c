#include "io/file_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "io/open_file.hpp"
#include "snake_ddp/core/printable.hpp"

namespace snake_ddp::io {
namespace {

std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "Free some space there or choose another folder.";
    case EFBIG:
      return "The file size limit is too low: raise it (ulimit -f) or choose another folder.";
    case ETIMEDOUT:
      return "Nothing was written to this pipe for 30 seconds; check the program at its other end.";
    case EROFS:
    case EACCES:
    case EPERM:
      return "Give this user access to it or choose another folder.";
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case ELOOP:
    case ENAMETOOLONG:
      return "Check the path.";
    case EMFILE:
    case ENFILE:
      return "Raise the limit on open files (ulimit -n).";
    default:
      return "Check the disk or the network file system it is on.";
  }
}

}  // namespace

bool SystemError::is_missing() const { return number == ENOENT || number == ENOTDIR; }

SystemError file_error(std::string_view doing, const std::string& path, int error_number) {
  std::string text("cannot ");
  text.append(doing).append(" '").append(core::as_plain(path)).append("': ");
  text.append(std::strerror(error_number)).append(". ").append(advice(error_number));
  return {text, error_number};
}

SystemError too_large(const std::string& path, std::size_t bytes) {
  return {fmt::format("{} has {} bytes or more, and no file of this kind has over {}. Check the path",
                      core::as_plain(path), bytes, kMostFileBytes),
          EFBIG};
}

SystemError link_error(const std::string& path) {
  return {
      "cannot write '" + core::as_plain(path) +
          "': it is a link, and a run writes only into its own folder. Replace the link by what it leads to.",
      ELOOP};
}

}  // namespace snake_ddp::io
