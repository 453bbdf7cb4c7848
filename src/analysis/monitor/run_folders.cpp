#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "src/analysis/monitor/run.h"
#include "src/analysis/monitor/stamp.h"
#include "src/base/files.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/json/value_tree.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestStamp = 20;
constexpr size_t kLongestRank = 5;
constexpr uint64_t kPlaceLimitBytes = 16U << 20U;

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsWord(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-';
  });
}

// "<stamp>-rank<R>-..."
std::optional<RunFolder> ParseFolderName(std::string_view name) {
  constexpr std::string_view kRank = "-rank";
  for (size_t at = name.find(kRank); at != std::string_view::npos && at <= kLongestStamp;
       at = name.find(kRank, at + 1)) {
    const size_t digits = at + kRank.size();
    const size_t end = name.find('-', digits);
    if (end != std::string_view::npos && end - digits <= kLongestRank &&
        IsDigits(name.substr(digits, end - digits)) && IsWord(name.substr(0, at))) {
      RunFolder folder;
      folder.stamp = name.substr(0, at);
      folder.rank = base::ParseInt(name.substr(digits, end - digits)).value_or(0);
      return folder;
    }
  }
  return std::nullopt;
}

std::vector<int64_t> Integers(const json::ValueTree& tree, std::string_view key) {
  std::vector<int64_t> numbers;
  const uint32_t node = tree.Find(0, key);
  if (node != json::ValueTree::kNone && tree[node].kind == json::ValueKind::kList) {
    tree.ForEachChild(node, [&](uint32_t child) {
      if (tree[child].kind == json::ValueKind::kInt) {
        numbers.push_back(tree[child].integer);
      }
    });
  }
  return numbers;
}

std::optional<Place> ReadPlace(const fs::path& folder) {
  const fs::path path = folder / "monitor.json";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return std::nullopt;
  }
  const Result<std::string> text = base::ReadTextFile(path, kPlaceLimitBytes);
  if (!text.ok()) {
    return std::nullopt;
  }
  const Result<json::ValueTree> parsed = json::ParseValueTree(*text);
  if (!parsed.ok() || (*parsed)[0].kind != json::ValueKind::kObject) {
    return std::nullopt;
  }
  const json::ValueTree& tree = *parsed;
  const auto integer = [&tree](std::string_view key) {
    const uint32_t node = tree.Find(0, key);
    return node == json::ValueTree::kNone ? 0 : tree[node].integer;
  };
  return Place{integer("world_size"), integer("pipeline_stage"), Integers(tree, "group_mates"),
               Integers(tree, "tensor_ranks"), Integers(tree, "data_ranks")};
}

// Where the year turns: the stamp behind the longest pause, if that is more than half a year.
int64_t FirstSecondOfRuns(std::vector<int64_t> seconds) {
  std::sort(seconds.begin(), seconds.end());
  int64_t first = 0;
  int64_t longest = kStampYearSeconds / 2;
  for (size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i] - seconds[i - 1] > longest) {
      longest = seconds[i] - seconds[i - 1];
      first = seconds[i];
    }
  }
  return first;
}

void SortFolders(std::vector<RunFolder>& folders) {
  std::vector<int64_t> seconds;
  for (const RunFolder& folder : folders) {
    if (const std::optional<int64_t> second = StampSecond(folder.stamp)) {
      seconds.push_back(*second);
    }
  }
  const int64_t first = FirstSecondOfRuns(seconds);
  const auto key = [first](const RunFolder& folder) {
    const int64_t second = StampSecond(folder.stamp).value_or(-1);
    return std::tuple(folder.rank,
                      second < first && second >= 0 ? second + kStampYearSeconds : second,
                      folder.path.native());
  };
  std::sort(folders.begin(), folders.end(),
            [&key](const RunFolder& a, const RunFolder& b) { return key(a) < key(b); });
}

}  // namespace

std::optional<int64_t> StampSecond(std::string_view stamp) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  // Mmmdd_HH-MM-SS
  if (stamp.size() != 14 || stamp[5] != '_' || stamp[8] != '-' || stamp[11] != '-') {
    return std::nullopt;
  }
  const auto* const month = std::find_if(
      kMonths.begin(), kMonths.end(),
      [&](std::string_view name) { return base::EqualsIgnoringCase(stamp.substr(0, 3), name); });
  const auto number = [stamp](size_t at, int64_t least, int64_t most) -> std::optional<int64_t> {
    const std::string_view digits = stamp.substr(at, 2);
    const int64_t value = IsDigits(digits) ? *base::ParseInt(digits) : -1;
    return value >= least && value <= most ? std::optional(value) : std::nullopt;
  };
  const std::optional<int64_t> day = number(3, 1, 31);
  const std::optional<int64_t> hour = number(6, 0, 23);
  const std::optional<int64_t> minute = number(9, 0, 59);
  const std::optional<int64_t> second = number(12, 0, 61);
  if (month == kMonths.end() || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  return ((((month - kMonths.begin()) * 31 + *day - 1) * 24 + *hour) * 60 + *minute) * 60 + *second;
}

Result<std::vector<RunFolder>> FindRunFolders(const fs::path& root, const FindOptions& options) {
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  for (const bool is_start : {true, false}) {
    const std::string& stamp = is_start ? options.time_start : options.time_end;
    if (!stamp.empty()) {
      std::optional<int64_t>& second = is_start ? start : end;
      second = StampSecond(stamp);
      if (!second.has_value()) {
        return UsageError(fmt::format("the {} time {} is none", is_start ? "start" : "end",
                                      base::Printable(stamp)))
            .WithHint("write it as in the names of the folders: Dec03_21-34-40");
      }
    }
  }
  if (start.has_value() && end.has_value() && *start > *end) {
    return UsageError(fmt::format("the start time {} is behind the end time {}", options.time_start,
                                  options.time_end));
  }
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    return NotFoundError(fmt::format("{} is no folder", root.string()));
  }
  std::vector<RunFolder> folders;
  size_t outside = 0;
  const auto add = [&](const fs::path& path, const std::string& name) {
    std::optional<RunFolder> folder = ParseFolderName(name);
    if (!folder.has_value()) {
      return;
    }
    const std::optional<int64_t> second = StampSecond(folder->stamp);
    if ((start.has_value() && (!second.has_value() || *second < *start)) ||
        (end.has_value() && (!second.has_value() || *second > *end))) {
      ++outside;
      return;
    }
    folder->path = path;
    folder->place = ReadPlace(path);
    folders.push_back(*std::move(folder));
  };
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(root));
  for (const std::string& name : names) {
    if (fs::is_directory(root / name, error)) {
      add(root / name, name);
    }
  }
  if (folders.empty() && outside == 0) {
    const fs::path whole = fs::absolute(root, error).lexically_normal();
    add(root, (whole.has_filename() ? whole : whole.parent_path()).filename().string());
  }
  if (folders.empty()) {
    return NotFoundError(
               outside > 0
                   ? fmt::format("{}: none of the {} of runs lies between the times asked for",
                                 root.string(), base::Plural(outside, "folder"))
                   : fmt::format("{} holds no folder of a monitored run", root.string()))
        .WithHint("they are named like Nov21_09-58-35-rank0-1a197c9e, below $MONITOR_OUTPUT_DIR");
  }
  SortFolders(folders);
  return folders;
}

std::vector<TableFile> FindTableFiles(const fs::path& folder) {
  std::vector<TableFile> files;
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  if (!names.ok()) {
    return files;
  }
  constexpr std::string_view kEnding = ".csv";
  for (const std::string& name : *names) {
    if (!name.ends_with(kEnding)) {
      continue;
    }
    const std::string_view stem = std::string_view(name).substr(0, name.size() - kEnding.size());
    const size_t underscore = stem.rfind('_');
    const size_t minus = stem.rfind('-');
    if (underscore == std::string_view::npos || underscore == 0 ||
        minus == std::string_view::npos || minus < underscore ||
        !IsDigits(stem.substr(underscore + 1, minus - underscore - 1)) ||
        !IsDigits(stem.substr(minus + 1))) {
      continue;
    }
    const std::optional<int64_t> first =
        base::ParseInt(stem.substr(underscore + 1, minus - underscore - 1));
    const std::optional<int64_t> last = base::ParseInt(stem.substr(minus + 1));
    if (first.has_value() && last.has_value()) {
      files.push_back({folder / name, std::string(stem.substr(0, underscore)), *first, *last});
    }
  }
  std::sort(files.begin(), files.end(), [](const TableFile& a, const TableFile& b) {
    return std::tie(a.table, a.first_step, a.last_step) <
           std::tie(b.table, b.first_step, b.last_step);
  });
  return files;
}

}  // namespace msprobe::monitor
