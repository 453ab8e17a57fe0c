#include "pickle.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {

enum class NameKind { kOrderedDict, kTensor, kParameter, kStorage };

struct KnownName {
  std::string_view module, name;
  NameKind kind;
  c10::ScalarType type = c10::ScalarType::Undefined;  // of a storage
};

namespace {

using c10::ScalarType;

// All names that a file may use. None of them runs code of the file's choice.
constexpr std::array kKnownNames{
    KnownName{"collections", "OrderedDict", NameKind::kOrderedDict},
    KnownName{"torch._utils", "_rebuild_tensor", NameKind::kTensor},
    KnownName{"torch._utils", "_rebuild_tensor_v2", NameKind::kTensor},
    KnownName{"torch._utils", "_rebuild_parameter", NameKind::kParameter},
    KnownName{"torch._utils", "_rebuild_parameter_with_state", NameKind::kParameter},
    KnownName{"torch", "FloatStorage", NameKind::kStorage, ScalarType::Float},
    KnownName{"torch", "DoubleStorage", NameKind::kStorage, ScalarType::Double},
    KnownName{"torch", "HalfStorage", NameKind::kStorage, ScalarType::Half},
    KnownName{"torch", "BFloat16Storage", NameKind::kStorage, ScalarType::BFloat16},
    KnownName{"torch", "LongStorage", NameKind::kStorage, ScalarType::Long},
    KnownName{"torch", "IntStorage", NameKind::kStorage, ScalarType::Int},
    KnownName{"torch", "ShortStorage", NameKind::kStorage, ScalarType::Short},
    KnownName{"torch", "CharStorage", NameKind::kStorage, ScalarType::Char},
    KnownName{"torch", "ByteStorage", NameKind::kStorage, ScalarType::Byte},
    KnownName{"torch", "BoolStorage", NameKind::kStorage, ScalarType::Bool},
};

const KnownName* known_name(std::string_view module, std::string_view name) {
  for (const KnownName& known : kKnownNames) {
    if (known.module == module && known.name == name) return &known;
  }
  throw core::FileError(
      "it holds '" + printable(module) + "." + printable(name) +
      "', which a weights file does not need; nothing in it was executed. Save only the weights: "
      "torch.save(model.state_dict(), path)");
}

// Python's pickle opcodes, as far as torch.save uses them (names as in pickletools).
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kBinint = 'J',
  kBinint1 = 'K',
  kBinint2 = 'M',
  kBinfloat = 'G',
  kBinstring = 'T',
  kShortBinstring = 'U',
  kBinunicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyTuple = ')',
  kTuple = 't',
  kEmptyDict = '}',
  kSetitem = 's',
  kSetitems = 'u',
  kBinput = 'q',
  kLongBinput = 'r',
  kBinget = 'h',
  kLongBinget = 'j',
  kGlobal = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kBinpersid = 'Q',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewtrue = 0x88,
  kNewfalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinunicode = 0x8c,
  kBinunicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr std::size_t kMaxDimensions = 64;

PickleValue integer(std::string_view bytes) {
  const bool negative = !bytes.empty() && (static_cast<std::uint8_t>(bytes.back()) & 0x80) != 0;
  if (bytes.size() > sizeof(std::int64_t)) return WideInteger{bytes};
  std::int64_t value = negative ? -1 : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

double big_endian_double(std::string_view bytes) {
  std::uint64_t bits = 0;
  for (const char c : bytes) bits = bits << 8U | static_cast<std::uint8_t>(c);
  return std::bit_cast<double>(bits);
}

}  // namespace

// The stack machine that runs a pickle.
class Pickles::Machine {
 public:
  Machine(Pickles& pickles, ByteReader& in) : pickles_(pickles), in_(in) {}

  PickleValue run() {
    for (;;) {
      const auto opcode = in_.number<std::uint8_t>();
      if (opcode == kStop) return pop();
      execute(opcode);
    }
  }

 private:
  void execute(std::uint8_t opcode) {
    switch (opcode) {
      case kProto:
        check_protocol(in_.number<std::uint8_t>());
        break;
      case kFrame:
        in_.take(8);
        break;  // a hint for buffering

      case kNone:
        push(None{});
        break;
      case kNewtrue:
        push(true);
        break;
      case kNewfalse:
        push(false);
        break;
      case kBinint:
        push(std::int64_t{in_.number<std::int32_t>()});
        break;
      case kBinint1:
        push(std::int64_t{in_.number<std::uint8_t>()});
        break;
      case kBinint2:
        push(std::int64_t{in_.number<std::uint16_t>()});
        break;
      case kLong1:
        push(integer(in_.take(in_.number<std::uint8_t>())));
        break;
      case kLong4:
        push(integer(in_.take(in_.number<std::uint32_t>())));
        break;
      case kBinfloat:
        push(big_endian_double(in_.take(8)));
        break;
      case kShortBinstring:
      case kShortBinunicode:
        push(in_.take(in_.number<std::uint8_t>()));
        break;
      case kBinstring:
      case kBinunicode:
        push(in_.take(in_.number<std::uint32_t>()));
        break;
      case kBinunicode8:
        push(in_.take(in_.number<std::uint64_t>()));
        break;

      case kMark:
        count_one();
        marks_.push_back(stack_.size());
        break;
      case kEmptyList:
      case kEmptyTuple:
        push_sequence({});
        break;
      case kTuple:
        push_sequence(pop_to_mark());
        break;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        push_sequence(pop_last(opcode - kTuple1 + std::size_t{1}));
        break;
      case kAppend:
        append(pop_last(1));
        break;
      case kAppends:
        append(pop_to_mark());
        break;
      case kEmptyDict:
        push(&pickles_.mappings_.emplace_back());
        break;
      case kSetitem:
        set_items(pop_last(2));
        break;
      case kSetitems:
        set_items(pop_to_mark());
        break;

      case kBinput:
        store(in_.number<std::uint8_t>());
        break;
      case kLongBinput:
        store(in_.number<std::uint32_t>());
        break;
      case kMemoize:
        store(static_cast<std::uint32_t>(memo_.size()));
        break;
      case kBinget:
        recall(in_.number<std::uint8_t>());
        break;
      case kLongBinget:
        recall(in_.number<std::uint32_t>());
        break;

      case kGlobal: {
        const std::string_view module = in_.line();
        push(known_name(module, in_.line()));
        break;
      }
      case kStackGlobal: {
        const auto parts = pop_last(2);
        push(known_name(expect_type<std::string_view>(parts[0], "a module's name"),
                        expect_type<std::string_view>(parts[1], "a class name")));
        break;
      }
      case kReduce: {
        const auto parts = pop_last(2);
        push(call(*expect_type<const KnownName*>(parts[0], "a name to call"),
                  expect_type<Sequence*>(parts[1], "arguments")->items));
        break;
      }
      case kBuild:
        pop();
        break;  // attributes of an OrderedDict, that is state_dict's _metadata
      case kBinpersid:
        push(storage(expect_type<Sequence*>(pop(), "a storage's description")->items));
        break;
      default:
        throw damaged("pickle opcode " + std::to_string(opcode) + " at byte " +
                      std::to_string(in_.position() - 1) + " is not one that torch.save uses");
    }
  }

  static void check_protocol(int protocol) {
    if (protocol < 2 || protocol > 5)
      throw damaged("pickle protocol " + std::to_string(protocol) + ", not 2 to 5");
  }

  // One byte of the file can describe a structure of many bytes: without a limit a small file could use up the
  // memory.
  void count_one() {
    if (++pickles_.values_ > kMaxValues) {
      throw core::FileError("it holds more than " + std::to_string(kMaxValues) +
                            " values: no weights file does");
    }
  }
  void push(PickleValue value) {
    count_one();
    stack_.push_back(value);
  }
  void push_sequence(std::vector<PickleValue> items) {
    push(&pickles_.sequences_.emplace_back(Sequence{std::move(items)}));
  }

  PickleValue& top() {
    if (stack_.empty()) throw damaged("pickle stack underflow");
    return stack_.back();
  }
  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> pop_from(std::size_t first) {
    std::vector<PickleValue> items(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    return items;
  }
  std::vector<PickleValue> pop_last(std::size_t n) {
    if (stack_.size() < n) throw damaged("pickle stack underflow");
    return pop_from(stack_.size() - n);
  }
  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) throw damaged("pickle without the expected mark");
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return pop_from(mark);
  }
  void append(const std::vector<PickleValue>& items) {
    auto& list = expect_type<Sequence*>(top(), "a list")->items;
    list.insert(list.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<PickleValue>& items) {
    auto& mapping = expect_type<Mapping*>(top(), "a dict")->items;
    if (items.size() % 2 != 0) throw damaged("a key without a value");
    for (std::size_t i = 0; i < items.size(); i += 2) mapping.emplace_back(items[i], items[i + 1]);
  }
  void store(std::uint32_t index) {
    count_one();
    memo_[index] = top();
  }
  void recall(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) throw damaged("pickle refers to a value it never stored");
    push(found->second);
  }

  static const PickleValue& argument(const std::vector<PickleValue>& arguments, std::size_t i) {
    if (i >= arguments.size()) throw damaged("too few arguments");
    return arguments[i];
  }
  std::vector<std::int64_t> integers(const PickleValue& value) {
    const auto& items = expect_type<Sequence*>(value, "a shape")->items;
    if (items.size() > kMaxDimensions)
      throw damaged("a tensor of " + std::to_string(items.size()) + " dimensions");
    std::vector<std::int64_t> numbers;
    for (const PickleValue& item : items) {
      count_one();  // many tensors may share one written shape
      numbers.push_back(expect_type<std::int64_t>(item, "a shape's number"));
    }
    return numbers;
  }

  // ('storage', type, key, location, numel[, view])
  const StorageRef* storage(const std::vector<PickleValue>& id) {
    const auto kind = expect_type<std::string_view>(argument(id, 0), "a storage's description");
    if (kind != "storage") throw damaged("a persistent object that is not a storage");
    const KnownName& type = *expect_type<const KnownName*>(argument(id, 1), "a storage's type");
    if (type.kind != NameKind::kStorage) throw damaged("a storage's type expected");
    const auto key = expect_type<std::string_view>(argument(id, 2), "a storage's key");
    const auto numel = expect_type<std::int64_t>(argument(id, 4), "a storage's size");
    if (numel < 0) throw damaged("a storage of negative size");
    if (id.size() > 5 && !std::holds_alternative<None>(id[5])) {
      throw core::FileError(
          "it was written by a PyTorch before 0.4, with views of storages: load it in Python and save it "
          "again");
    }
    return &pickles_.storages_.emplace_back(StorageRef{key, type.type, numel});
  }

  PickleValue call(const KnownName& function, const std::vector<PickleValue>& arguments) {
    switch (function.kind) {
      case NameKind::kOrderedDict:
        return ordered_dict(arguments);
      // (storage, offset, size, stride, ...)
      case NameKind::kTensor:
        return &pickles_.plans_.emplace_back(
            TensorPlan{expect_type<const StorageRef*>(argument(arguments, 0), "a storage"),
                       expect_type<std::int64_t>(argument(arguments, 1), "an offset"),
                       integers(argument(arguments, 2)), integers(argument(arguments, 3))});
      case NameKind::kParameter:
        return expect_type<const TensorPlan*>(argument(arguments, 0), "a tensor");
      case NameKind::kStorage:
        break;
    }
    throw damaged("a storage's type is called");
  }

  // (), or ([[key, value], ...],) as Python 2 wrote it
  PickleValue ordered_dict(const std::vector<PickleValue>& arguments) {
    Mapping& mapping = pickles_.mappings_.emplace_back();
    if (!arguments.empty()) {
      for (const PickleValue& pair : expect_type<Sequence*>(arguments[0], "a list of pairs")->items) {
        const auto& items = expect_type<Sequence*>(pair, "a pair")->items;
        mapping.items.emplace_back(argument(items, 0), argument(items, 1));
        count_one();
      }
    }
    return &mapping;
  }

  Pickles& pickles_;
  ByteReader& in_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleValue> memo_;
};

PickleValue Pickles::read(ByteReader& in) { return Machine(*this, in).run(); }

}  // namespace snake_ddp::io
