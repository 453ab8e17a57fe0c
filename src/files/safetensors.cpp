#include "snake_ddp/files/safetensors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "snake_ddp/base/check.hpp"

namespace snake_ddp::files {
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

}  // namespace snake_ddp::files
