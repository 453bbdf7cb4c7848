#include "src/online/endpoint.h"

#include <array>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include "src/base/strings.h"

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
          .WithHint(fmt::format("it holds {0}.key, {0}.crt and ca.crt; \"\" connects without TLS, "
                                "which only a network that nobody else can reach allows",
                                role));
    }
  }
  return {};
}

}  // namespace

std::string Endpoint::text() const {
  if (is_folder()) {
    return fmt::format("folder {}", folder.string());
  }
  return fmt::format("{}:{} ({})", host, port, tls_folder.empty() ? "not encrypted" : "TLS");
}

Status CheckEndpoint(const Endpoint& endpoint, Side side) {
  if (endpoint.is_folder()) {
    std::error_code ignored;
    if (!fs::is_directory(endpoint.folder, ignored)) {
      return UsageError(
          fmt::format("nfs_path: {} is no folder", base::Printable(endpoint.folder.string())));
    }
    if (::access(endpoint.folder.c_str(), R_OK | W_OK | X_OK) != 0) {
      return UsageError(fmt::format("nfs_path: {} cannot be read and written",
                                    base::Printable(endpoint.folder.string())));
    }
    return {};
  }
  std::array<unsigned char, sizeof(in_addr)> address{};
  if (::inet_pton(AF_INET, endpoint.host.c_str(), address.data()) != 1) {
    return UsageError(fmt::format("host: \"{}\" is no IPv4 address such as 10.0.0.2",
                                  base::Printable(endpoint.host)))
        .WithHint("or name a shared folder with nfs_path");
  }
  if (endpoint.port < 1 || endpoint.port > 65535) {
    return UsageError(fmt::format("port: {}; allowed: 1 to 65535", endpoint.port));
  }
  return endpoint.tls_folder.empty() ? OkStatus() : CheckTlsFolder(endpoint.tls_folder, side);
}

}  // namespace msprobe::online
