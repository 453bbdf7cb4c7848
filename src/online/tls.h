// TLS 1.3 with certificates on both sides, by the host's OpenSSL, which is opened when it is
// needed: a training process that has an OpenSSL of its own keeps it, and what the host's
// distribution repairs in the library holds for us too.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "msprobe/status.h"

#include "src/online/endpoint.h"

namespace msprobe::online {

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

}  // namespace msprobe::online
