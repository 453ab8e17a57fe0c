// All parameters of a network in one contiguous tensor: averaging is one all-reduce, clipping one norm, Adam
// one fused kernel, the Polyak update one lerp. Names and shapes for files come from views.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::nets {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A matrix (or vector: `columns` 0) of the network as stored in memory.
struct Block {
  std::int64_t rows;
  std::int64_t columns;
};

/// Blocks laid out one after the other, each aligned to 64 bytes; the gaps are zero and stay zero.
class FlatParameters {
 public:
  /// Shapes  flat [n] float32, zeroed.
  FlatParameters(std::vector<Block> blocks, at::Device device);

  /// Zeros in this layout: for gradients, moments and targets.
  [[nodiscard]] FlatParameters like() const { return {blocks_, flat_.device()}; }

  [[nodiscard]] const at::Tensor& flat() const { return flat_; }
  [[nodiscard]] at::Tensor& flat() { return flat_; }
  /// Block `i` as a view, [rows, columns] or [rows].
  [[nodiscard]] const at::Tensor& block(std::size_t i) const { return views_.at(i); }
  [[nodiscard]] const std::vector<at::Tensor>& blocks() const { return views_; }

 private:
  std::vector<Block> blocks_;
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
};

/// Draws each tensor, in this order, uniformly from +-1/sqrt(its number of inputs); a function of `seed` only.
void draw_weights(std::uint64_t seed, const std::vector<std::pair<at::Tensor, std::int64_t>>& with_inputs);

/// Appends `items` to `out`, their names behind `prefix`.
void add_under(NamedTensors& out, const std::string& prefix, const NamedTensors& items);
/// Those of `items` whose names begin with `prefix`, without it.
NamedTensors under(const NamedTensors& items, const std::string& prefix);

/// The tensor of that name; null without one.
const at::Tensor* find(const NamedTensors& items, const std::string& name);
/// Throws  FileError unless there is one, of a matrix. `what` names the source.
const at::Tensor& matrix_of(const NamedTensors& items, const std::string& name, const std::string& what);

/// core::add_to_hash of a tensor's bits, four bytes at a time, on any device.
std::uint64_t add_to_hash(std::uint64_t hash, const at::Tensor& tensor);

/// Copies tensors from a state dict into views of a network, by name.
/// Throws  FileError with the first difference in names or shapes; nothing is copied then. `what` names the source in
///         the message.
void copy_state(const NamedTensors& source, const NamedTensors& views, const std::string& what);

/// Reads state by name and type. Each function throws a FileError that starts with `what` if the state cannot have been saved so.
class StateReader {
 public:
  /// `state` must outlive it.
  StateReader(const NamedTensors& state, std::string what) : state_(state), what_(std::move(what)) {}

  void refuse(bool condition, const std::string& name) const {
    if (condition) throw core::FileError(what_ + ": impossible values in \"" + name + "\"");
  }
  /// Contiguous, as the tensors of `like`.
  [[nodiscard]] at::Tensor of(at::ScalarType type, const std::string& name) const {
    const at::Tensor* found = find(state_, name);
    if (found == nullptr || found->scalar_type() != type)
      throw core::FileError(what_ + " has no \"" + name + "\" of type " + c10::toString(type));
    return found->contiguous();
  }
  /// With the type and shape of `other`.
  [[nodiscard]] at::Tensor like(const at::Tensor& other, const std::string& name) const {
    const at::Tensor tensor = of(other.scalar_type(), name);
    refuse(tensor.sizes() != other.sizes(), name);
    return tensor;
  }
  /// An std::int64_t or a double.
  template <class Value>
  [[nodiscard]] Value number(const std::string& name) const {
    const at::Tensor tensor = of(std::is_floating_point_v<Value> ? at::kDouble : at::kLong, name);
    refuse(tensor.numel() != 1, name);
    return tensor.item<Value>();
  }

 private:
  const NamedTensors& state_;
  std::string what_;
};

}  // namespace snake_ddp::nets
