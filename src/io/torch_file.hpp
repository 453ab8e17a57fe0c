// Takes torch.save files apart: zip archives, whose entries that matter are stored, not compressed; and pickles one after the
// other, as before PyTorch 1.6. LibTorch's own reader is built without checksum tests: it loads a file with a flipped bit as
// if nothing were wrong.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pickle.hpp"

namespace snake_ddp::io {

/// The root value of a file and where its storages' bytes are: views of the file's bytes.
struct TorchFile {
  Pickles pickles;
  PickleValue root;
  std::map<std::string_view, std::string_view> storages;  // bytes by key
  std::string record;                                     // the entry of that name; empty if there is none
};

/// Reads a file's bytes, which must outlive `file`.
/// Throws  FileError if they are damaged or not from torch.save.
void read_torch_file(std::string_view bytes, TorchFile& file);

}  // namespace snake_ddp::io
