#include "src/serve/access.h"

#include <array>
#include <random>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

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
  if (!headers.origin.empty() && headers.origin != "http://" + headers.host) {
    return "asked by a page of another origin";
  }
  const bool is_own = headers.fetch_site.empty() || headers.fetch_site == "none" ||
                      headers.fetch_site == "same-origin";
  // A link that somebody follows is no page that reads the answer.
  const bool is_followed =
      headers.fetch_mode == "navigate" && headers.fetch_destination == "document";
  return is_own || is_followed ? std::string_view() : "asked by a page of another origin";
}

}  // namespace msprobe::serve
