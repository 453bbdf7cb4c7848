// TCP connections, with or without TLS, that never block longer than they are asked to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "msprobe/status.h"

#include "src/online/endpoint.h"

namespace msprobe::online {

// TLS 1.3 with certificates on both sides, by the host's OpenSSL, which is opened when it is
// needed: a training process that has an OpenSSL of its own keeps it, and what the host's
// distribution repairs in the library holds for us too.

using Deadline = std::chrono::steady_clock::time_point;

// Bytes in both directions over a socket that does not block. Not thread-safe.
class TlsStream {
 public:
  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) = delete;
  ~TlsStream();  // the socket stays open

  // Up to bytes.size() of them; 0: none came, or could be sent, by then. An error: the connection
  // is over.
  Result<size_t> Read(std::span<std::byte> bytes, Deadline deadline);
  Result<size_t> Write(std::span<const std::byte> bytes, Deadline deadline);

 private:
  friend class TlsContext;
  struct State;
  explicit TlsStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Key, certificate and trust of one side. Thread-safe once made.
class TlsContext {
 public:
  // Reads the files of CheckEndpoint, and crl.pem where it is there: certificates that it revokes
  // are refused. A key with a password needs it in MSPROBE_TLS_PASSWORD.
  static Result<TlsContext> Create(const std::filesystem::path& folder, Side side);
  TlsContext(TlsContext&&) noexcept;
  TlsContext& operator=(TlsContext&&) = delete;
  ~TlsContext();

  // Shakes hands over a connected socket. The error says what was wrong with which side's
  // certificate.
  Result<TlsStream> Begin(int socket, Deadline deadline) const;

 private:
  struct State;
  explicit TlsContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

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
