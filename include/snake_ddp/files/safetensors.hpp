// Weights in the safetensors format of Hugging Face.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "snake_ddp/files/state_dict.hpp"

namespace snake_ddp::files {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// The bytes of a safetensors file with these tensors, in this order, and string metadata.
/// Throws  Bug if a name occurs twice or a type does not belong in weights files (float16 to float64, bfloat16, int8 to
///         int64, uint8, bool).
/// Follows docs/format of the safetensors project: an 8-byte length, a JSON header, the numbers without gaps.
std::string safetensors_bytes(const NamedTensors& items, const Metadata& metadata);

}  // namespace snake_ddp::files
