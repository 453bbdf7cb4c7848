#include "src/online/secret.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/strings.h"

namespace msprobe::online {
namespace {

// The end of a line that an editor or `openssl rand -hex 32` put behind it.
std::string WithoutLineEnd(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  return text;
}

Result<std::shared_ptr<const Secret>> Checked(std::string text, std::string_view where) {
  text = WithoutLineEnd(std::move(text));
  if (text.size() < Secret::kLeastBytes || text.size() > Secret::kMostBytes) {
    return UsageError(fmt::format("{}: the shared secret has {} bytes; allowed: {} to {}", where,
                                  text.size(), Secret::kLeastBytes, Secret::kMostBytes))
        .WithHint("openssl rand -hex 32 makes one");
  }
  return std::make_shared<const Secret>(std::move(text));
}

template <typename Number>
void AddNumber(Number value, kernels::HmacSha256& mac) {
  std::array<std::byte, sizeof(value)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(value));
  mac.Add(bytes);
}

}  // namespace

Result<std::shared_ptr<const Secret>> Secret::Read(const std::filesystem::path& file) {
  if (file.empty()) {
    const char* const text = std::getenv(kVariable);
    return text == nullptr || *text == '\0' ? Result<std::shared_ptr<const Secret>>(nullptr)
                                            : Checked(text, kVariable);
  }
  const std::string name = base::Printable(file.string());
  const Result<base::InputFile> opened = base::InputFile::Open(file);
  if (!opened.ok()) {
    return UsageError(fmt::format("secret_path: {}", base::Printable(opened.status().message())));
  }
  const struct stat& about = opened->about();
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return UsageError(fmt::format("secret_path: others may read or change {} (mode {:04o})", name,
                                  about.st_mode & 07777U))
        .WithHint(
            fmt::format("chmod 600 {}, and make a new secret if somebody may have seen it", name));
  }
  if (about.st_uid != ::geteuid() && about.st_uid != 0) {
    return UsageError(fmt::format("secret_path: {} belongs to another user", name));
  }
  MSP_ASSIGN_OR_RETURN(std::string text, opened->Head(kMostBytes + 3));
  return Checked(std::move(text), fmt::format("secret_path: {}", name));
}

Seal Seal::OfFiles(const Secret& secret) {
  kernels::HmacSha256 mac = secret.Mac();
  mac.Add("msprobe online 1 files");
  return Seal(mac.Finish());
}

kernels::HmacSha256 Seal::Next() {
  kernels::HmacSha256 mac(key_);
  AddNumber(frames_++, mac);
  return mac;
}

kernels::Sha256Digest Seal::Of(const Frame& frame) {
  kernels::HmacSha256 mac = Next();
  mac.Add(frame.head);
  for (const std::span<const std::byte> part : frame.data) {
    mac.Add(part);
  }
  return mac.Finish();
}

Result<kernels::Sha256Digest> Handshake::NewNonce() {
  kernels::Sha256Digest nonce;
  // getrandom() itself came with glibc 2.25, the packages promise 2.17.
  if (::syscall(SYS_getrandom, nonce.data(), nonce.size(), 0) !=
      static_cast<ssize_t>(nonce.size())) {
    return IoError(fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
  }
  return nonce;
}

kernels::Sha256Digest Handshake::Derive(std::string_view what, Side side) const {
  kernels::HmacSha256 mac = secret_.Mac();
  mac.Add("msprobe online 1 ");
  mac.Add(what);
  mac.Add(side == Side::kTraining ? " training" : " checker");
  AddNumber(session_, mac);
  mac.Add(training_);
  mac.Add(checker_);
  return mac.Finish();
}

}  // namespace msprobe::online
