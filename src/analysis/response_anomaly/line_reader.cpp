#include "src/analysis/response_anomaly/line_reader.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace msprobe::analysis::response_anomaly {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10U;
// A buffer that grew for a long line is given back.
constexpr size_t kKeptBufferBytes = size_t{8} << 20U;

}  // namespace

Result<LineReader> LineReader::Open(const std::filesystem::path& path, size_t longest_line) {
  if (path == "-") {
    return LineReader(STDIN_FILENO, false, "the standard input", longest_line);
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int reason = errno;
    std::string message = fmt::format("cannot open {}: {}", path.string(), std::strerror(reason));
    return reason == ENOENT || reason == ENOTDIR ? NotFoundError(std::move(message))
                                                 : IoError(std::move(message));
  }
  LineReader reader(descriptor, true, path.string(), longest_line);
  struct stat state = {};
  if (::fstat(descriptor, &state) != 0) {
    return IoError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  if (S_ISDIR(state.st_mode)) {
    return UsageError(fmt::format("{} is a folder", path.string()))
        .WithHint("give a file with one request per line");
  }
  return reader;
}

LineReader::LineReader(LineReader&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      owned_(other.owned_),
      name_(std::move(other.name_)),
      longest_(other.longest_),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      searched_(other.searched_),
      too_long_(other.too_long_),
      ended_(other.ended_),
      bytes_read_(other.bytes_read_) {}

LineReader::~LineReader() {
  if (owned_ && descriptor_ >= 0) {
    ::close(descriptor_);
  }
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
      count = ::read(descriptor_, buffer_.data() + before, kPieceBytes);
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
