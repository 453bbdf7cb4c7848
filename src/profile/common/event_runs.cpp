#include "src/profile/common/event_runs.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "src/base/files.h"
#include "src/base/utf8.h"

namespace msprobe::profile {
namespace {

constexpr std::string_view kKey = "traceEvents";
constexpr size_t kRunBytes = size_t{1} << 22U;
constexpr size_t kFirstBytes = size_t{1} << 16U;  // grows: many traces of a cluster are small
constexpr size_t kLongestEventBytes = size_t{256} << 20U;
// Traces are packed to a twentieth or so; a file of zeros and their like to a thousandth.
constexpr uint64_t kUnpackedTimesFileSize = 64;
constexpr uint64_t kFreeUnpackedBytes = uint64_t{16} << 20U;
constexpr unsigned kZlibBufferBytes = 1U << 18U;
constexpr size_t kReadBytes = size_t{1} << 20U;
constexpr size_t kLongestHead = 4096;  // of an event, in front of its phase
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kPhaseKey = "\"ph\"";

}  // namespace

size_t FindEventStart(std::string_view text, size_t from) {
  // Each byte is looked at once: a phase behind another one in the same braces says no more.
  size_t looked_at = from;
  for (size_t phase = text.find(kPhaseKey, from); phase != std::string_view::npos;
       phase = text.find(kPhaseKey, looked_at)) {
    const size_t lowest = phase - std::min(phase - looked_at, kLongestHead);
    looked_at = phase + kPhaseKey.size();
    const std::string_view head = text.substr(lowest, phase - lowest);
    const size_t brace = head.find_last_of("{}");
    if (brace == std::string_view::npos || head[brace] == '}') {
      continue;
    }
    const size_t begin = lowest + brace;
    const std::string_view before = text.substr(0, begin);
    const size_t comma = before.find_last_not_of(kBlanks);
    if (comma == std::string_view::npos || before[comma] != ',') {
      continue;
    }
    const size_t end = before.substr(0, comma).find_last_not_of(kBlanks);
    if (end != std::string_view::npos && before[end] == '}') {
      return begin;
    }
  }
  return std::string_view::npos;
}

Result<EventRuns> EventRuns::Open(const std::filesystem::path& path) {
  EventRuns runs;
  runs.path_ = path;
  // Plain files pass through zlib's reader as they are.
  MSP_ASSIGN_OR_RETURN(base::InputFile input, base::InputFile::Open(path));
  runs.file_.reset(gzdopen(input.descriptor(), "rb"));
  if (runs.file_ == nullptr) {
    return IoError(fmt::format("cannot open {}: out of memory", path.string()));
  }
  input.Release();  // closed with the other
  gzbuffer(runs.file_.get(), kZlibBufferBytes);
  runs.unpacked_left_ = gzdirect(runs.file_.get()) != 0
                            ? std::numeric_limits<uint64_t>::max()
                            : kUnpackedTimesFileSize * input.size_bytes() + kFreeUnpackedBytes;
  runs.buffer_.resize(kFirstBytes + 2);
  MSP_RETURN_IF_ERROR(runs.Fill());
  const std::string_view text(runs.buffer_.data() + 1, runs.filled_ - 1);
  size_t first = text.starts_with(base::kByteOrderMark) ? base::kByteOrderMark.size() : 0;
  first = text.find_first_not_of(" \t\r\n", first);
  const char opening = first == std::string_view::npos ? '\0' : text[first];
  if (opening != '[' && opening != '{') {
    return Status(StatusCode::kBadFormat,
                  fmt::format("{} is not a trace: it {}", path.string(),
                              opening == '\0' ? "is empty" : "starts neither with [ nor with {"));
  }
  runs.root_ = opening == '[' ? TraceRoot::kList : TraceRoot::kObject;
  runs.list_depth_ = opening == '[' ? 1 : 2;
  return runs;
}

void EventRuns::CloseFile::operator()(gzFile_s* file) const { gzclose(file); }

Result<std::optional<std::span<char>>> EventRuns::Next() {
  Consume();
  while (true) {
    Scan();
    const bool enough =
        filled_ > kRunBytes || file_ended_ || list_position_ == ListPosition::kBehind;
    if (enough && (run_end_ != 0 || CutUnendingEvent())) {
      break;
    }
    if (list_position_ == ListPosition::kBehind || file_ended_) {
      const bool needs_no_bracket = root_ == TraceRoot::kList && any_run_ && !broke_off_ &&
                                    list_position_ == ListPosition::kInside && depth_ == 1 &&
                                    !in_text_;
      truncated_ = list_position_ != ListPosition::kBehind && !needs_no_bracket;
      return std::optional<std::span<char>>();
    }
    if (list_position_ == ListPosition::kBefore) {
      // Nothing in front of the events is needed.
      buffer_offset_ += filled_ - 1;
      filled_ = 1;
      scanned_ = 1;
    }
    MSP_RETURN_IF_ERROR(Fill());
  }
  while (run_begin_ < run_end_ && buffer_[run_begin_] != '{') {
    ++run_begin_;  // commas and blanks between two runs
  }
  any_run_ = true;
  run_offset_ = buffer_offset_ + run_begin_ - 1;
  buffer_[run_begin_ - 1] = '[';
  saved_ = buffer_[run_end_];
  saved_at_ = run_end_;
  buffer_[run_end_] = ']';
  return std::optional(std::span<char>(buffer_.data() + run_begin_ - 1, run_end_ - run_begin_ + 2));
}

// Ends the run in front of an event that begins inside of one that does not end, and goes on there.
bool EventRuns::CutUnendingEvent() {
  if (list_position_ != ListPosition::kInside) {
    return false;
  }
  const std::string_view text(buffer_.data(), filled_);
  const size_t begin = text.find('{', run_begin_);
  if (begin == std::string_view::npos) {
    return false;
  }
  const size_t next = FindEventStart(text, std::max(begin + 1, searched_));
  if (next == std::string_view::npos) {
    searched_ = filled_ - std::min(filled_, kLongestHead);
    return false;
  }
  run_end_ = text.substr(0, next).rfind('}') + 1;
  searched_ = 0;
  scanned_ = next;
  depth_ = list_depth_;
  in_text_ = false;
  escaped_ = false;
  return true;
}

// Drops the last run and moves what follows it to the front.
void EventRuns::Consume() {
  if (saved_at_ == 0) {
    return;
  }
  buffer_[saved_at_] = saved_;
  const size_t rest = filled_ - saved_at_;
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(saved_at_), rest, buffer_.begin() + 1);
  buffer_offset_ += saved_at_ - 1;
  filled_ = rest + 1;
  scanned_ -= saved_at_ - 1;
  run_begin_ = 1;
  run_end_ = 0;
  searched_ = 0;
  saved_at_ = 0;
}

// Reads on; makes room for one more read first.
Status EventRuns::Fill() {
  if (buffer_.size() - filled_ < 2) {
    if (buffer_.size() > kLongestEventBytes) {
      return {StatusCode::kBadFormat,
              fmt::format("{} byte {}: an event of more than {} MB", path_.string(),
                          buffer_offset_ + run_begin_ - 1, kLongestEventBytes >> 20U)};
    }
    buffer_.resize(buffer_.size() * 2);
  }
  const size_t room = std::min(buffer_.size() - filled_ - 1, kReadBytes);
  const int count = gzread(file_.get(), buffer_.data() + filled_, static_cast<unsigned>(room));
  if (count < 0) {
    int code = Z_OK;
    const char* what = gzerror(file_.get(), &code);
    if (code != Z_BUF_ERROR && code != Z_DATA_ERROR) {
      return {StatusCode::kIo, fmt::format("cannot read {}: {}", path_.string(), what)};
    }
    file_ended_ = true;  // a compressed file that breaks off: what came before it counts
    broke_off_ = true;
    return {};
  }
  filled_ += static_cast<size_t>(count);
  file_ended_ = static_cast<size_t>(count) < room;
  if (file_ended_) {
    int code = Z_OK;
    gzerror(file_.get(), &code);
    broke_off_ = code != Z_OK && code != Z_STREAM_END;
  }
  if (static_cast<uint64_t>(count) > unpacked_left_) {
    unpacks_too_far_ = true;
    broke_off_ = true;
    file_ended_ = true;
    return {};
  }
  unpacked_left_ -= static_cast<uint64_t>(count);
  return {};
}

void EventRuns::Scan() {
  while (scanned_ < filled_ && list_position_ != ListPosition::kBehind) {
    const bool only_brackets = list_position_ == ListPosition::kInside || depth_ > 1;
    if (only_brackets && filled_ - scanned_ >= kJsonBlockBytes) {
      ScanBlock();
      continue;
    }
    const char c = buffer_[scanned_];
    if (in_text_) {
      ScanText(c);
    } else {
      ScanByte(c, scanned_);
    }
    ++scanned_;
  }
}

// Sixty-four bytes, or as many as there are in front of where every byte counts again.
void EventRuns::ScanBlock() {
  const size_t begin = scanned_;
  TextState state{in_text_, escaped_};
  uint64_t brackets = BracketsOutsideTexts(FindPlaces(buffer_.data() + begin), state);
  for (; brackets != 0; brackets &= brackets - 1) {
    const size_t at = begin + static_cast<size_t>(std::countr_zero(brackets));
    ScanByte(buffer_[at], at);
    if (list_position_ == ListPosition::kBehind ||
        (list_position_ == ListPosition::kBefore && depth_ <= 1)) {
      in_text_ = false;
      escaped_ = false;
      scanned_ = at + 1;
      return;
    }
  }
  in_text_ = state.in_text;
  escaped_ = state.escaped && state.in_text;
  scanned_ = begin + kJsonBlockBytes;
}

void EventRuns::ScanText(char c) {
  if (escaped_) {
    escaped_ = false;
    key_matched_ = kKey.size() + 1;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    in_text_ = false;
    key_seen_ = depth_ == 1 && key_matched_ == kKey.size();
  } else if (depth_ == 1) {
    const bool fits = key_matched_ < kKey.size() && kKey[key_matched_] == c;
    key_matched_ = fits ? key_matched_ + 1 : kKey.size() + 1;
  }
}

void EventRuns::ScanByte(char c, size_t at) {
  switch (c) {
    case '"':
      in_text_ = true;
      key_matched_ = 0;
      break;
    case ',':
      key_seen_ = key_seen_ && depth_ != 1;
      break;
    case '{':
      ++depth_;
      break;
    case '[':
      ++depth_;
      if (list_position_ == ListPosition::kBefore && depth_ == list_depth_ &&
          (root_ == TraceRoot::kList || key_seen_)) {
        list_position_ = ListPosition::kInside;
        run_begin_ = at + 1;
      }
      break;
    case '}':
      --depth_;
      if (list_position_ == ListPosition::kInside && depth_ == list_depth_) {
        run_end_ = at + 1;
      }
      break;
    case ']':
      --depth_;
      if (list_position_ == ListPosition::kInside && depth_ < list_depth_) {
        list_position_ = ListPosition::kBehind;
      }
      break;
    default:
      break;
  }
}

}  // namespace msprobe::profile
