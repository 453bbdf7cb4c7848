// The list of a folder's graphs and pages: one line each, what it says first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/serve/folder.h"

namespace msprobe::serve {

struct IndexLine {
  std::string path;        // from the folder
  std::string verdict;     // a word of `compare`; empty: none is known
  std::string text;        // where the runs part, or what the file is
  bool is_broken = false;  // `text` tells why it cannot be read
  int64_t changed = 0;     // seconds since 1970
};

// As it may stand in an element or an attribute.
std::string EscapeHtml(std::string_view text);
// A path as it may stand in an address, '/' kept.
std::string EscapePath(std::string_view path);

// `nonce`: of the style sheet, which the policy of the answer names.
// `listing`: where it is not the whole, and what could not be looked at.
std::string IndexPage(std::string_view folder, const std::vector<IndexLine>& lines,
                      const Folder::Listing& listing, std::string_view nonce);
std::string ErrorPage(std::string_view title, std::string_view message, std::string_view hint,
                      std::string_view nonce);
std::string PolicyOf(std::string_view nonce);

}  // namespace msprobe::serve
