#include "src/analysis/response_anomaly/line_reader.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/output_files.h"

namespace msprobe::analysis::response_anomaly {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10U;
// A buffer that grew for a long line is given back.
constexpr size_t kKeptBufferBytes = size_t{8} << 20U;

}  // namespace

Result<LineReader> LineReader::Open(const std::filesystem::path& path, size_t longest_line) {
  if (base::IsFolder(path)) {
    return UsageError(fmt::format("{} is a folder", path.string()))
        .WithHint("give a file with one request per line");
  }
  MSP_ASSIGN_OR_RETURN(base::Descriptor input, base::OpenStream(path));
  return LineReader(std::move(input), path == "-" ? "the standard input" : path.string(),
                    longest_line);
}

Result<LineReader::Line> LineReader::Next(std::string_view& line) {
  line = {};
  for (;;) {
    const size_t end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      const size_t begin = std::exchange(begin_, end + 1);
      searched_ = begin_;
      if (std::exchange(too_long_, false)) {
        return Line::kTooLong;
      }
      line = std::string_view(buffer_).substr(begin, end - begin);
      return line.size() > longest_ ? Line::kTooLong : Line::kLine;
    }
    if (ended_) {
      const size_t begin = std::exchange(begin_, buffer_.size());
      searched_ = begin_;
      line = std::string_view(buffer_).substr(begin);
      const bool was_too_long = std::exchange(too_long_, false) || line.size() > longest_;
      return was_too_long ? Line::kTooLong : line.empty() ? Line::kEnd : Line::kLine;
    }
    buffer_.erase(0, std::exchange(begin_, 0));
    if (buffer_.size() > longest_) {
      too_long_ = true;
      buffer_.clear();
    }
    if (buffer_.empty() && buffer_.capacity() > kKeptBufferBytes) {
      buffer_ = {};
    }
    const size_t before = buffer_.size();
    searched_ = before;
    buffer_.resize(before + kPieceBytes);
    ssize_t count = 0;
    do {
      count = ::read(input_.get(), buffer_.data() + before, kPieceBytes);
    } while (count < 0 && errno == EINTR);
    buffer_.resize(before + static_cast<size_t>(count > 0 ? count : 0));
    if (count < 0) {
      return IoError(fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
    }
    bytes_read_ += static_cast<uint64_t>(count);
    ended_ = count == 0;
  }
}

}  // namespace msprobe::analysis::response_anomaly
