#include "src/online/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace msprobe::online {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 128;
// A host that is gone without a word is noticed after some four minutes.
constexpr int kKeepAliveIdleSeconds = 120;
constexpr int kKeepAliveIntervalSeconds = 30;
constexpr int kKeepAliveProbes = 4;

Status SocketError(std::string_view what, int number) {
  return IoError(fmt::format("{}: {}", what, std::strerror(number)));
}

sockaddr_in AddressOf(const std::string& host, int64_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

void SetOption(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof(value));
}

void TuneConnection(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

}  // namespace

Result<bool> WaitForSocket(int socket, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{socket, events, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left + (left > 0), 0, 60'000)));
    if (ready > 0) {
      return true;  // also of an error, which the next call tells
    }
    if (ready < 0 && errno != EINTR) {
      return SocketError("waiting for a connection", errno);
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<Wire> Wire::Connect(const std::string& host, int64_t port, const TlsContext* tls,
                           Deadline deadline) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.descriptor() < 0) {
    return SocketError("no socket", errno);
  }
  const std::string what = fmt::format("{}:{}", host, port);
  const sockaddr_in address = AddressOf(host, port);
  if (::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
    if (errno != EINPROGRESS) {
      return SocketError(what, errno);
    }
    MSP_ASSIGN_OR_RETURN(const bool is_ready,
                         WaitForSocket(socket.descriptor(), POLLOUT, deadline));
    if (!is_ready) {
      return IoError(fmt::format("{}: no answer", what));
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      return SocketError(what, error);
    }
  }
  Wire wire(std::move(socket));
  TuneConnection(wire.descriptor());
  if (tls != nullptr) {
    Result<TlsStream> stream = tls->Begin(wire.descriptor(), deadline);
    if (!stream.ok()) {
      return std::move(stream).status().AddContext(what);
    }
    wire.tls_.emplace(*std::move(stream));
  }
  return wire;
}

Result<Wire> Wire::Accept(Socket socket, const TlsContext* tls, Deadline deadline) {
  Wire wire(std::move(socket));
  TuneConnection(wire.descriptor());
  if (tls != nullptr) {
    MSP_ASSIGN_OR_RETURN(TlsStream stream, tls->Begin(wire.descriptor(), deadline));
    wire.tls_.emplace(std::move(stream));
  }
  return wire;
}

Result<size_t> Wire::Read(std::span<std::byte> bytes, Deadline deadline) {
  if (tls_) {
    return tls_->Read(bytes, deadline);
  }
  for (;;) {
    const ssize_t count = ::recv(descriptor(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    if (count == 0) {
      return IoError("the other side has closed the connection");
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      return SocketError("the connection broke", errno);
    }
    MSP_ASSIGN_OR_RETURN(const bool is_ready, WaitForSocket(descriptor(), POLLIN, deadline));
    if (!is_ready) {
      return 0;
    }
  }
}

Result<size_t> Wire::Write(std::span<const std::byte> bytes, Deadline deadline) {
  if (tls_) {
    return tls_->Write(bytes, deadline);
  }
  for (;;) {
    const ssize_t count = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      return static_cast<size_t>(count);
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      return SocketError("the connection broke", errno);
    }
    MSP_ASSIGN_OR_RETURN(const bool is_ready, WaitForSocket(descriptor(), POLLOUT, deadline));
    if (!is_ready) {
      return 0;
    }
  }
}

Status Wire::ReadAll(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    MSP_ASSIGN_OR_RETURN(const size_t count, Read(bytes, deadline));
    if (count == 0) {
      return IoError("nothing came in time");
    }
    bytes = bytes.subspan(count);
  }
  return {};
}

Status Wire::WriteAll(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    MSP_ASSIGN_OR_RETURN(const size_t count, Write(bytes, deadline));
    if (count == 0) {
      return IoError("the other side takes nothing");
    }
    bytes = bytes.subspan(count);
  }
  return {};
}

Result<Listener> Listen(const std::string& host, int64_t port) {
  Listener listener;
  listener.socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int descriptor = listener.socket.descriptor();
  const std::string what = fmt::format("cannot listen on {}:{}", host, port);
  if (descriptor < 0) {
    return SocketError(what, errno);
  }
  SetOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in address = AddressOf(host, port);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(descriptor, kBacklog) != 0) {
    return SocketError(what, errno)
        .WithHint("host is an address of this computer, and port one that nobody else listens on");
  }
  socklen_t size = sizeof(address);
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  listener.port = ntohs(address.sin_port);
  return listener;
}

Result<Socket> AcceptOne(const Listener& listener, Deadline deadline) {
  MSP_ASSIGN_OR_RETURN(const bool is_ready,
                       WaitForSocket(listener.socket.descriptor(), POLLIN, deadline));
  if (!is_ready) {
    return Socket();
  }
  // Somebody may have left already: that is no error.
  return Socket(
      ::accept4(listener.socket.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace msprobe::online
