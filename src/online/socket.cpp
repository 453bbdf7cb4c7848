#include "src/online/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/online/openssl_library.h"

namespace msprobe::online {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 128;
// A host that is gone without a word is noticed after some four minutes.
constexpr int kKeepAliveIdleSeconds = 120;
constexpr int kKeepAliveIntervalSeconds = 30;
constexpr int kKeepAliveProbes = 4;

Status SocketError(std::string_view what, int number) {
  return IoError(fmt::format("{}: {}", what, std::strerror(number)));
}

sockaddr_in AddressOf(const std::string& host, int64_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

void SetOption(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof(value));
}

void TuneConnection(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

}  // namespace

Result<bool> WaitForSocket(int socket, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{socket, events, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left + (left > 0), 0, 60'000)));
    if (ready > 0) {
      return true;  // also of an error, which the next call tells
    }
    if (ready < 0 && errno != EINTR) {
      return SocketError("waiting for a connection", errno);
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<Wire> Wire::Connect(const std::string& host, int64_t port, const TlsContext* tls,
                           Deadline deadline) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.descriptor() < 0) {
    return SocketError("no socket", errno);
  }
  const std::string what = fmt::format("{}:{}", host, port);
  const sockaddr_in address = AddressOf(host, port);
  if (::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
    if (errno != EINPROGRESS) {
      return SocketError(what, errno);
    }
    MSP_ASSIGN_OR_RETURN(const bool is_ready,
                         WaitForSocket(socket.descriptor(), POLLOUT, deadline));
    if (!is_ready) {
      return IoError(fmt::format("{}: no answer", what));
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      return SocketError(what, error);
    }
  }
  Wire wire(std::move(socket));
  TuneConnection(wire.descriptor());
  if (tls != nullptr) {
    Result<TlsStream> stream = tls->Begin(wire.descriptor(), deadline);
    if (!stream.ok()) {
      return std::move(stream).status().AddContext(what);
    }
    wire.tls_.emplace(*std::move(stream));
  }
  return wire;
}

Result<Wire> Wire::Accept(Socket socket, const TlsContext* tls, Deadline deadline) {
  Wire wire(std::move(socket));
  TuneConnection(wire.descriptor());
  if (tls != nullptr) {
    MSP_ASSIGN_OR_RETURN(TlsStream stream, tls->Begin(wire.descriptor(), deadline));
    wire.tls_.emplace(std::move(stream));
  }
  return wire;
}

Result<size_t> Wire::Read(std::span<std::byte> bytes, Deadline deadline) {
  if (tls_) {
    return tls_->Read(bytes, deadline);
  }
  for (;;) {
    const ssize_t count = ::recv(descriptor(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    if (count == 0) {
      return IoError("the other side has closed the connection");
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      return SocketError("the connection broke", errno);
    }
    MSP_ASSIGN_OR_RETURN(const bool is_ready, WaitForSocket(descriptor(), POLLIN, deadline));
    if (!is_ready) {
      return 0;
    }
  }
}

Result<size_t> Wire::Write(std::span<const std::byte> bytes, Deadline deadline) {
  if (tls_) {
    return tls_->Write(bytes, deadline);
  }
  for (;;) {
    const ssize_t count = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      return static_cast<size_t>(count);
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      return SocketError("the connection broke", errno);
    }
    MSP_ASSIGN_OR_RETURN(const bool is_ready, WaitForSocket(descriptor(), POLLOUT, deadline));
    if (!is_ready) {
      return 0;
    }
  }
}

Status Wire::ReadAll(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    MSP_ASSIGN_OR_RETURN(const size_t count, Read(bytes, deadline));
    if (count == 0) {
      return IoError("nothing came in time");
    }
    bytes = bytes.subspan(count);
  }
  return {};
}

Status Wire::WriteAll(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    MSP_ASSIGN_OR_RETURN(const size_t count, Write(bytes, deadline));
    if (count == 0) {
      return IoError("the other side takes nothing");
    }
    bytes = bytes.subspan(count);
  }
  return {};
}

Result<Listener> Listen(const std::string& host, int64_t port) {
  Listener listener;
  listener.socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int descriptor = listener.socket.descriptor();
  const std::string what = fmt::format("cannot listen on {}:{}", host, port);
  if (descriptor < 0) {
    return SocketError(what, errno);
  }
  SetOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in address = AddressOf(host, port);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(descriptor, kBacklog) != 0) {
    return SocketError(what, errno)
        .WithHint(
            "host is an address of this computer, and port one that no other program listens on");
  }
  socklen_t size = sizeof(address);
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  listener.port = ntohs(address.sin_port);
  return listener;
}

Result<Socket> AcceptOne(const Listener& listener, Deadline deadline) {
  MSP_ASSIGN_OR_RETURN(const bool is_ready,
                       WaitForSocket(listener.socket.descriptor(), POLLIN, deadline));
  if (!is_ready) {
    return Socket();
  }
  // Somebody may have left already: that is not an error.
  return Socket(
      ::accept4(listener.socket.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kPasswordVariable = "MSPROBE_TLS_PASSWORD";

// No question is asked on a terminal that belongs to a training.
int TakePassword(char* buffer, int size, int /*writing*/, void* /*user*/) {
  const char* password = std::getenv(kPasswordVariable);
  const size_t length = password == nullptr ? 0 : std::strlen(password);
  if (length == 0 || size <= 0 || length >= static_cast<size_t>(size)) {
    return 0;
  }
  std::memcpy(buffer, password, length);
  return static_cast<int>(length);
}

std::string LastError(const OpenSsl& library) {
  const unsigned long code = library.ERR_get_error();
  if (code == 0) {
    return "no reason is known";
  }
  std::array<char, 256> text{};
  library.ERR_error_string_n(code, text.data(), text.size());
  library.ERR_clear_error();
  const std::string_view whole = text.data();
  const size_t colon = whole.rfind(':');
  return std::string(colon == std::string_view::npos ? whole : whole.substr(colon + 1));
}

constexpr uint64_t kMostPemBytes = uint64_t{16} << 20U;

Status Unusable(const OpenSsl& library, const fs::path& path) {
  return UsageError(fmt::format("tls_path: {} cannot be used: {}", base::Printable(path.string()),
                                LastError(library)));
}

// The text of a file, and what reads it. OpenSSL opens files by their names, and waits for a FIFO.
struct Pem {
  static Result<std::unique_ptr<Pem>> Read(const OpenSsl& library, const fs::path& path) {
    auto pem = std::make_unique<Pem>(library);
    Result<std::string> text = base::ReadTextFile(path, kMostPemBytes);
    if (!text.ok()) {
      return UsageError(fmt::format("tls_path: {}", base::Printable(text.status().message())));
    }
    pem->text = *std::move(text);
    pem->bio = library.BIO_new_mem_buf(pem->text.data(), static_cast<int>(pem->text.size()));
    return pem->bio == nullptr ? Result<std::unique_ptr<Pem>>(Unusable(library, path))
                               : std::move(pem);
  }

  explicit Pem(const OpenSsl& of) : library(of) {}
  Pem(const Pem&) = delete;
  Pem& operator=(const Pem&) = delete;
  ~Pem() {
    library.BIO_free(bio);
    volatile char* bytes = text.data();  // of a key, perhaps
    std::fill_n(bytes, text.size(), '\0');
  }

  const OpenSsl& library;
  std::string text;
  BIO* bio = nullptr;
};

// The end of a list of certificates is an error of the reader's.
bool IsAtEnd(const OpenSsl& library) {
  const unsigned long code = library.ERR_peek_last_error();
  const bool ended =
      ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
  if (ended) {
    library.ERR_clear_error();
  }
  return ended;
}

// The first is the side's own, the others lead from it to the authority.
Status UseCertificates(const OpenSsl& library, const fs::path& path, SSL_CTX* context) {
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pem> pem, Pem::Read(library, path));
  size_t count = 0;
  while (X509* const found = library.PEM_read_bio_X509(pem->bio, nullptr, TakePassword, nullptr)) {
    const bool taken =
        (count++ == 0 ? library.SSL_CTX_use_certificate(context, found)
                      : library.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, found)) == 1;
    library.X509_free(found);
    if (!taken) {
      return Unusable(library, path);
    }
  }
  return count > 0 && IsAtEnd(library) ? OkStatus() : Unusable(library, path);
}

Status UseKey(const OpenSsl& library, const fs::path& path, SSL_CTX* context) {
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pem> pem, Pem::Read(library, path));
  EVP_PKEY* const key = library.PEM_read_bio_PrivateKey(pem->bio, nullptr, TakePassword, nullptr);
  const bool taken = key != nullptr && library.SSL_CTX_use_PrivateKey(context, key) == 1;
  library.EVP_PKEY_free(key);
  if (!taken) {
    return Unusable(library, path)
        .WithHint(fmt::format("the password of a key is taken from {}", kPasswordVariable));
  }
  return library.SSL_CTX_check_private_key(context) == 1 ? OkStatus() : Unusable(library, path);
}

Status Trust(const OpenSsl& library, const fs::path& path, X509_STORE* store) {
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pem> pem, Pem::Read(library, path));
  size_t count = 0;
  while (X509* const found = library.PEM_read_bio_X509(pem->bio, nullptr, TakePassword, nullptr)) {
    const bool taken = library.X509_STORE_add_cert(store, found) == 1;
    library.X509_free(found);
    if (!taken) {
      return Unusable(library, path);
    }
    ++count;
  }
  return count > 0 && IsAtEnd(library) ? OkStatus() : Unusable(library, path);
}

Status Revoke(const OpenSsl& library, const fs::path& path, X509_STORE* store) {
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pem> pem, Pem::Read(library, path));
  size_t count = 0;
  while (X509_CRL* const found =
             library.PEM_read_bio_X509_CRL(pem->bio, nullptr, TakePassword, nullptr)) {
    const bool taken = library.X509_STORE_add_crl(store, found) == 1;
    library.X509_CRL_free(found);
    if (!taken) {
      return Unusable(library, path);
    }
    ++count;
  }
  if (count == 0 || !IsAtEnd(library)) {
    return Unusable(library, path);
  }
  library.X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  return {};
}

}  // namespace

struct TlsContext::State {
  const OpenSsl* library = nullptr;
  SSL_CTX* context = nullptr;
  Side side = Side::kTraining;

  ~State() {
    if (context != nullptr) {
      library->SSL_CTX_free(context);
    }
  }
};

struct TlsStream::State {
  const OpenSsl* library = nullptr;
  SSL* ssl = nullptr;
  int socket = -1;
  bool is_broken = false;

  ~State() {
    if (ssl != nullptr) {
      if (!is_broken) {
        library->ERR_clear_error();
        library->SSL_shutdown(ssl);  // sends the closing alert and does not wait for an answer
      }
      library->SSL_free(ssl);
    }
  }

  // Runs `step`, which returns what OpenSSL returned, until it has done something, the deadline has
  // come (0) or the connection is over.
  template <typename Step>
  Result<size_t> Try(const char* what, Deadline deadline, Step step) {
    for (;;) {
      library->ERR_clear_error();
      errno = 0;
      const int done = step();
      if (done > 0) {
        return static_cast<size_t>(done);
      }
      const int error = library->SSL_get_error(ssl, done);
      if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        MSP_ASSIGN_OR_RETURN(
            const bool is_ready,
            WaitForSocket(socket, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline));
        if (!is_ready) {
          return 0;
        }
        continue;
      }
      const int number = errno;
      is_broken = true;
      if (error == SSL_ERROR_ZERO_RETURN) {
        return IoError("the other side has closed the connection");
      }
      const long verified = library->SSL_get_verify_result(ssl);
      std::string why = verified != X509_V_OK
                            ? fmt::format("the certificate of the other side: {}",
                                          library->X509_verify_cert_error_string(verified))
                        : error == SSL_ERROR_SYSCALL && number != 0 ? std::strerror(number)
                        : error == SSL_ERROR_SYSCALL ? "the other side has closed the connection"
                                                     : LastError(*library);
      return IoError(fmt::format("{}: {}", what, why));
    }
  }
};

TlsContext::TlsContext(std::unique_ptr<State> state) : state_(std::move(state)) {}

TlsContext::TlsContext(TlsContext&&) noexcept = default;

TlsContext::~TlsContext() = default;

TlsStream::TlsStream(std::unique_ptr<State> state) : state_(std::move(state)) {}

TlsStream::TlsStream(TlsStream&&) noexcept = default;

TlsStream::~TlsStream() = default;

Result<TlsContext> TlsContext::Create(const fs::path& folder, Side side) {
  MSP_ASSIGN_OR_RETURN(const OpenSsl* library, OpenSslOfThisHost());
  auto state = std::make_unique<State>();
  state->library = library;
  state->side = side;
  state->context = library->SSL_CTX_new(side == Side::kTraining ? library->TLS_client_method()
                                                                : library->TLS_server_method());
  SSL_CTX* const context = state->context;
  if (context == nullptr) {
    return IoError(fmt::format("TLS cannot begin: {}", LastError(*library)));
  }
  if (library->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) !=
      1) {
    return UnsupportedError("this host's OpenSSL knows no TLS 1.3");
  }
  library->SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                        SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                        nullptr);
  // Sessions are not resumed: every connection shows its certificates.
  library->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  library->SSL_CTX_set_num_tickets(context, 0);
  const std::string role = side == Side::kTraining ? "client" : "server";
  MSP_RETURN_IF_ERROR(UseCertificates(*library, folder / (role + ".crt"), context));
  MSP_RETURN_IF_ERROR(UseKey(*library, folder / (role + ".key"), context));
  X509_STORE* const store = library->SSL_CTX_get_cert_store(context);
  MSP_RETURN_IF_ERROR(Trust(*library, folder / "ca.crt", store));
  if (const fs::path revoked = folder / "crl.pem"; base::Exists(revoked)) {
    MSP_RETURN_IF_ERROR(Revoke(*library, revoked, store));
  }
  library->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return TlsContext(std::move(state));
}

Result<TlsStream> TlsContext::Begin(int socket, Deadline deadline) const {
  auto state = std::make_unique<TlsStream::State>();
  state->library = state_->library;
  state->socket = socket;
  state->ssl = state_->library->SSL_new(state_->context);
  if (state->ssl == nullptr || state_->library->SSL_set_fd(state->ssl, socket) != 1) {
    return IoError(fmt::format("TLS cannot begin: {}", LastError(*state_->library)));
  }
  MSP_ASSIGN_OR_RETURN(
      const size_t done,
      state->Try(
          "TLS", deadline, [library = state_->library, ssl = state->ssl, side = state_->side] {
            return side == Side::kTraining ? library->SSL_connect(ssl) : library->SSL_accept(ssl);
          }));
  if (done == 0) {
    state->is_broken = true;
    return IoError("TLS: the other side does not answer");
  }
  return TlsStream(std::move(state));
}

Result<size_t> TlsStream::Read(std::span<std::byte> bytes, Deadline deadline) {
  const int size = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
  return state_->Try("TLS", deadline, [this, &bytes, size] {
    return state_->library->SSL_read(state_->ssl, bytes.data(), size);
  });
}

Result<size_t> TlsStream::Write(std::span<const std::byte> bytes, Deadline deadline) {
  const int size = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
  return state_->Try("TLS", deadline, [this, &bytes, size] {
    return state_->library->SSL_write(state_->ssl, bytes.data(), size);
  });
}

}  // namespace msprobe::online
