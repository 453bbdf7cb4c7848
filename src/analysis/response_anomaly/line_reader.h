// Lines of a file or of the standard input, as they come: memory holds one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::analysis::response_anomaly {

class LineReader {
 public:
  // Longer lines are passed over: no response has as many candidates.
  static constexpr size_t kLongestLine = size_t{256} << 20U;

  // "-" is the standard input; as base::OpenStream.
  static Result<LineReader> Open(const std::filesystem::path& path,
                                 size_t longest_line = kLongestLine);
  enum class Line : uint8_t { kLine, kTooLong, kEnd };
  // The next line, without its end, until the call after. Waits for a pipe.
  Result<Line> Next(std::string_view& line);
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  LineReader(base::Descriptor input, std::string name, size_t longest_line)
      : input_(std::move(input)), name_(std::move(name)), longest_(longest_line) {}

  base::Descriptor input_;
  std::string name_;
  size_t longest_;
  std::string buffer_;
  size_t begin_ = 0;     // of what has not been given yet
  size_t searched_ = 0;  // no line ends in front of this
  bool too_long_ = false;
  bool ended_ = false;
  uint64_t bytes_read_ = 0;
};

}  // namespace msprobe::analysis::response_anomaly
