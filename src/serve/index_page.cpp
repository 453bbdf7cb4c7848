#include "src/serve/index_page.h"

#include <array>
#include <ctime>

#include <fmt/format.h>

namespace msprobe::serve {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); vertical-align: top; }
td:first-child { white-space: nowrap; font-weight: 600; } td:last-child { white-space: nowrap; opacity: .7; }
.good::before { content: "✓ "; } .caution::before { content: "▲ "; } .bad::before { content: "✗ "; }
.good { color: light-dark(#1b6e3c, #7ccf9a); } .caution { color: light-dark(#8a5a00, #e5b454); }
.bad { color: light-dark(#b3261e, #ff9d94); } .hint { opacity: .7; })";

std::string_view ClassOf(const IndexLine& line) {
  if (line.is_broken || line.verdict == "differ" || line.verdict == "failed") {
    return "bad";
  }
  if (line.verdict.empty()) {
    return "";
  }
  return line.verdict == "identical" || line.verdict == "agree" ? "good" : "caution";
}

std::string TimeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&time, &local) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local) == 0) {
    return {};
  }
  return text.data();
}

std::string Frame(std::string_view title, std::string_view body, std::string_view nonce) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style nonce=\"{}\">{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      EscapeHtml(title), nonce, kStyle, body);
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        // Control characters mean nothing in a page.
        escaped += static_cast<unsigned char>(letter) < 0x20 ? '?' : letter;
    }
  }
  return escaped;
}

std::string EscapePath(std::string_view path) {
  std::string escaped;
  for (const char letter : path) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') || letter == '/' || letter == '.' ||
                          letter == '_' || letter == '-';
    if (is_plain) {
      escaped += letter;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  return escaped;
}

std::string IndexPage(std::string_view folder, const std::vector<IndexLine>& lines,
                      const Folder::Listing& listing, std::string_view nonce) {
  std::string body =
      fmt::format("<h1>msprobe serve &middot; <code>{}</code></h1>\n", EscapeHtml(folder));
  for (const std::string& unread : listing.unread) {
    body += fmt::format("<p class=\"bad\">not looked at: {}</p>\n", EscapeHtml(unread));
  }
  if (lines.empty()) {
    body +=
        "<p>No graph (.vis.db) and no page (.html) lies in this folder or below it. "
        "<code>msprobe graph</code> and <code>msprobe compare --format html</code> write them; "
        "then "
        "load this page again.</p>\n";
    return Frame("msprobe serve", body, nonce);
  }
  body +=
      "<table>\n<thead><tr><th>Verdict / 结论</th><th>What / 内容</th><th>File / 文件</th>"
      "<th>Written / 时间</th></tr></thead>\n<tbody>\n";
  for (const IndexLine& line : lines) {
    body += fmt::format(
        "<tr><td class=\"{}\">{}</td><td>{}</td><td><a href=\"files/{}\"><bdi>{}</bdi></a></td>"
        "<td>{}</td></tr>\n",
        ClassOf(line), line.is_broken ? "unreadable" : EscapeHtml(line.verdict),
        EscapeHtml(line.text), EscapePath(line.path), EscapeHtml(line.path),
        TimeText(line.changed));
  }
  body += "</tbody>\n</table>\n";
  if (!listing.is_whole) {
    body +=
        fmt::format("<p>The folder holds more files; the first {} are listed.</p>\n", lines.size());
  }
  return Frame("msprobe serve", body, nonce);
}

std::string ErrorPage(std::string_view title, std::string_view message, std::string_view hint,
                      std::string_view nonce) {
  std::string body =
      fmt::format("<h1 class=\"bad\">{}</h1>\n<p>{}</p>\n", EscapeHtml(title), EscapeHtml(message));
  if (!hint.empty()) {
    body += fmt::format("<p class=\"hint\">{}</p>\n", EscapeHtml(hint));
  }
  return Frame("msprobe serve", body, nonce);
}

std::string PolicyOf(std::string_view nonce) {
  return fmt::format(
      "default-src 'none'; style-src 'nonce-{}'; base-uri 'none'; form-action 'none'; "
      "frame-ancestors 'none'",
      nonce);
}

}  // namespace msprobe::serve
