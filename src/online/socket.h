// TCP connections, with or without TLS, that never block longer than they are asked to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "msprobe/status.h"

#include "src/online/tls.h"

namespace msprobe::online {

// Waits until the socket can be read or written (POLLIN, POLLOUT); false: not by then.
Result<bool> WaitForSocket(int socket, short events, Deadline deadline);

// A socket that is closed with the object.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// A connection. Not thread-safe.
class Wire {
 public:
  // `tls` null: neither encrypted nor authenticated.
  static Result<Wire> Connect(const std::string& host, int64_t port, const TlsContext* tls,
                              Deadline deadline);
  static Result<Wire> Accept(Socket socket, const TlsContext* tls, Deadline deadline);

  // As those of TlsStream.
  Result<size_t> Read(std::span<std::byte> bytes, Deadline deadline);
  Result<size_t> Write(std::span<const std::byte> bytes, Deadline deadline);

  // All of them, or an error.
  Status ReadAll(std::span<std::byte> bytes, Deadline deadline);
  Status WriteAll(std::span<const std::byte> bytes, Deadline deadline);

  int descriptor() const { return socket_.descriptor(); }

 private:
  explicit Wire(Socket socket) : socket_(std::move(socket)) {}

  Socket socket_;
  std::optional<TlsStream> tls_;  // ends before the socket does
};

// A socket that others connect to. `port` 0: any free one.
struct Listener {
  Socket socket;
  uint16_t port = 0;
};
Result<Listener> Listen(const std::string& host, int64_t port);
// A connection that waits; without a descriptor: none came by then.
Result<Socket> AcceptOne(const Listener& listener, Deadline deadline);

}  // namespace msprobe::online
