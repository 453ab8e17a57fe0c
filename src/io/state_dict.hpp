// Weights files in the format of Python's torch.save and torch.load.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snake_ddp::io {

/// Names and values in the file's order. Values are CPU tensors that own their memory, contiguous.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A network's weights, and the text of the file's entry kRecordName, empty without one. Python's torch.load does not
/// read that entry.
struct SavedWeights {
  NamedTensors weights;
  std::string record;
  std::string owner =
      {};                // what all names in the file begin with, such as "module."; `weights` are without it
  bool wrapped = false;  // the file has them in a dict inside of its dict
};
inline constexpr const char* kRecordName = "snake_ddp.json";

/// Reads a file written by Python's torch.save (zip or pre-1.6, pickle protocols 2 to 5) or by
/// save_state_dict: a dict, OrderedDict or nest of them with tensors, Parameters and numbers. Inner
/// dicts and lists are flattened, names joined by dots ("model.fc.weight"); Python's float, int and bool
/// become 0-dim float64, int64 and bool. Nothing in the file is executed: classes and functions outside a
/// short list are rejected by name.
/// Cost        the file once in memory, the tensors once more; checksums of zip files are verified.
/// Throws      FileError if the file is missing, truncated, damaged, not a torch.save file, names a foreign
///             class, or holds a value that is neither tensor nor number.
NamedTensors load_state_dict(const std::string& path);

/// Reads a network's weights from such a file: floating-point tensors whose names begin as those of this program's
/// networks do. They may be in a dict under "state_dict", "model" or the like, and their names may have a common prefix,
/// which is taken off. docs/reference/formats.md has the list; snake_ddp.weights, the Python package's reader, decides likewise.
/// Throws      FileError as above, and for other contents, and for numbers that are not finite as float32.
SavedWeights load_weights(const std::string& path);

/// All of such a file, of any types and with any numbers. Of several dicts, only the one with the weights.
SavedWeights inspect_weights(const std::string& path);

/// Reads weights from memory. `origin` is the path in messages.
NamedTensors read_state_dict(std::string_view bytes, const std::string& origin);
SavedWeights read_weights(std::string_view bytes, const std::string& origin);

/// Throws  FileError that names the first tensor that is not of a floating-point type, or not finite as float32.
void check_numbers(const NamedTensors& items);

/// Writes a file that torch.load(path, weights_only=True) reads as a dict of tensors; the old file stays
/// intact until the new one is complete (write_file_atomically). Views are written without the rest of their storage.
/// A `record` becomes the entry kRecordName.
/// Throws  FileError; Bug if a name occurs twice or a tensor is undefined.
void save_state_dict(const std::string& path, const NamedTensors& items, const std::string& record = {});

/// The bytes that save_state_dict writes.
std::string state_dict_bytes(const NamedTensors& items, const std::string& record = {});

}  // namespace snake_ddp::io
