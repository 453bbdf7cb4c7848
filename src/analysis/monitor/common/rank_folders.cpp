#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/files.h"
#include "src/base/folder_path.h"
#include "src/base/number_text.h"
#include "src/base/path_kind.h"
#include "src/base/strings.h"
#include "src/json/value_tree.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/settings.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kYearSeconds = int64_t{366} * 24 * 3600;
constexpr uint64_t kPlaceLimitBytes = 16U << 20U;

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::vector<int64_t>> Integers(const json::ValueTree& tree, std::string_view key) {
  const uint32_t node = tree.Find(0, key);
  if (node == json::ValueTree::kNone || tree[node].kind != json::ValueKind::kList) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  tree.ForEachChild(node, [&](uint32_t child) {
    if (tree[child].kind == json::ValueKind::kInt) {
      numbers.push_back(tree[child].integer);
    }
  });
  return numbers;
}

// The decimals of the settings, see docs/formats/monitor_config.md.
double RoundingOf(const json::ValueTree& tree) {
  constexpr int64_t kMostDigits = 20;
  const uint32_t settings = tree.Find(0, "settings");
  if (settings == json::ValueTree::kNone) {
    return 0;
  }
  const uint32_t digits = tree.Find(settings, "ndigits");
  if (digits != json::ValueTree::kNone && tree[digits].kind == json::ValueKind::kInt &&
      tree[digits].integer >= 0 && tree[digits].integer <= kMostDigits) {
    return std::pow(10.0, -static_cast<double>(tree[digits].integer));
  }
  const uint32_t compat = tree.Find(settings, "compat");
  const bool is_compat = compat != json::ValueTree::kNone && tree[compat].boolean;
  return is_compat ? std::pow(10.0, -msprobe::monitor::Settings().digits) : 0;
}

// What monitor.json says.
void ReadMonitorFile(RankFolder& folder) {
  const fs::path path = folder.path / msprobe::monitor::kTopologyFileName;
  if (!base::IsRegularFile(path)) {
    return;
  }
  const Result<std::string> text = base::ReadTextFile(path, kPlaceLimitBytes);
  if (!text.ok()) {
    base::NoteUnseen(text.status());
    return;
  }
  const Result<json::ValueTree> parsed = json::ParseValueTree(*text);
  if (!parsed.ok() || (*parsed)[0].kind != json::ValueKind::kObject) {
    return;
  }
  const json::ValueTree& tree = *parsed;
  const auto integer = [&tree](std::string_view key) {
    const uint32_t node = tree.Find(0, key);
    return node == json::ValueTree::kNone ? 0 : tree[node].integer;
  };
  msprobe::monitor::RankTopology& topology = folder.topology.emplace();
  topology.rank = integer("rank");
  topology.world_size = integer("world_size");
  topology.pipeline_stage = integer("pipeline_stage");
  topology.pipeline_ranks = Integers(tree, "group_mates").value_or(std::vector<int64_t>());
  topology.tensor_ranks = Integers(tree, "tensor_ranks");
  topology.data_ranks = Integers(tree, "data_ranks");
  folder.rounding = RoundingOf(tree);
}

// Where the year turns: the stamp behind the longest pause, if that is more than half a year.
int64_t FirstSecondOfRuns(std::vector<int64_t> seconds) {
  std::sort(seconds.begin(), seconds.end());
  int64_t first = 0;
  int64_t longest = kYearSeconds / 2;
  for (size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i] - seconds[i - 1] > longest) {
      longest = seconds[i] - seconds[i - 1];
      first = seconds[i];
    }
  }
  return first;
}

void SortFolders(std::vector<RankFolder>& folders) {
  std::vector<int64_t> seconds;
  for (const RankFolder& folder : folders) {
    if (const std::optional<int64_t> second = msprobe::monitor::StampOrder(folder.stamp)) {
      seconds.push_back(*second);
    }
  }
  const int64_t first = FirstSecondOfRuns(seconds);
  const auto key = [first](const RankFolder& folder) {
    const int64_t second = msprobe::monitor::StampOrder(folder.stamp).value_or(-1);
    return std::tuple(folder.rank, second < first && second >= 0 ? second + kYearSeconds : second,
                      folder.path.native());
  };
  std::sort(folders.begin(), folders.end(),
            [&key](const RankFolder& a, const RankFolder& b) { return key(a) < key(b); });
}

}  // namespace

Result<std::vector<RankFolder>> FindRankFolders(const fs::path& root, const FindOptions& options) {
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  for (const bool is_start : {true, false}) {
    const std::string& stamp = is_start ? options.time_start : options.time_end;
    if (!stamp.empty()) {
      std::optional<int64_t>& second = is_start ? start : end;
      second = msprobe::monitor::StampOrder(stamp);
      if (!second.has_value()) {
        return UsageError(fmt::format("the {} time {} is not a time stamp",
                                      is_start ? "start" : "end", base::Printable(stamp)))
            .WithHint("write it as in the folder names: Dec03_21-34-40");
      }
    }
  }
  if (start.has_value() && end.has_value() && *start > *end) {
    return UsageError(fmt::format("the start time {} is after the end time {}", options.time_start,
                                  options.time_end));
  }
  std::error_code error;
  if (!base::IsFolder(root)) {
    return NotFoundError(fmt::format("{}: no such directory", root.string()));
  }
  std::vector<RankFolder> folders;
  size_t outside = 0;
  const auto add = [&](const fs::path& path, const std::string& name) {
    const std::optional<msprobe::monitor::OutputFolderName> parts =
        msprobe::monitor::ParseOutputFolderName(name);
    if (!parts.has_value()) {
      return;
    }
    const std::optional<int64_t> second = msprobe::monitor::StampOrder(parts->stamp);
    if ((start.has_value() && (!second.has_value() || *second < *start)) ||
        (end.has_value() && (!second.has_value() || *second > *end))) {
      ++outside;
      return;
    }
    folders.push_back({path, parts->stamp, parts->rank, std::nullopt, std::nullopt});
    ReadMonitorFile(folders.back());
  };
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(root));
  for (const std::string& name : names) {
    if (base::IsFolder(root / name)) {
      add(root / name, name);
    }
  }
  if (folders.empty() && outside == 0) {
    const fs::path whole = fs::absolute(root, error).lexically_normal();
    add(root, base::WithoutLastSlash(whole).filename().string());
  }
  if (folders.empty()) {
    return NotFoundError(
               outside > 0 ? fmt::format("{}: none of the {} of runs is within the requested times",
                                         root.string(), base::Plural(outside, "folder"))
                           : fmt::format("{} contains no monitored run", root.string()))
        .WithHint(
            "its folders are named like Nov21_09-58-35-rank0-1a197c9e, below $MONITOR_OUTPUT_DIR");
  }
  SortFolders(folders);
  return folders;
}

std::vector<TableFile> FindTableFiles(const fs::path& folder) {
  std::vector<TableFile> files;
  constexpr std::string_view kEnding = ".csv";
  for (const std::string& name : base::NamesIn(folder)) {
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

}  // namespace msprobe::analysis::monitor
