#include "src/online/openssl_library.h"

#include <array>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace msprobe::online {
namespace {

struct LibraryNames {
  const char* ssl;
  const char* crypto;
};
// Releases with TLS 1.3 and a stable interface. Where the process has one of them already, the
// system gives that one.
constexpr std::array<LibraryNames, 2> kLibraries = {
    {{"libssl.so.3", "libcrypto.so.3"}, {"libssl.so.1.1", "libcrypto.so.1.1"}}};

// Null where one is missing.
bool FillFunctions(void* ssl, void* crypto, OpenSsl& functions, std::string& missing) {
  const auto fill = [&](void* library, const char* name, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) {
      missing = name;
    }
  };
#define MSPROBE_FILL_SSL(name) fill(ssl, #name, functions.name);
#define MSPROBE_FILL_CRYPTO(name) fill(crypto, #name, functions.name);
  MSPROBE_SSL_FUNCTIONS(MSPROBE_FILL_SSL)
  MSPROBE_CRYPTO_FUNCTIONS(MSPROBE_FILL_CRYPTO)
#undef MSPROBE_FILL_SSL
#undef MSPROBE_FILL_CRYPTO
  return missing.empty();
}

Result<OpenSsl> OpenFirst() {
  std::string why;
  for (const LibraryNames& names : kLibraries) {
    void* crypto = ::dlopen(names.crypto, RTLD_NOW | RTLD_LOCAL);
    void* ssl = crypto == nullptr ? nullptr : ::dlopen(names.ssl, RTLD_NOW | RTLD_LOCAL);
    if (ssl == nullptr) {
      const char* error = ::dlerror();
      why += fmt::format("{}{}", why.empty() ? "" : "; ", error == nullptr ? names.ssl : error);
      continue;
    }
    OpenSsl functions;
    std::string missing;
    if (FillFunctions(ssl, crypto, functions, missing)) {
      // Neither the configuration of the host nor handlers at the end of the process are wanted.
      functions.OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
      return functions;
    }
    why += fmt::format("{}{} has no {}", why.empty() ? "" : "; ", names.ssl, missing);
  }
  return UnsupportedError(fmt::format("TLS needs OpenSSL 1.1.1 or newer on this host: {}", why))
      .WithHint("install libssl (Debian: libssl3), or use nfs_path");
}

}  // namespace

Result<const OpenSsl*> OpenSslOfThisHost() {
  static const Result<OpenSsl>* const opened = new Result<OpenSsl>(OpenFirst());
  if (!opened->ok()) {
    return opened->status();
  }
  return &**opened;
}

}  // namespace msprobe::online
