#include "src/online/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/strings.h"
#include "src/online/secret.h"

namespace msprobe::online {
namespace {

namespace fs = std::filesystem;

Status CheckTlsFolder(const fs::path& folder, Side side) {
  const std::string_view role = side == Side::kTraining ? "client" : "server";
  for (const std::string& name :
       {fmt::format("{}.key", role), fmt::format("{}.crt", role), std::string("ca.crt")}) {
    const fs::path path = folder / name;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored) || ::access(path.c_str(), R_OK) != 0) {
      return UsageError(fmt::format("tls_path: {} holds no {} that can be read",
                                    base::Printable(folder.string()), name))
          .WithHint(fmt::format("it holds {0}.key, {0}.crt and ca.crt; tls_path \"\" with "
                                "\"plaintext\": true connects without TLS on this host",
                                role));
    }
  }
  return {};
}

// The origin of calls in a world-writable folder is unknown.
Status CheckFolder(const Endpoint& endpoint) {
  const std::string name = base::Printable(endpoint.folder.string());
  struct stat found {};
  if (::stat(endpoint.folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return UsageError(fmt::format("nfs_path: {} is not a folder", name));
  }
  if (::access(endpoint.folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return UsageError(fmt::format("nfs_path: {} cannot be read and written", name));
  }
  if (endpoint.secret == nullptr && (found.st_mode & S_IWOTH) != 0) {
    return UsageError(fmt::format("nfs_path: everybody may write to {} (mode {:04o})", name,
                                  found.st_mode & 07777U))
        .WithHint(
            fmt::format("chmod o-w {}, or give both sides a shared secret (secret_path, or the "
                        "variable {})",
                        name, Secret::kVariable));
  }
  return {};
}

}  // namespace

std::string Endpoint::text() const {
  if (is_folder()) {
    return fmt::format("folder {}", folder.string());
  }
  return fmt::format("{}:{} ({}{})", host, port, tls_folder.empty() ? "not encrypted" : "TLS",
                     secret == nullptr ? "" : ", shared secret");
}

Status CheckEndpoint(Endpoint& endpoint, Side side) {
  if (endpoint.is_folder()) {
    MSP_ASSIGN_OR_RETURN(endpoint.secret, Secret::Read(endpoint.secret_file));
    return CheckFolder(endpoint);
  }
  in_addr address{};
  if (::inet_pton(AF_INET, endpoint.host.c_str(), &address) != 1) {
    return UsageError(fmt::format("host: \"{}\" is not an IPv4 address such as 10.0.0.2",
                                  base::Printable(endpoint.host)))
        .WithHint("or name a shared folder with nfs_path");
  }
  if (endpoint.port < 1 || endpoint.port > 65535) {
    return UsageError(fmt::format("port: {}; allowed: 1 to 65535", endpoint.port));
  }
  MSP_ASSIGN_OR_RETURN(endpoint.secret, Secret::Read(endpoint.secret_file));
  if (!endpoint.tls_folder.empty()) {
    return CheckTlsFolder(endpoint.tls_folder, side);
  }
  if (!endpoint.plaintext) {
    return UsageError("tls_path: \"\" sends calls and their tensors unencrypted")
        .WithHint(
            "name the folder of keys and certificates with tls_path, or allow it with "
            "\"plaintext\": true: on a loopback address as 127.0.0.1, or with a shared secret");
  }
  constexpr uint32_t kLoopbackNetwork = 127;
  if (endpoint.secret == nullptr && ntohl(address.s_addr) >> 24U != kLoopbackNetwork) {
    return UsageError(fmt::format("plaintext: {} can be reached from other hosts, and without TLS "
                                  "anybody there could send calls, or take them",
                                  endpoint.host))
        .WithHint(
            fmt::format("name the folder of keys and certificates with tls_path, or give both "
                        "sides a shared secret (secret_path, or the variable {})",
                        Secret::kVariable));
  }
  return {};
}

}  // namespace msprobe::online
