// A secret that both sides of an online check know. It is never sent: each side proves with
// HMAC-SHA256 over random bytes of both that it has it, and every frame behind that carries one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "msprobe/status.h"

#include "src/kernels/sha256.h"
#include "src/online/endpoint.h"
#include "src/online/frame.h"

namespace msprobe::online {

class Secret {
 public:
  static constexpr size_t kLeastBytes = 16;
  static constexpr size_t kMostBytes = 4096;
  static constexpr const char* kVariable = "MSPROBE_ONLINE_SECRET";

  explicit Secret(std::string bytes) : bytes_(std::move(bytes)) {}

  // Reads a file that only its owner (this user or root) may read, or, with "", the variable. Null:
  // there is no secret.
  static Result<std::shared_ptr<const Secret>> Read(const std::filesystem::path& file);

  kernels::HmacSha256 Mac() const { return kernels::HmacSha256(std::as_bytes(std::span(bytes_))); }

 private:
  std::string bytes_;
};

// Puts a proof behind each frame of one direction of one connection, or behind a file.
class Seal {
 public:
  explicit Seal(const kernels::Sha256Digest& key) : key_(key) {}
  static Seal OfFiles(const Secret& secret);

  // The code of the next frame, whose bytes the caller adds. It covers the frame's number, so that
  // a recorded frame is refused when it is sent again.
  kernels::HmacSha256 Next();
  kernels::Sha256Digest Of(const Frame& frame);
  // A file's place is in its frame; it has no number among others.
  kernels::HmacSha256 OfFile() const { return kernels::HmacSha256(key_); }

 private:
  kernels::Sha256Digest key_;
  uint64_t frames_ = 0;
};

// The keys that both sides derive once they have each other's random bytes.
class Handshake {
 public:
  Handshake(const Secret& secret, uint64_t session, const kernels::Sha256Digest& of_training,
            const kernels::Sha256Digest& of_checker)
      : secret_(secret), session_(session), training_(of_training), checker_(of_checker) {}

  static Result<kernels::Sha256Digest> NewNonce();
  kernels::Sha256Digest ProofOf(Side side) const { return Derive("proof", side); }
  Seal SealOf(Side side) const { return Seal(Derive("frames", side)); }

 private:
  kernels::Sha256Digest Derive(std::string_view what, Side side) const;

  const Secret& secret_;
  const uint64_t session_;
  const kernels::Sha256Digest training_;
  const kernels::Sha256Digest checker_;
};

}  // namespace msprobe::online
