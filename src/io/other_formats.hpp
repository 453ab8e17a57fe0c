// Weights for other programs: the safetensors format of Hugging Face, and TorchScript archives, which torch.jit.load reads
// without our code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/state_dict.hpp"

namespace snake_ddp::io {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// The bytes of a safetensors file with these tensors, in this order, and string metadata.
/// Throws  Bug if a name occurs twice or a type does not belong in weights files (float16 to float64, bfloat16, int8 to
///         int64, uint8, bool).
/// Follows docs/format of the safetensors project: an 8-byte length, a JSON header, the numbers without gaps.
std::string safetensors_bytes(const NamedTensors& items, const Metadata& metadata);

/// The bytes of a TorchScript archive: a module with these parameters and the method that `source` defines. A name
/// "a.0.weight" becomes the parameter `weight` of the submodule "0" of the submodule `a`, as in torch.nn.
/// `source` is a Python function of `self`, "def forward(self, ...): ...", in TorchScript's language.
/// Throws  Bug if a name occurs twice; LibTorch's exception if the source does not compile.
std::string torchscript_bytes(const NamedTensors& parameters, const std::string& source);

}  // namespace snake_ddp::io
