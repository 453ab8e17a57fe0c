#include "io/state_dict.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "io/atomic_file.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "torch_file.hpp"

namespace snake_ddp::io {
namespace {

constexpr int kMaxDepth = 32;

// Where the weights may be in a dict with more than weights, as trainers save it.
constexpr std::array<std::string_view, 13> kWrappers{"state_dict",
                                                     "model_state_dict",
                                                     "actor_state_dict",
                                                     "policy_state_dict",
                                                     "network_state_dict",
                                                     "net_state_dict",
                                                     "model",
                                                     "actor",
                                                     "policy",
                                                     "network",
                                                     "net",
                                                     "module",
                                                     "weights"};
// How the names of networks begin, without prefixes of their owners.
constexpr std::array<std::string_view, 9> kFirstParts{
    "prev_dense", "post_dense", "post_norm", "comm_net", "q_net", "norm_0", "norm_1", "gru", "mixer"};
constexpr std::uint64_t kValueBytes = 256;  // roughly the memory of one value besides its numbers

// ---- from plans to tensors
// ---------------------------------------------------------------------------------------

// Elements of a tensor. Every product is kept below 2^62, zeros aside, since LibTorch computes with them too.
std::int64_t checked_numel(const std::vector<std::int64_t>& sizes) {
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) throw damaged("a tensor of negative size");
    empty |= size == 0;
    if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)),
                               &product) ||
        product >= std::uint64_t{1} << 62) {
      throw damaged("a tensor of impossible size");
    }
  }
  return empty ? 0 : static_cast<std::int64_t>(product);
}

// One behind the last element of its storage that a non-empty tensor touches.
std::uint64_t reach(const TensorPlan& plan) {
  if (plan.offset < 0) throw damaged("a tensor before its storage");
  auto last = static_cast<std::uint64_t>(plan.offset);
  for (std::size_t i = 0; i < plan.sizes.size(); ++i) {
    std::uint64_t span = 0;
    if (plan.strides[i] < 0 ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(plan.sizes[i] - 1),
                               static_cast<std::uint64_t>(plan.strides[i]), &span) ||
        __builtin_add_overflow(last, span, &last)) {
      throw damaged("a tensor with impossible strides");
    }
  }
  return last + 1;
}

bool is_contiguous(const TensorPlan& plan) {
  std::int64_t expected = 1;
  for (std::size_t i = plan.sizes.size(); i-- > 0;) {
    if (plan.sizes[i] == 1) continue;
    if (plan.strides[i] != expected) return false;
    expected *= plan.sizes[i];
  }
  return true;
}

std::string in_quotes(std::string_view name) { return "'" + printable(name) + "'"; }

const Mapping& root_dict(const TorchFile& file) {
  if (const auto* root = std::get_if<Mapping*>(&file.root)) return **root;
  throw core::FileError(
      "it contains no dict of names and tensors: torch.save(model.state_dict(), path) writes one");
}

// The dicts in it that have the name of a wrapper.
std::vector<std::pair<std::string_view, const Mapping*>> wrapped_in(const Mapping& dict) {
  std::vector<std::pair<std::string_view, const Mapping*>> found;
  for (const auto& [key, value] : dict.items) {
    const auto* name = std::get_if<std::string_view>(&key);
    const auto* inner = std::get_if<Mapping*>(&value);
    if (name != nullptr && inner != nullptr &&
        std::find(kWrappers.begin(), kWrappers.end(), *name) != kWrappers.end())
      found.emplace_back(*name, *inner);
  }
  return found;
}

// The dict with a network's weights, perhaps inside of others.
const Mapping& weights_dict(const TorchFile& file) {
  const Mapping* dict = &root_dict(file);
  for (int depth = 0;; ++depth) {
    const auto wrapped = wrapped_in(*dict);
    if (wrapped.empty()) return *dict;
    if (wrapped.size() > 1)
      throw core::FileError(fmt::format("it has weights under {} and {}: save one of them",
                                        in_quotes(wrapped[0].first), in_quotes(wrapped[1].first)));
    if (depth == kMaxDepth) throw core::FileError(in_quotes(wrapped[0].first) + " is nested too deeply");
    dict = wrapped[0].second;
  }
}

class Flattener {
 public:
  Flattener(const TorchFile& file, std::size_t file_bytes)
      : file_(file), budget_(4 * std::uint64_t{file_bytes} + (16U << 20U)) {}

  NamedTensors everything() {
    root_dict(file_);
    visit(file_.root, "", 0);
    return std::move(items_);
  }

  // Tensors only.
  NamedTensors tensors_of(const Mapping& dict) {
    for (const auto& [key, value] : dict.items) {
      const auto* name = std::get_if<std::string_view>(&key);
      if (name == nullptr) throw core::FileError("a name in it is not text: save only the weights");
      spend(kValueBytes + name->size());
      if (!names_.insert(std::string(*name)).second)
        throw core::FileError("two values are named " + in_quotes(*name));
      if (std::holds_alternative<Mapping*>(value))
        throw core::FileError(fmt::format("{} is a dict: weights may be in the file's own dict, or under {}",
                                          in_quotes(*name), fmt::join(kWrappers, ", ")));
      const auto* plan = std::get_if<const TensorPlan*>(&value);
      if (plan == nullptr)
        throw core::FileError(
            in_quotes(*name) +
            " is not a tensor: save only the weights, torch.save(model.state_dict(), path)");
      items_.emplace_back(*name, materialize(**plan));
    }
    if (items_.empty()) throw core::FileError("its dict is empty: it holds no weights");
    return std::move(items_);
  }

 private:
  void visit(const PickleValue& value, const std::string& name, int depth) {
    // Values may be shared and lists may contain themselves: a small file could describe endless ones.
    if (depth > kMaxDepth) throw core::FileError("'" + printable(name) + "' is nested too deeply");
    spend(kValueBytes + name.size());
    if (const auto* mapping = std::get_if<Mapping*>(&value)) {
      for (const auto& [key, item] : (*mapping)->items) visit(item, join(name, key_text(key)), depth + 1);
    } else if (const auto* list = std::get_if<Sequence*>(&value)) {
      for (std::size_t i = 0; i < (*list)->items.size(); ++i) {
        visit((*list)->items[i], join(name, std::to_string(i)), depth + 1);
      }
    } else {
      if (!names_.insert(name).second) throw core::FileError("two values are named " + in_quotes(name));
      items_.emplace_back(name, leaf(value, name));
    }
  }

  at::Tensor leaf(const PickleValue& value, const std::string& name) {
    if (const auto* plan = std::get_if<const TensorPlan*>(&value)) return materialize(**plan);
    if (const auto* number = std::get_if<double>(&value)) return at::scalar_tensor(*number, at::kDouble);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return at::scalar_tensor(*number, at::kLong);
    if (const auto* truth = std::get_if<bool>(&value)) return at::scalar_tensor(*truth, at::kBool);
    throw core::FileError("'" + printable(name) + "' is neither a tensor nor a number: save only those");
  }

  static std::string key_text(const PickleValue& key) {
    if (const auto* text = std::get_if<std::string_view>(&key)) return std::string(*text);
    if (const auto* number = std::get_if<std::int64_t>(&key)) return std::to_string(*number);
    throw core::FileError("a dict in it has a key that is neither text nor an integer: save only those");
  }
  static std::string join(const std::string& outer, const std::string& inner) {
    return outer.empty() ? inner : outer + "." + inner;
  }

  void spend(std::uint64_t bytes) {
    if (bytes > budget_) throw damaged("it describes far more than its size can hold");
    budget_ -= bytes;
  }

  at::Tensor materialize(const TensorPlan& plan) {
    const StorageRef& storage = *plan.storage;
    const auto found = file_.storages.find(storage.key);
    if (found == file_.storages.end()) throw damaged("storage '" + printable(storage.key) + "' is missing");
    const std::string_view bytes = found->second;
    const std::uint64_t item_bytes = c10::elementSize(storage.type);
    if (bytes.size() / item_bytes != static_cast<std::uint64_t>(storage.numel) ||
        bytes.size() % item_bytes != 0) {
      throw damaged("storage '" + printable(storage.key) + "' has the wrong size");
    }
    if (plan.sizes.size() != plan.strides.size())
      throw damaged("a tensor whose numbers of strides and sizes differ");
    const std::int64_t numel = checked_numel(plan.sizes);
    if (numel > 0 && reach(plan) > static_cast<std::uint64_t>(storage.numel)) {
      throw damaged("a tensor reaches outside its storage");
    }
    const std::uint64_t tensor_bytes = static_cast<std::uint64_t>(numel) * item_bytes;
    spend(tensor_bytes);
    // Booleans are read as bytes: a value that is neither 0 nor 1 must not get into a bool.
    const at::ScalarType type = storage.type == at::kBool ? at::kByte : storage.type;
    at::Tensor tensor;
    if (numel == 0 || is_contiguous(plan)) {
      tensor = at::empty(plan.sizes, type);
      if (numel > 0) {
        std::memcpy(tensor.data_ptr(), bytes.data() + static_cast<std::uint64_t>(plan.offset) * item_bytes,
                    tensor_bytes);
      }
    } else {
      tensor = whole_storage(storage, type, bytes)
                   .as_strided(plan.sizes, plan.strides, plan.offset)
                   .clone(at::MemoryFormat::Contiguous);
    }
    return storage.type == at::kBool ? tensor.ne(0) : tensor;
  }

  // Aligned, unlike the bytes in the file; kept, because slices often share it.
  const at::Tensor& whole_storage(const StorageRef& storage, at::ScalarType type, std::string_view bytes) {
    at::Tensor& whole = whole_[{storage.key, type}];
    if (!whole.defined()) {
      spend(bytes.size());
      whole = at::empty({storage.numel}, type);
      std::memcpy(whole.data_ptr(), bytes.data(), bytes.size());
    }
    return whole;
  }

  const TorchFile& file_;
  std::uint64_t budget_;  // bytes of memory that the file may still use
  NamedTensors items_;
  std::set<std::string> names_;
  std::map<std::pair<std::string_view, at::ScalarType>, at::Tensor> whole_;
};

// What is in front of the first part that names of networks begin with; nothing if it has no such part.
std::optional<std::string_view> owner_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (std::find(kFirstParts.begin(), kFirstParts.end(), part) != kFirstParts.end())
      return name.substr(0, begin);
    begin = end + 1;
  }
  return {};
}

// Takes a prefix off that all names have, such as "module." of DistributedDataParallel, and returns it.
std::string without_owner(NamedTensors& items) {
  const std::string* first = nullptr;  // a network's
  for (const auto& [name, tensor] : items)
    if (first == nullptr && owner_of(name)) first = &name;
  if (first == nullptr) return {};
  const std::string owner(*owner_of(*first));
  for (const auto& [name, tensor] : items) {
    if (owner_of(name).value_or(owner) != owner || !name.starts_with(owner))
      throw core::FileError(
          fmt::format("it holds more than one network, with names such as {} and {}: save one of them",
                      in_quotes(*first), in_quotes(name)));
  }
  for (auto& [name, tensor] : items) name.erase(0, owner.size());
  return owner;
}

void check_names(const NamedTensors& items) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : items) {
    if (owner_of(name)) return;
    if (names.size() < 3) names.push_back(in_quotes(name));
  }
  throw core::FileError(
      fmt::format("it is not an actor or critic of this program, with names such as prev_dense.0.weight or "
                  "q_net.0.weight; its names are "
                  "{}{}",
                  fmt::join(names, ", "), items.size() > 3 ? ", ..." : ""));
}

template <class Read>
auto explained(const std::string& origin, Read read) {
  try {
    return read();
  } catch (const core::FileError& error) {
    const std::string why = error.what();
    throw core::FileError(
        fmt::format("cannot load weights from '{}': {}{}", origin, why, why.ends_with('.') ? "" : "."));
  } catch (const c10::Error& error) {
    throw core::FileError("cannot load weights from '" + origin + "': " + error.what_without_backtrace() +
                          ".");
  }
}

}  // namespace

void check_numbers(const NamedTensors& items) {
  for (const auto& [name, tensor] : items) {
    if (!tensor.is_floating_point())
      throw core::FileError(
          fmt::format("tensor {} has the type {}, not a floating-point one", in_quotes(name),
                      tensor.scalar_type() == at::kBool
                          ? "bool"
                          : fmt::format("{}int{}", tensor.scalar_type() == at::kByte ? "u" : "",
                                        8 * tensor.element_size())));
    const std::int64_t finite = at::isfinite(tensor.to(at::kFloat)).sum().item<std::int64_t>();
    if (finite != tensor.numel())
      throw core::FileError(
          fmt::format("tensor {} has {} of {} not finite as float32: a training that "
                      "diverged leaves such weights; use earlier ones",
                      in_quotes(name), tensor.numel() - finite, core::counted(tensor.numel(), "number")));
  }
}

SavedWeights inspect_weights(const std::string& path) {
  return explained(path, [&] {
    const std::string bytes = read_file(path);
    TorchFile file;
    read_torch_file(bytes, file);
    const Mapping& dict = weights_dict(file);
    if (&dict == &root_dict(file))
      return SavedWeights{Flattener(file, bytes.size()).everything(), file.record};
    return SavedWeights{Flattener(file, bytes.size()).tensors_of(dict), file.record};
  });
}

SavedWeights read_weights(std::string_view bytes, const std::string& origin) {
  return explained(origin, [&] {
    TorchFile file;
    read_torch_file(bytes, file);
    const Mapping& dict = weights_dict(file);
    SavedWeights saved{Flattener(file, bytes.size()).tensors_of(dict), file.record};
    saved.wrapped = &dict != &root_dict(file);
    saved.owner = without_owner(saved.weights);
    check_names(saved.weights);
    check_numbers(saved.weights);
    return saved;
  });
}

NamedTensors read_state_dict(std::string_view bytes, const std::string& origin) {
  return explained(origin, [&] {
    TorchFile file;
    read_torch_file(bytes, file);
    return Flattener(file, bytes.size()).everything();
  });
}

SavedWeights load_weights(const std::string& path) { return read_weights(read_file(path), path); }

NamedTensors load_state_dict(const std::string& path) { return read_state_dict(read_file(path), path); }

std::string state_dict_bytes(const NamedTensors& items, const std::string& record) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const auto& [name, tensor] : items) {
    SD_CHECK(tensor.defined(), name);
    SD_CHECK(!dict.contains(name), "two tensors are named '" + name + "'");
    at::Tensor value = tensor.detach().cpu().contiguous();
    if (value.storage().nbytes() != value.nbytes()) value = value.clone();
    dict.insert(name, value);
  }
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* data, std::size_t n) { pickle.append(data, n); }, nullptr,
                              nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(dict);
  pickler.stop();
  // In memory: the writer ends the program if the place it writes to fails, for instance when the disk is
  // full.
  std::string bytes;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t n) {
    bytes.append(static_cast<const char*>(data), n);
    return n;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  writer.writeRecord("byteorder", "little", 6);
  if (!record.empty()) writer.writeRecord(kRecordName, record.data(), record.size());
  std::size_t key = 0;
  for (const at::Tensor& tensor : pickler.tensorData()) {
    writer.writeRecord("data/" + std::to_string(key++), tensor.data_ptr(), tensor.nbytes());
  }
  writer.writeEndOfFile();
  return bytes;
}

void save_state_dict(const std::string& path, const NamedTensors& items, const std::string& record) {
  write_file_atomically(path, state_dict_bytes(items, record));
}

}  // namespace snake_ddp::io
