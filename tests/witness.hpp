// Which operators our code calls.
#pragma once

#include <ATen/record_function.h>

#include <memory>

namespace snake_ddp {

/// Not in debug builds: there RecordFunction has a member that it does not have in the library, which is a release build. Tests
/// with a witness are left out (SD_HAVE_WITNESS).
#ifdef NDEBUG
#define SD_HAVE_WITNESS

/// Sees each call of an operator in this thread between `watch` and `rest`.
class Witness {
 public:
  virtual ~Witness() = default;
  /// `depth` 0: called by our own code, not by another operator.
  virtual void before(const at::RecordFunction& call, int depth) = 0;
  virtual void after(const at::RecordFunction& call, int depth) = 0;

 protected:
  void watch() {
    current_ = this;
    depth_ = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& call) {
              current_->before(call, depth_++);
              return std::unique_ptr<at::ObserverContext>();
            },
            [](const at::RecordFunction& call, at::ObserverContext*) { current_->after(call, --depth_); })
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION}));
  }
  void rest() { at::removeCallback(handle_); }

 private:
  inline static Witness* current_ = nullptr;
  inline static int depth_ = 0;
  at::CallbackHandle handle_ = 0;
};

#endif

}  // namespace snake_ddp
