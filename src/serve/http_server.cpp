#include "src/serve/http_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <dirent.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/strings.h"

namespace msprobe::serve {
namespace {

// "[::1]:8080", "localhost:8080", "localhost": without port and brackets.
std::string_view WithoutPort(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? std::string_view() : host.substr(1, end - 1);
  }
  const size_t colon = host.find(':');
  return host.substr(0, colon);
}

bool IsAddress(std::string_view host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  const std::string text(host);
  return ::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

}  // namespace

std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    token += fmt::format("{:08x}", static_cast<uint32_t>(random()));
  }
  return token;
}

bool IsSameToken(std::string_view given, std::string_view expected) {
  unsigned different = given.size() == expected.size() ? 0U : 1U;
  for (size_t i = 0; i < expected.size(); ++i) {
    const char letter = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned char>(letter ^ expected[i]);
  }
  return different == 0;
}

bool IsOwnHost(std::string_view host, std::string_view listened_host) {
  const std::string_view name = WithoutPort(host);
  std::array<char, 256> own{};
  const bool has_own = ::gethostname(own.data(), own.size() - 1) == 0 && own[0] != '\0';
  return IsAddress(name) || base::EqualsIgnoringCase(name, "localhost") ||
         base::EqualsIgnoringCase(name, listened_host) ||
         (has_own && base::EqualsIgnoringCase(name, own.data()));
}

std::string_view WhyRefused(const RequestHeaders& headers, std::string_view listened_host) {
  if (!IsOwnHost(headers.host, listened_host)) {
    return "asked by a name that is not this host's";
  }
  const bool same_origin = headers.origin.empty() || headers.origin == "http://" + headers.host;
  const bool is_own = headers.fetch_site.empty() || headers.fetch_site == "none" ||
                      headers.fetch_site == "same-origin";
  // A link that somebody follows is not a page that reads the answer.
  const bool is_followed =
      headers.fetch_mode == "navigate" && headers.fetch_destination == "document";
  return same_origin && (is_own || is_followed) ? "" : "asked by a page of another origin";
}

namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool IsName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// Whether there is nothing to serve, rather than a system that refuses: gone, a link, no folder, a
// socket, no name of a file.
bool IsAbsence(int error) {
  return error == ENOENT || error == ELOOP || error == ENOTDIR || error == ENXIO ||
         error == ENAMETOOLONG;
}

constexpr std::string_view kAgain = "load the page again; ulimit -n, where too many files are open";

Status Absent() {
  return NotFoundError("no graph (.vis.db) or page (.html) of the served folder has this name");
}

// Why `path` was not opened.
Status Unopened(std::string_view path, int error) {
  return IsAbsence(error) ? Absent()
                          : IoError(fmt::format("{}: {}", path, std::strerror(error)))
                                .WithHint(std::string(kAgain));
}

void NoteUnread(const std::string& path, int error, Folder::Listing& listing) {
  if (!IsAbsence(error)) {
    listing.unread.push_back(fmt::format("{}: {}", path, std::strerror(error)));
  }
}

// Takes `descriptor`, and closes it.
void ListBelow(int descriptor, const std::string& prefix, int level, Folder::Listing& listing) {
  const std::string own_name = prefix.empty() ? "." : prefix;
  DIR* folder = ::fdopendir(descriptor);
  if (folder == nullptr) {
    NoteUnread(own_name, errno, listing);
    ::close(descriptor);
    return;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closed_at_the_end(folder, &::closedir);
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(folder);
    if (item == nullptr) {
      if (errno != 0) {
        NoteUnread(own_name, errno, listing);
      }
      return;
    }
    const std::string name = item->d_name;
    if (!IsName(name)) {
      continue;
    }
    struct stat about {};
    if (::fstatat(descriptor, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
      NoteUnread(prefix + name, errno, listing);
      continue;
    }
    if (S_ISDIR(about.st_mode) && level < Folder::kMostLevels && !name.starts_with('.')) {
      if (const int below = ::openat(descriptor, name.c_str(), kFolderFlags); below >= 0) {
        ListBelow(below, prefix + name + "/", level + 1, listing);
      } else {
        NoteUnread(prefix + name + "/", errno, listing);
      }
      continue;
    }
    const std::optional<FileKind> kind = KindOf(name);
    if (!S_ISREG(about.st_mode) || !kind) {
      continue;
    }
    if (listing.entries.size() >= Folder::kMostFiles) {
      listing.is_whole = false;
      return;
    }
    listing.entries.push_back({prefix + name, *kind, static_cast<int64_t>(about.st_mtime)});
  }
}

}  // namespace

std::optional<FileKind> KindOf(std::string_view name) {
  return name.ends_with(".vis.db") ? std::optional(FileKind::kGraph)
         : name.ends_with(".html") ? std::optional(FileKind::kPage)
                                   : std::nullopt;
}

Result<Folder> Folder::Open(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  base::Descriptor descriptor(failed ? -1 : ::open(real.c_str(), kFolderFlags));
  if (!descriptor.is_open()) {
    const std::string why = failed             ? failed.message()
                            : errno == ENOTDIR ? "not a folder"
                                               : std::strerror(errno);
    return NotFoundError(fmt::format("{}: {}", path.string(), why))
        .WithHint("give the folder that holds results of msprobe graph or msprobe compare");
  }
  return Folder(real, std::move(descriptor));
}

Result<base::Descriptor> Folder::OpenFolderOf(std::string_view path) const {
  base::Descriptor folder(::fcntl(descriptor_.get(), F_DUPFD_CLOEXEC, 0));
  if (!folder.is_open()) {
    return Unopened(path, errno);
  }
  std::string_view rest = path;
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const std::string name(rest.substr(0, slash));
    if (!IsName(name)) {
      return Absent();
    }
    base::Descriptor next(::openat(folder.get(), name.c_str(), kFolderFlags));
    if (!next.is_open()) {
      return Unopened(path, errno);
    }
    folder = std::move(next);
    rest.remove_prefix(slash + 1);
  }
  return folder;
}

Result<base::InputFile> Folder::OpenRegular(std::string_view path) const {
  MSP_ASSIGN_OR_RETURN(const base::Descriptor folder, OpenFolderOf(path));
  const std::string name(path.substr(path.rfind('/') + 1));
  struct stat about {};
  if (!IsName(name)) {
    return Absent();
  }
  if (::fstatat(folder.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
    return Unopened(path, errno);
  }
  if (!S_ISREG(about.st_mode)) {
    return Absent();
  }
  Result<base::InputFile> file =
      base::InputFile::OpenIn(folder.get(), name, path_ / path, base::Links::kRefuse);
  return file.ok() ? std::move(file)
         : file.status().code() == StatusCode::kNotFound
             ? Absent()
             : Status(file.status()).WithHint(std::string(kAgain));
}

Folder::Listing Folder::List() const {
  Listing listing;
  // By its path again: a copy of the descriptor would share the place of the listing.
  if (const int top = ::openat(descriptor_.get(), ".", kFolderFlags); top >= 0) {
    ListBelow(top, "", 0, listing);
  } else {
    NoteUnread(".", errno, listing);
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return listing;
}

namespace {

using Clock = std::chrono::steady_clock;

struct Connection {
  Clock::time_point since;
  bool has_asked = false;  // its whole request is here
};

std::string HeaderOf(evhttp_request* request, const char* name) {
  const char* value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
  return value == nullptr ? std::string() : std::string(value);
}

// The library goes on with some of its small things as if it had got them, so that the process ends
// here, with its message, where there is no memory for one. Large ones are looked at.
constexpr size_t kSmallBytes = size_t{64} << 10U;

void* WholeOrEnd(void* memory, size_t bytes) {
  if (memory == nullptr && bytes > 0 && bytes <= kSmallBytes) {
    std::terminate();
  }
  return memory;
}
void* Allocate(size_t bytes) { return WholeOrEnd(std::malloc(bytes), bytes); }
void* Reallocate(void* old, size_t bytes) { return WholeOrEnd(std::realloc(old, bytes), bytes); }

struct FreeBuffer {
  void operator()(evbuffer* buffer) const { evbuffer_free(buffer); }
};
using Buffer = std::unique_ptr<evbuffer, FreeBuffer>;

// Browsers cache, guess, embed and refer nothing. False: there is no memory.
bool AddHeaders(evhttp_request* request, const Response& response) {
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  const auto add = [headers](const char* name, const std::string& value) {
    return evhttp_add_header(headers, name, value.c_str()) == 0;
  };
  return add("Content-Type", response.type) && add("Content-Security-Policy", response.policy) &&
         add("Cache-Control", "no-store") && add("X-Content-Type-Options", "nosniff") &&
         add("X-Frame-Options", "DENY") && add("Referrer-Policy", "no-referrer") &&
         add("Cross-Origin-Resource-Policy", "same-origin") &&
         add("Cross-Origin-Opener-Policy", "same-origin") && add("Connection", "close") &&
         (response.location.empty() || add("Location", response.location));
}

// False: there is no memory, and the buffer holds less than the whole.
bool AddBody(evbuffer* buffer, Response& response) {
  if (auto* text = std::get_if<std::string>(&response.body)) {
    return evbuffer_add(buffer, text->data(), text->size()) == 0;
  }
  if (auto* shared = std::get_if<std::shared_ptr<const std::string>>(&response.body)) {
    auto kept = std::make_unique<std::shared_ptr<const std::string>>(*shared);
    const std::string& text = **kept;
    const int added = evbuffer_add_reference(
        buffer, text.data(), text.size(),
        [](const void* /*data*/, size_t /*size*/, void* extra) {
          delete static_cast<std::shared_ptr<const std::string>*>(extra);
        },
        kept.get());
    if (added == 0) {
      kept.release();  // NOLINT(bugprone-unused-return-value): the buffer has it
    }
    return added == 0;
  }
  auto& file = std::get<base::InputFile>(response.body);
  const auto size = static_cast<ev_off_t>(file.size_bytes());
  if (size == 0) {
    return true;
  }
  const int descriptor = file.Release();
  evbuffer_file_segment* segment =
      evbuffer_file_segment_new(descriptor, 0, size, EVBUF_FS_CLOSE_ON_FREE);
  if (segment == nullptr) {
    ::close(descriptor);
    return false;
  }
  const bool is_added = evbuffer_add_file_segment(buffer, segment, 0, size) == 0;
  evbuffer_file_segment_free(segment);  // the buffer holds on to it
  return is_added;
}

const char* ReasonOf(int status) {
  constexpr std::array<std::pair<int, const char*>, 6> kReasons = {{{200, "OK"},
                                                                    {302, "Found"},
                                                                    {403, "Forbidden"},
                                                                    {404, "Not Found"},
                                                                    {422, "Unprocessable Content"},
                                                                    {503, "Service Unavailable"}}};
  const auto* const known = std::find_if(kReasons.begin(), kReasons.end(),
                                         [&](const auto& row) { return row.first == status; });
  return known == kReasons.end() ? "Error" : known->second;
}

struct Server {
  event_base* base = nullptr;
  evhttp* http = nullptr;
  std::function<Response(const Request&)> answer;
  evconnlistener* listener = nullptr;  // of `http`
  // One that is freed stays, without callbacks, until it is dropped here.
  std::map<bufferevent*, Connection> connections;

  ~Server() {
    for (const auto& [events, connection] : connections) {
      bufferevent_decref(events);
    }
    if (http != nullptr) {
      evhttp_free(http);
    }
    if (base != nullptr) {
      event_base_free(base);
    }
  }

  // Somebody connects.
  static bufferevent* OnConnection(event_base* base, void* self_pointer) {
    auto* self = static_cast<Server*>(self_pointer);
    self->DropClosed();
    bufferevent* events = bufferevent_socket_new(base, -1, 0);
    if (events != nullptr) {
      try {
        self->connections[events].since = Clock::now();
        bufferevent_incref(events);
      } catch (const std::bad_alloc&) {
        // The library's own limit of time is this connection's only one.
      }
    }
    if (self->connections.size() >= kMostConnections) {
      evconnlistener_disable(self->listener);  // further ones wait in the system's queue
    }
    return events;
  }

  void DropClosed() {
    for (auto it = connections.begin(); it != connections.end();) {
      bufferevent_event_cb on_event = nullptr;
      bufferevent_getcb(it->first, nullptr, nullptr, &on_event, nullptr);
      if (on_event == nullptr) {
        bufferevent_decref(it->first);
        it = connections.erase(it);
      } else {
        ++it;
      }
    }
  }

  static Request Asked(evhttp_request* request) {
    Request asked;
    const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
    const char* path = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
    const char* query = uri == nullptr ? nullptr : evhttp_uri_get_query(uri);
    if (path != nullptr) {
      size_t size = 0;
      if (char* decoded = evhttp_uridecode(path, /*decode_plus=*/0, &size); decoded != nullptr) {
        asked.path.assign(decoded, size);
        std::free(decoded);
      }
    }
    asked.query = query == nullptr ? "" : query;
    asked.headers = {HeaderOf(request, "Host"),           HeaderOf(request, "Origin"),
                     HeaderOf(request, "Sec-Fetch-Site"), HeaderOf(request, "Sec-Fetch-Mode"),
                     HeaderOf(request, "Sec-Fetch-Dest"), HeaderOf(request, "Accept-Language")};
    return asked;
  }

  static void OnRequest(evhttp_request* request, void* self_pointer) {
    auto* self = static_cast<Server*>(self_pointer);
    if (const auto found = self->connections.find(
            evhttp_connection_get_bufferevent(evhttp_request_get_connection(request)));
        found != self->connections.end()) {
      found->second.has_asked = true;
    }
    if (!Reply(*self, request)) {
      // Or, without memory for that, hangs up.
      evhttp_send_error(request, 503, "This answer needs more memory than there is");
    }
  }

  // False: there is no memory for an answer. Nothing may be thrown through the library, which is of
  // C.
  static bool Reply(const Server& self, evhttp_request* request) {
    try {
      Response response = self.answer(Asked(request));
      const Buffer body(evbuffer_new());
      if (body == nullptr || !AddHeaders(request, response) ||
          (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD &&
           !AddBody(body.get(), response))) {
        return false;
      }
      evhttp_send_reply(request, response.status, ReasonOf(response.status), body.get());
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Ends connections whose requests take too long: a byte now and then keeps none open.
  static void OnTick(evutil_socket_t /*socket*/, short /*what*/, void* self_pointer) {
    auto* self = static_cast<Server*>(self_pointer);
    self->DropClosed();
    const Clock::time_point latest = Clock::now() - std::chrono::seconds(kRequestSeconds);
    for (const auto& [events, connection] : self->connections) {
      if (!connection.has_asked && connection.since < latest) {
        bufferevent_trigger_event(events, BEV_EVENT_READING | BEV_EVENT_TIMEOUT, 0);
      }
    }
    if (self->connections.size() < kMostConnections) {
      evconnlistener_enable(self->listener);
    }
  }

  static void OnSignal(evutil_socket_t /*signals*/, short /*what*/, void* self_pointer) {
    event_base_loopbreak(static_cast<Server*>(self_pointer)->base);
  }
};

// Binds and gives the port.
Result<uint16_t> Listen(const std::string& host, uint16_t port, Server& server) {
  server.base = event_base_new();
  server.http = server.base == nullptr ? nullptr : evhttp_new(server.base);
  if (server.http == nullptr) {
    return IoError("cannot wait for connections: the system gives no event queue")
        .WithHint("check ulimit -n");
  }
  evhttp_set_allowed_methods(server.http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_max_headers_size(server.http, static_cast<ev_ssize_t>(kMostHeaderBytes));
  evhttp_set_max_body_size(server.http, 0);
  evhttp_set_timeout(server.http, kIdleSeconds);
  evhttp_set_default_content_type(server.http, nullptr);
  evhttp_set_bevcb(server.http, &Server::OnConnection, &server);
  evhttp_set_gencb(server.http, &Server::OnRequest, &server);
  evhttp_bound_socket* bound = evhttp_bind_socket_with_handle(server.http, host.c_str(), port);
  if (bound == nullptr) {
    return IoError(fmt::format("cannot listen on {} port {}: {}", host, port,
                               evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR())))
        .WithHint("another --port, or 0 for any free one; --host must be an address of this host");
  }
  server.listener = evhttp_bound_socket_get_listener(bound);
  if (evconnlistener_enable(server.listener) != 0) {  // which binding does not tell
    return IoError("cannot wait for connections: the event queue takes no socket")
        .WithHint("check fs.epoll.max_user_watches");
  }
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&address),
                    &size) != 0) {
    return IoError(fmt::format("cannot tell the port that was taken: {}", std::strerror(errno)))
        .WithHint("start it again, or give a --port");
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Status Serve(const std::string& host, uint16_t port,
             const std::function<Status(uint16_t port)>& listening,
             std::function<Response(const Request&)> answer) {
  event_set_mem_functions(&Allocate, &Reallocate, &std::free);
  Server server;
  MSP_ASSIGN_OR_RETURN(const uint16_t bound_port, Listen(host, port, server));
  MSP_RETURN_IF_ERROR(listening(bound_port));
  std::signal(SIGPIPE, SIG_IGN);  // of clients that went away
  server.answer = std::move(answer);
  // From the kernel: the library's own way, a pipe that its handler writes to, ends the process
  // where that pipe breaks.
  sigset_t ending{};
  sigset_t before{};
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGINT);
  ::sigaddset(&ending, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ending, &before);
  const base::Descriptor signals(::signalfd(-1, &ending, SFD_NONBLOCK | SFD_CLOEXEC));
  const timeval second{1, 0};
  event* tick = event_new(server.base, -1, EV_PERSIST, &Server::OnTick, &server);
  event* end = signals.is_open()
                   ? event_new(server.base, signals.get(), EV_READ, &Server::OnSignal, &server)
                   : nullptr;
  const bool ready = tick != nullptr && end != nullptr && event_add(tick, &second) == 0 &&
                     event_add(end, nullptr) == 0;
  const bool served = ready && event_base_dispatch(server.base) >= 0;
  for (event* made : {tick, end}) {
    if (made != nullptr) {
      event_free(made);
    }
  }
  // The one that ended this has done its work; it does not end the process as well.
  constexpr timespec kNoTime{0, 0};
  while (::sigtimedwait(&ending, nullptr, &kNoTime) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return served ? Status()
                : IoError("the event queue of the system broke").WithHint("start it again");
}

}  // namespace msprobe::serve
