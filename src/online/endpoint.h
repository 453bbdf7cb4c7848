// Where calls go: the keys that the configurations of both sides have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::online {

class Secret;

struct Endpoint {
  std::filesystem::path folder;  // nfs_path; empty: a connection
  std::string host;              // IPv4 address
  int64_t port = -1;
  std::filesystem::path tls_folder;  // tls_path; empty: not encrypted, which `plaintext` must allow
  bool plaintext = false;
  std::filesystem::path secret_file;     // secret_path
  std::shared_ptr<const Secret> secret;  // once it has been checked; null: there is none

  bool is_folder() const { return !folder.empty(); }
  std::string text() const;  // "10.0.0.2:31000 (TLS)", "folder /mnt/calls"
};

enum class Side : uint8_t { kTraining, kChecker };

// Whether it can be used, as far as that is known beforehand: folders exist and hold what they must
// (client.key, client.crt, ca.crt; of a checker server.key and server.crt), the address is one. The
// message begins with the key that it is about. Reads the secret.
//
// Without TLS and without a secret, whoever reaches the other side can speak to it: that is refused
// but on the host itself, and in folders that everybody may write to.
Status CheckEndpoint(Endpoint& endpoint, Side side);

}  // namespace msprobe::online
