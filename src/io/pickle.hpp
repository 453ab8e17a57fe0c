// Reads the pickles inside torch.save files without executing anything: values become plain structures, and
// the only names allowed are those that a state dict needs.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "byte_reader.hpp"

namespace snake_ddp::io {

struct Sequence;
struct Mapping;
struct StorageRef;
struct TensorPlan;
struct KnownName;

struct None {};
/// A Python int beyond 64 bits, as little-endian two's complement.
struct WideInteger {
  std::string_view bytes;
};

/// Strings are views of the file; the structures belong to the Pickles that read them. A pickle may make a list that
/// contains itself: code that walks values must bound the depth.
using PickleValue = std::variant<None, bool, std::int64_t, double, std::string_view, WideInteger,
                                 const KnownName*, Sequence*, Mapping*, const StorageRef*, const TensorPlan*>;

struct Sequence {  // list or tuple
  std::vector<PickleValue> items;
};
struct Mapping {  // dict or OrderedDict, in the file's order
  std::vector<std::pair<PickleValue, PickleValue>> items;
};
struct StorageRef {
  std::string_view key;
  c10::ScalarType type;
  std::int64_t numel;
};
struct TensorPlan {  // a view of a storage, as the file says; unchecked
  const StorageRef* storage;
  std::int64_t offset;
  std::vector<std::int64_t> sizes, strides;
};

/// All pickles of one file.
class Pickles {
 public:
  /// Reads one pickle of protocol 2 to 5; `in` is then behind it.
  /// Throws  FileError if it is damaged, names something that is not allowed, or holds more than kMaxValues
  /// values.
  PickleValue read(ByteReader& in);

  [[nodiscard]] const std::deque<StorageRef>& storages() const { return storages_; }

  static constexpr std::size_t kMaxValues = std::size_t{1} << 22;

 private:
  class Machine;
  std::deque<Sequence> sequences_;
  std::deque<Mapping> mappings_;
  std::deque<StorageRef> storages_;
  std::deque<TensorPlan> plans_;
  std::size_t values_ = 0;
};

/// For values whose type the format prescribes.
/// Throws  FileError that says `what` was expected.
template <class T>
const T& expect_type(const PickleValue& value, const char* what) {
  const T* typed = std::get_if<T>(&value);
  if (typed == nullptr) throw damaged(std::string(what) + " expected");
  return *typed;
}

}  // namespace snake_ddp::io
