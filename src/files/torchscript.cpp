#include "snake_ddp/files/torchscript.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>

#include <memory>
#include <sstream>

#include "snake_ddp/base/check.hpp"

namespace snake_ddp::files {
namespace {

using Unit = std::shared_ptr<torch::jit::CompilationUnit>;

// The module of all parameters whose names begin with `prefix`, under the rest of their names. Inner modules are
// completed before they go into outer ones, so that the outer type knows theirs.
torch::jit::Module module_of(const NamedTensors& parameters, const std::string& prefix,
                             const std::string& type, const Unit& unit) {
  torch::jit::Module module(c10::QualifiedName("__torch__." + type), unit);
  for (const auto& [name, tensor] : parameters) {
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string rest = name.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    const std::string own = rest.substr(0, dot);
    if (dot == std::string::npos) {
      SD_CHECK(!module.hasattr(own), "two parameters are named '" + name + "'");
      module.register_parameter(own, tensor.detach().cpu().clone(), /*is_buffer=*/false);
    } else if (!module.hasattr(own)) {
      const std::string inner_type = type + "_" + own;
      module.register_module(own, module_of(parameters, prefix + own + ".", inner_type, unit));
    }
  }
  return module;
}

}  // namespace

std::string torchscript_bytes(const NamedTensors& parameters, const std::string& source) {
  torch::jit::Module module =
      module_of(parameters, "", "Actor", std::make_shared<torch::jit::CompilationUnit>());
  module.define(source, torch::jit::nativeResolver());
  std::ostringstream out;
  module.save(out);
  return out.str();
}

}  // namespace snake_ddp::files
