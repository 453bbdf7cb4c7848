// Where calls go: the keys that the configurations of both sides have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::online {

struct Endpoint {
  std::filesystem::path folder;  // nfs_path; empty: a connection
  std::string host;              // IPv4 address
  int64_t port = -1;
  std::filesystem::path tls_folder;  // tls_path; empty: neither encrypted nor authenticated

  bool is_folder() const { return !folder.empty(); }
  std::string text() const;  // "10.0.0.2:31000 (TLS)", "folder /mnt/calls"
};

enum class Side : uint8_t { kTraining, kChecker };

// Whether it can be used, as far as that is known beforehand: folders exist and hold what they must
// (client.key, client.crt, ca.crt; of a checker server.key and server.crt), the address is one. The
// message begins with the key that it is about.
Status CheckEndpoint(const Endpoint& endpoint, Side side);

}  // namespace msprobe::online
