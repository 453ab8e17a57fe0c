// Work on a device, recorded once and replayed.
#pragma once

namespace snake_ddp::nets {

/// One recording. Destroyed between `begin` and `end`, it is abandoned: the device works normally again.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// What is queued between the two calls is recorded, not executed.
  virtual void begin() = 0;
  virtual void end() = 0;
  virtual void replay() = 0;
};

}  // namespace snake_ddp::nets
