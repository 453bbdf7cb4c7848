// Warnings that a file may have any number of: the first ones are written in order, the rest is
// counted. One broken writer breaks all rows alike, and a few bytes may stand for thousands of
// things that are missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace msprobe::base {

class LimitedWarnings {
 public:
  static constexpr size_t kUsual = 8;
  static constexpr size_t kOfRows = 20;  // of a table or a list, which people correct line by line

  // Writes `most` to the end of `texts`, which must live as long.
  explicit LimitedWarnings(std::vector<std::string>& texts, size_t most = kUsual)
      : texts_(texts), most_(most) {}

  void Add(std::string text) {
    if (written_ < most_) {
      texts_.push_back(std::move(text));
      ++written_;
    } else {
      ++more_;
    }
  }
  // Those that nobody spelled.
  void Count(uint64_t more) { more_ += more; }

  // How many are not written: for one last text that says so.
  uint64_t more() const { return more_; }

 private:
  std::vector<std::string>& texts_;
  const size_t most_;
  size_t written_ = 0;
  uint64_t more_ = 0;
};

}  // namespace msprobe::base
