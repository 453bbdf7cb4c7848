// Who may ask. A page of another origin that a browser shows beside ours, a name that leads to this
// host (DNS rebinding), and whoever does not know the token are refused.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::serve {

// 32 hexadecimal digits from the system's source of random bytes.
std::string NewToken();

// Takes as long for any two texts of the length of `expected`.
bool IsSameToken(std::string_view given, std::string_view expected);

struct RequestHeaders {
  std::string host;        // empty: none
  std::string origin;      // empty: none
  std::string fetch_site;  // Sec-Fetch-Site and so on; empty: an older browser, or none
  std::string fetch_mode;
  std::string fetch_destination;
};

// Whether the address that was asked is a literal one or a name of this host: "localhost", the
// host's name, and `listened_host`. The port does not count: it may be the end of a tunnel.
bool IsOwnHost(std::string_view host, std::string_view listened_host);

// Empty: may be answered; otherwise why not.
std::string_view WhyRefused(const RequestHeaders& headers, std::string_view listened_host);

}  // namespace msprobe::serve
