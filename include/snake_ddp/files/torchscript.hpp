// Networks as TorchScript archives, which torch.jit.load reads without our code.
#pragma once

#include <string>

#include "snake_ddp/files/state_dict.hpp"

namespace snake_ddp::files {

/// The bytes of a TorchScript archive: a module with these parameters and the method that `source` defines. A name
/// "a.0.weight" becomes the parameter `weight` of the submodule "0" of the submodule `a`, as in torch.nn.
/// `source` is a Python function of `self`, "def forward(self, ...): ...", in TorchScript's language.
/// Throws  Bug if a name occurs twice; LibTorch's exception if the source does not compile.
std::string torchscript_bytes(const NamedTensors& parameters, const std::string& source);

}  // namespace snake_ddp::files
