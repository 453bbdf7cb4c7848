// HTTP/1.1, as much as pages need: GET and HEAD, one request per connection, one thread. Sizes,
// connections and times are bounded, so that no client can take memory or keep others out for long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "msprobe/status.h"

#include "src/serve/access.h"
#include "src/serve/folder.h"

namespace msprobe::serve {

struct Request {
  std::string path;   // decoded, with the slash in front; may hold any byte but NUL
  std::string query;  // what stands behind '?', as it came
  RequestHeaders headers;
};

struct Response {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string policy = "default-src 'none'";  // Content-Security-Policy
  std::string location;                       // of a redirection
  // Text that is kept elsewhere is not copied.
  std::variant<std::string, std::shared_ptr<const std::string>, base::InputFile> body;
};

class HttpServer {
 public:
  static constexpr size_t kMostHeaderBytes = size_t{16} * 1024;  // with the request's line
  static constexpr size_t kMostConnections = 64;
  static constexpr int kRequestSeconds = 15;  // in which a request must have arrived
  static constexpr int kIdleSeconds = 20;     // without a byte taken

  // `port` 0: any free one.
  static Result<HttpServer> Listen(const std::string& host, uint16_t port);
  HttpServer(HttpServer&&) noexcept;
  HttpServer& operator=(HttpServer&&) = delete;
  ~HttpServer();

  uint16_t port() const;
  // Answers until SIGINT or SIGTERM.
  Status Serve(std::function<Response(const Request&)> answer);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::serve
