// Names, addresses and ports, checked before the library uses them: its waits are long and its errors short.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::dist {

/// Numeric addresses of `host`, in the resolver's order. A name that is not known yet is looked up again for a few
/// seconds, within Kubernetes for a minute: a pod can start before its master's name exists.
/// Throws  DistError with the resolver's text.
std::vector<std::string> resolve(const std::string& host, core::Deadline deadline);

/// The first of `addresses` where something accepts connections at `port`.
/// Waits   until there is one; throws DistError at the deadline, with the last error.
std::string wait_for_listener(const std::vector<std::string>& addresses, std::uint16_t port,
                              core::Deadline deadline, const std::function<void()>& while_waiting);

[[nodiscard]] bool is_loopback(const std::string& address);

/// The address from which this machine reaches `peer`; empty if it has no route.
std::string local_address_towards(const std::string& peer);

/// The address of this machine's first interface that is up and not loopback; empty if it has none.
std::string first_outer_address();

/// Whether `address` is one of this machine's.
[[nodiscard]] bool is_own(const std::string& address);

/// A socket that listens at an address of this machine; `port` 0 takes a free one, and `port` is set to it.
/// Throws  DistError if the port is taken.
int listen_at(const std::string& address, std::uint16_t& port);

/// Advice for a port that is taken.
std::string port_taken_message(std::uint16_t port);

}  // namespace snake_ddp::dist
