// HTTP/1.1, as much as pages need: GET and HEAD, one request per connection, one thread. Sizes,
// connections and times are bounded, so that no client can take memory or keep others out for long.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::serve {

// Access control. Refused are pages of another origin that a browser shows beside ours, names that
// lead to this host (DNS rebinding), and requests without the token.

// 32 hexadecimal digits from the system's source of random bytes.
std::string NewToken();

// Compares in constant time.
bool IsSameToken(std::string_view given, std::string_view expected);

struct RequestHeaders {
  std::string host;        // empty: none
  std::string origin;      // empty: none
  std::string fetch_site;  // Sec-Fetch-Site and so on; empty: an older browser, or none
  std::string fetch_mode;
  std::string fetch_destination;
  std::string accept_language;  // what the browser prefers; empty: anything
};

// Whether the address that was asked is a literal one or a name of this host: "localhost", the
// host's name, and `listened_host`. The port does not count: it may be the end of a tunnel.
bool IsOwnHost(std::string_view host, std::string_view listened_host);

// Empty: may be answered; otherwise why not.
std::string_view WhyRefused(const RequestHeaders& headers, std::string_view listened_host);

// The folder that is served. Nothing outside of it is opened: every name of a path is opened in the
// folder in front of it, and none that is a symbolic link.

enum class FileKind : uint8_t { kGraph, kPage };  // .vis.db, .html

// By the end of its name; none for all other files, which are not served.
std::optional<FileKind> KindOf(std::string_view name);

class Folder {
 public:
  static constexpr int kMostLevels = 6;
  static constexpr size_t kMostFiles = 2000;

  struct Entry {
    std::string path;  // from the folder, with '/'
    FileKind kind = FileKind::kGraph;
    int64_t changed = 0;  // seconds since 1970
  };
  struct Listing {
    std::vector<Entry> entries;  // by path
    bool is_whole = true;        // false: there are more than kMostFiles
    // Places that could not be read, and why: "sub/: Permission denied".
    std::vector<std::string> unread;
  };

  static Result<Folder> Open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return path_; }  // absolute, without links

  // kNotFound for what is not there, not regular, reached by a link, or no name of a file ("..");
  // kIo, with its path, where the system refuses.
  Result<base::InputFile> OpenRegular(std::string_view path) const;
  // The folder that this file is in, reached in the same way.
  Result<base::Descriptor> OpenFolderOf(std::string_view path) const;
  Listing List() const;

 private:
  Folder(std::filesystem::path path, base::Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::filesystem::path path_;
  base::Descriptor descriptor_;
};

struct Request {
  std::string path;   // decoded, with the slash in front; may hold any byte but NUL
  std::string query;  // after the '?', not decoded
  RequestHeaders headers;
};

struct Response {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string policy = "default-src 'none'";  // Content-Security-Policy
  std::string location = {};                  // of a redirection
  // Text that is kept elsewhere is not copied.
  std::variant<std::string, std::shared_ptr<const std::string>, base::InputFile> body = {};
};

constexpr size_t kMostHeaderBytes = size_t{16} * 1024;  // with the request's line
constexpr size_t kMostConnections = 64;
constexpr int kRequestSeconds = 15;  // in which a request must have arrived
constexpr int kIdleSeconds = 20;     // without a byte taken

// Listens, calls `listening` with the port, and answers until SIGINT or SIGTERM. `port` 0: any free
// one. An error of `listening` ends it.
Status Serve(const std::string& host, uint16_t port,
             const std::function<Status(uint16_t port)>& listening,
             std::function<Response(const Request&)> answer);

}  // namespace msprobe::serve
