// Recordings for machines without a GPU, with the same pitfalls as CUDA graphs: `Tape` replays the calls that it saw,
// with the numbers from that time; `Spy` watches the memory that a recording has addresses of.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../witness.hpp"
#include "snake_ddp/core/each.hpp"
#include "train/graph_capture.hpp"

#ifdef SD_HAVE_WITNESS
namespace snake_ddp {

/// The calls of operators and functors that ran while it was recording; replayed with the same arguments, into the
/// same memory. Recording also executes the work, so the first replay after it does not.
class Tape final : public train::DeviceGraph, private Witness {
 public:
  void begin() override {
    core::host_loop = [this](std::int64_t count, const std::function<void(std::int64_t)>& work) {
      const auto all = [count, work] {
        for (std::int64_t i = 0; i < count; ++i) work(i);
      };
      if (std::exchange(inside_, true)) return all();  // a part of other work
      all();
      inside_ = false;
      steps_.emplace_back(all);
    };
    watch();
  }
  void end() override {
    rest();
    core::host_loop = {};
    fresh_ = true;
  }
  void replay() override {
    if (std::exchange(fresh_, false)) return;
    const c10::NoGradGuard no_grad;
    for (const auto& step : steps_) step();
  }

 private:
  void before(const at::RecordFunction& call, int depth) override {
    if (depth == 0) inputs_.assign(call.inputs().begin(), call.inputs().end());
  }
  void after(const at::RecordFunction& call, int depth) override {
    if (depth > 0) return;
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        call.operator_name()->name.c_str(), call.operator_name()->overload_name.c_str());
    steps_.emplace_back([op, inputs = inputs_, outputs = call.outputs()] {
      std::vector<c10::IValue> stack = inputs;
      op.callBoxed(&stack);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (!outputs[k].isTensor() || !outputs[k].toTensor().defined()) continue;
        at::Tensor recorded = outputs[k].toTensor();
        if (stack[k].toTensor().data_ptr() != recorded.data_ptr()) recorded.copy_(stack[k].toTensor());
      }
    });
  }

  std::vector<std::function<void()>> steps_;
  std::vector<c10::IValue> inputs_;
  bool fresh_ = false, inside_ = false;
};

/// Main memory's allocator while a Spy exists: knows which blocks there are.
class SpiedMemory final : public c10::Allocator {
 public:
  static SpiedMemory& instance() {
    static SpiedMemory memory;
    return memory;
  }

  // The context is the block itself: raw_allocate, which products call on processors with bf16 arithmetic, needs that.
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr block = plain_->allocate(bytes);
    void* const at = block.get();
    if (at == nullptr) return block;
    const std::lock_guard guard(mutex_);
    blocks_[at] = {++allocated_, bytes, std::move(block)};
    return {at, at, &SpiedMemory::free, c10::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &SpiedMemory::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// Blocks allocated so far.
  std::int64_t allocated() {
    const std::lock_guard guard(mutex_);
    return allocated_;
  }
  /// Is it one of the first `number` blocks?
  bool is_old(const void* block, std::int64_t number) {
    const std::lock_guard guard(mutex_);
    const auto found = blocks_.find(block);
    return found != blocks_.end() && found->second.number <= number;
  }

  std::function<void(const void* block, std::size_t bytes)> on_free;  // called with each block

 private:
  struct Block {
    std::int64_t number = 0;
    std::size_t bytes = 0;
    c10::DataPtr memory = {};
  };

  static void free(void* context) {
    SpiedMemory& self = instance();
    const std::lock_guard guard(self.mutex_);
    const auto found = self.blocks_.find(context);
    if (self.on_free) self.on_free(context, found->second.bytes);
    self.blocks_.erase(found);
  }

  c10::Allocator* plain_ = c10::GetDefaultCPUAllocator();
  std::mutex mutex_;
  std::map<const void*, Block> blocks_;
  std::int64_t allocated_ = 0;
};

/// Fails for a recording that reads a number on the host, or whose memory is freed: memory that existed when it began
/// and that an operator in it used. Such memory is reused, while the replays continue to read and write it.
class Spy final : public train::DeviceGraph, private Witness {
 public:
  explicit Spy(std::vector<std::string>& faults) : faults_(faults) {}
  ~Spy() override { spies().erase(this); }

  void begin() override {
    began_at_ = SpiedMemory::instance().allocated();
    spies().insert(this);
    SpiedMemory::instance().on_free = [](const void* block, std::size_t bytes) {
      for (Spy* spy : spies()) spy->sees_freed(block, bytes);
    };
    watch();
  }
  void end() override {
    rest();
    ended_ = true;
  }
  void replay() override {}

 private:
  static std::set<Spy*>& spies() {
    static std::set<Spy*> all;
    return all;
  }

  void before(const at::RecordFunction& call, int /*depth*/) override {
    const std::string name = call.name();
    // The CPU's fused Adam reads its own tensor with the learning rate; a GPU's kernel reads it there.
    if (name == "aten::_fused_adam_") in_adam_ = true;
    if ((name == "aten::item" || name == "aten::_local_scalar_dense") && !in_adam_)
      faults_.push_back(fmt::format("{} reads a number on the host", name));
    for (const c10::IValue& input : call.inputs()) note(input, name);
  }
  void after(const at::RecordFunction& call, int /*depth*/) override {
    if (std::string(call.name()) == "aten::_fused_adam_") in_adam_ = false;
  }

  void note(const c10::IValue& value, const std::string& by) {
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) note(t, by);
    } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
      const void* block = value.toTensor().storage().data();
      if (SpiedMemory::instance().is_old(block, began_at_)) used_.emplace(block, by);
    }
  }

  void sees_freed(const void* block, std::size_t bytes) {
    const auto found = used_.find(block);
    if (found == used_.end()) return;
    faults_.push_back(
        fmt::format("{} bytes that {} used are freed {}", bytes, found->second,
                    ended_ ? "while the recording may be replayed" : "before the recording ends"));
    used_.erase(found);
  }

  std::vector<std::string>& faults_;
  std::int64_t began_at_ = 0;
  std::map<const void*, std::string> used_;  // old blocks, and the first operator that used each
  bool ended_ = false, in_adam_ = false;
};

}  // namespace snake_ddp
#endif
