// The long cells: kernels and allocations of an operator, a line each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// "sgemm [duration: 12.0]\n"; of an NPU with its task: "MatMul, 1, AI_CORE, [input shapes: ...]
// ...".
void AppendKernelText(const profile::Profile& side, const profile::Kernel& kernel,
                      std::string& out);
// "aten::relu, (1700.060, 1720.060), [duration: 20.0], [size: 128.0]\n".
void AppendAllocationText(const profile::Profile& side, const profile::Allocation& allocation,
                          std::string_view name, std::string& out);

// Collects lines up to what a cell of a workbook can hold: an operator may own millions of kernels.
// For files whose cells have no such limit (`whole`) up to what memory allows.
class DetailText {
 public:
  static constexpr size_t kMaxCharacters = 32767;

  explicit DetailText(bool whole = false) : whole_left_(whole ? kMostWhole : 0) {}

  void Clear() {
    whole_left_ -= std::min(whole_left_, characters_);
    text_.clear();
    characters_ = 0;
  }
  bool full() const { return characters_ >= most(); }
  const std::string& text() const { return text_; }
  // append(out) adds a piece of text, which is cut where the cell is full.
  template <typename Append>
  void Add(const Append& append) {
    if (!full()) {
      const size_t before = text_.size();
      append(text_);
      Count(before);
    }
  }

 private:
  static constexpr size_t kMostWhole = size_t{1} << 29U;  // in all cells of a side

  size_t most() const { return std::max(kMaxCharacters, whole_left_); }
  void Count(size_t from);

  size_t whole_left_;
  std::string text_;
  size_t characters_ = 0;  // of UTF-8
};

}  // namespace msprobe::analysis::perf
