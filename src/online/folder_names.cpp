#include "src/online/folder_names.h"

#include <charconv>

#include <fmt/format.h>

namespace msprobe::online {
namespace {

constexpr std::string_view kRankWord = "rank";

template <typename Number>
std::optional<Number> WholeNumber(std::string_view text, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty()
             ? std::optional(number)
             : std::nullopt;
}

}  // namespace

std::string FolderFileName(const FolderFile& file) {
  const std::string begin = fmt::format("{}{}.{:016x}", kRankWord, file.rank, file.session);
  switch (file.kind) {
    case FrameKind::kHello:
      return begin + ".start";
    case FrameKind::kEnd:
      return begin + ".end";
    default:
      return fmt::format("{}.{:08}.call", begin, file.sequence);
  }
}

std::optional<FolderFile> ParseFolderFileName(std::string_view name) {
  FolderFile file;
  if (!name.starts_with(kRankWord)) {
    return std::nullopt;
  }
  const size_t first = name.find('.');
  const size_t last = name.rfind('.');
  if (first == std::string_view::npos || last == first) {
    return std::nullopt;
  }
  const std::string_view what = name.substr(last + 1);
  std::string_view middle = name.substr(first + 1, last - first - 1);
  if (what == "call") {
    const size_t dot = middle.find('.');
    const auto sequence = dot == std::string_view::npos
                              ? std::nullopt
                              : WholeNumber<uint64_t>(middle.substr(dot + 1), 10);
    if (!sequence) {
      return std::nullopt;
    }
    file.sequence = *sequence;
    middle = middle.substr(0, dot);
  } else if (what == "start" || what == "end") {
    file.kind = what == "start" ? FrameKind::kHello : FrameKind::kEnd;
  } else {
    return std::nullopt;
  }
  const auto rank =
      WholeNumber<int64_t>(name.substr(kRankWord.size(), first - kRankWord.size()), 10);
  const auto session = WholeNumber<uint64_t>(middle, 16);
  if (!rank || *rank < 0 || !session) {
    return std::nullopt;
  }
  file.rank = *rank;
  file.session = *session;
  // One spelling only, so that a name that was read names the file.
  return FolderFileName(file) == name ? std::optional(file) : std::nullopt;
}

}  // namespace msprobe::online
