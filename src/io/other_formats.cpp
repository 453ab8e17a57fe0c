#include "io/other_formats.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "snake_ddp/core/check.hpp"

namespace snake_ddp::io {
namespace {

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName kTypes[] = {{at::kFloat, "F32"},     {at::kDouble, "F64"}, {at::kHalf, "F16"},
                               {at::kBFloat16, "BF16"}, {at::kLong, "I64"},   {at::kInt, "I32"},
                               {at::kShort, "I16"},     {at::kChar, "I8"},    {at::kByte, "U8"},
                               {at::kBool, "BOOL"}};

const char* type_name(at::ScalarType type) {
  const auto* at = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const TypeName& known) { return known.type == type; });
  SD_CHECK(at != std::end(kTypes), c10::toString(type));
  return at->name;
}

}  // namespace

std::string safetensors_bytes(const NamedTensors& items, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  nlohmann::ordered_json texts = nlohmann::ordered_json::object();
  for (const auto& [key, text] : metadata) texts[key] = text;
  header["__metadata__"] = texts;
  std::string data;
  for (const auto& [name, tensor] : items) {
    SD_CHECK(!header.contains(name), "two tensors are named '" + name + "'");
    const at::Tensor value = tensor.detach().cpu().contiguous();
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(value.data_ptr()), value.nbytes());
    header[name] = {{"dtype", type_name(value.scalar_type())},
                    {"shape", value.sizes().vec()},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligned numbers, for readers that map the file
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte)
    bytes.push_back(static_cast<char>((std::uint64_t{text.size()} >> (8 * byte)) & 0xFFU));
  return bytes + text + data;
}

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

}  // namespace snake_ddp::io
