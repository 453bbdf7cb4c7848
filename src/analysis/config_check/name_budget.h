// Inside of the room: how long the names of nested values may become. A value is named by its whole
// path, so that one long key above many short ones makes a small file large.
#pragma once

#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "msprobe/status.h"

namespace msprobe::analysis::config_check::internal {

class NameBudget {
 public:
  // What names may come to in addition to the bytes that they were read from.
  static constexpr size_t kMostNameBytes = size_t{16} << 20U;

  explicit NameBudget(size_t bytes = 0) : limit_(kMostNameBytes + bytes) {}

  void Add(size_t bytes) { limit_ += bytes; }
  Status Take(std::string_view name) {
    taken_ += name.size();
    if (taken_ > limit_) {
      return UnsupportedError(
                 fmt::format("the names of its nested values come to more than {} bytes", limit_))
          .WithHint("each is named by all keys above it: shorten the keys, or leave the file out");
    }
    return {};
  }

 private:
  size_t limit_;
  size_t taken_ = 0;
};

}  // namespace msprobe::analysis::config_check::internal
