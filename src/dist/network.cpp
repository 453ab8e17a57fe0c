#include "network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::dist {
namespace {

using core::Deadline;
using core::DistError;
using namespace std::chrono_literals;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& numeric, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  SocketAddress address;
  if (::getaddrinfo(numeric.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

std::string numeric_text(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  if (::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

// 0 if something accepts the connection in time, else the error number.
int try_connect(const std::string& address, std::uint16_t port, std::chrono::milliseconds limit) {
  SocketAddress target = socket_address(address, port);
  const core::Descriptor s(::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!s.open()) return errno;
  if (::connect(s.get(), target.get(), target.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{s.get(), POLLOUT, 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(limit.count()));
  if (ready <= 0) return ready == 0 ? ETIMEDOUT : errno;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace

std::vector<std::string> resolve(const std::string& host, Deadline deadline) {
  const bool names_come_late = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  const Deadline patience =
      Deadline::in(std::min<std::chrono::milliseconds>(deadline.left(), names_come_late ? 60s : 3s));
  for (;;) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    if (code == 0) {
      std::vector<std::string> addresses;
      for (const addrinfo* a = found; a != nullptr; a = a->ai_next)
        addresses.push_back(numeric_text(a->ai_addr, a->ai_addrlen));
      return addresses;
    }
    if (patience.passed())
      throw DistError(
          fmt::format("MASTER_ADDR '{}' does not resolve on this machine: {}", host, ::gai_strerror(code)));
    std::this_thread::sleep_for(250ms);
  }
}

std::string wait_for_listener(const std::vector<std::string>& addresses, std::uint16_t port,
                              Deadline deadline, const std::function<void()>& while_waiting) {
  for (;; while_waiting()) {
    int error = 0;
    for (const std::string& address : addresses) {
      error = try_connect(address, port, std::clamp<std::chrono::milliseconds>(deadline.left(), 1ms, 2s));
      if (error == 0) return address;
    }
    if (deadline.passed()) throw DistError(std::strerror(error));
    std::this_thread::sleep_for(50ms);
  }
}

bool is_loopback(const std::string& address) { return address == "::1" || address.rfind("127.", 0) == 0; }

std::string local_address_towards(const std::string& peer) {
  SocketAddress target = socket_address(peer, 9);  // a datagram socket's connect sends nothing
  const core::Descriptor s(::socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!s.open() || ::connect(s.get(), target.get(), target.length) != 0) return {};
  SocketAddress own;
  own.length = sizeof own.storage;
  if (::getsockname(s.get(), own.get(), &own.length) != 0) return {};
  return numeric_text(own.get(), own.length);
}

std::string first_outer_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    if (i->ifa_addr->sa_family == AF_INET) return numeric_text(i->ifa_addr, sizeof(sockaddr_in));
  }
  return {};
}

bool is_own(const std::string& address) {
  SocketAddress wanted = socket_address(address, 0);
  const core::Descriptor s(::socket(wanted.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return s.open() && ::bind(s.get(), wanted.get(), wanted.length) == 0;
}

int listen_at(const std::string& address, std::uint16_t& port) {
  SocketAddress own = socket_address(address, port);
  core::Descriptor s(::socket(own.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(s.get(), own.get(), own.length) != 0 || ::listen(s.get(), 4096) != 0) {
    if (errno == EADDRINUSE) throw DistError(port_taken_message(port));
    throw DistError(fmt::format("cannot listen at {}, port {}: {}", address, port, std::strerror(errno)));
  }
  ::getsockname(s.get(), own.get(), &own.length);
  // Addresses of both families have the port at the same offset.
  port = ntohs(reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
  return s.release();
}

std::string port_taken_message(std::uint16_t port) {
  return fmt::format(
      "port {0} is taken on this machine: another job's rank 0, or a second process started with RANK=0. "
      "Take another "
      "port (MASTER_PORT=), or let one be found: torchrun --standalone and ./train_ddp.sh do",
      port);
}

}  // namespace snake_ddp::dist
