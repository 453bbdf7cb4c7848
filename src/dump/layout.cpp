#include "src/dump/layout.h"

#include <algorithm>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/json_source.h"
#include "src/dump/names.h"

namespace msprobe::dump {
namespace {

namespace fs = std::filesystem;

NumberedName ParseNumbered(std::string_view name, std::string_view word) {
  NumberedName parsed;
  if (!name.starts_with(word)) {
    return parsed;
  }
  const std::string_view digits = name.substr(word.size());
  const bool all_digits =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits.empty() || !all_digits) {
    return parsed;
  }
  parsed.number = base::ParseInt(digits);
  parsed.valid = parsed.number.has_value();
  return parsed;
}

bool IsFolder(const fs::path& path) { return base::IsFolder(path); }

// The path with its own name last, also for ".", "a/.." and "a/": step and rank are read from
// names.
fs::path Named(const fs::path& path) {
  std::error_code ignored;
  return base::WithoutLastSlash(fs::absolute(path, ignored).lexically_normal());
}

bool LooksForDump(RankFolder& rank) {
  const internal::LeftLog log = internal::FindLeftLog(rank.folder);
  rank.has_dump =
      base::IsRegularFile(rank.folder / kDumpFileName) || log == internal::LeftLog::kDump;
  rank.has_debug =
      base::IsRegularFile(rank.folder / kDebugFileName) || log == internal::LeftLog::kDebug;
  return rank.has_dump || rank.has_debug;
}

// The rank folders of one step folder, and the step folder itself where the rank level is missing.
Status AddStep(const fs::path& folder, std::vector<RankFolder>& ranks) {
  RankFolder bare = NumberByNames(folder);
  if (LooksForDump(bare)) {
    ranks.push_back(std::move(bare));
    return {};
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  const auto add_where = [&](auto&& is_wanted) {
    const size_t before = ranks.size();
    for (const std::string& name : names) {
      if (is_wanted(name)) {
        RankFolder rank = NumberByNames(folder / name);
        if (LooksForDump(rank)) {
          ranks.push_back(std::move(rank));
        }
      }
    }
    return ranks.size() > before;
  };
  if (!add_where([](const std::string& name) { return ParseRankName(name).valid; })) {
    add_where([](const std::string& name) { return ParseProcessName(name).valid; });
  }
  return {};
}

// Everything below a folder that is a rank, step or dump folder; no ranks when it is none.
Result<std::vector<RankFolder>> FindRanks(const fs::path& path,
                                          const std::vector<std::string>& names) {
  std::vector<RankFolder> ranks;
  MSP_RETURN_IF_ERROR(AddStep(path, ranks));
  if (!ranks.empty()) {
    return ranks;
  }
  for (const std::string& name : names) {
    if (ParseStepName(name).valid && IsFolder(path / name)) {
      MSP_RETURN_IF_ERROR(AddStep(path / name, ranks));
    }
  }
  return ranks;
}

// The first folder below that would do: one level too high is the usual slip.
std::optional<fs::path> FindOneLevelDown(const fs::path& path,
                                         const std::vector<std::string>& names) {
  constexpr size_t kFoldersTried = 100;
  for (const std::string& name : std::span(names).first(std::min(names.size(), kFoldersTried))) {
    const fs::path below = path / name;
    if (!IsFolder(below)) {
      continue;
    }
    const Result<std::vector<std::string>> inner = base::ListFolder(below);
    if (!inner.ok()) {
      continue;
    }
    const Result<std::vector<RankFolder>> ranks = FindRanks(below, *inner);
    if (ranks.ok() && !ranks->empty()) {
      return below;
    }
  }
  return std::nullopt;
}

Status NothingFound(const fs::path& path, const std::vector<std::string>& names) {
  constexpr size_t kNamesShown = 8;
  std::string there = "it is empty";
  if (!names.empty()) {
    const size_t shown = std::min(names.size(), kNamesShown);
    there = "it holds " + base::Join(std::span(names).first(shown), ", ");
    if (names.size() > shown) {
      there += fmt::format(" and {} more", names.size() - shown);
    }
  }
  Status status = NotFoundError(fmt::format(
      "no dump in {}: expected {} or {} in it, in rank<M>/ or in step<N>/rank<M>/ below it, but {}",
      path.string(), kDumpFileName, kDebugFileName, there));
  if (const std::optional<fs::path> below = FindOneLevelDown(path, names)) {
    return std::move(status).WithHint("did you mean " + below->string() + "?");
  }
  return status;
}

Result<DumpLayout> FindInFile(const fs::path& path) {
  const std::string name = Named(path).filename().string();
  if (path.extension() != ".json") {
    return NotFoundError(
        fmt::format("{} is not a dump: expected a {}, a {} or a folder that holds them",
                    path.string(), kDumpFileName, kDebugFileName));
  }
  DumpLayout layout;
  layout.root = path;
  layout.is_single_file = true;
  layout.single_file_name = name;
  RankFolder rank = NumberByNames(path.has_parent_path() ? path.parent_path() : fs::path("."));
  rank.has_debug = name == kDebugFileName;
  rank.has_dump = !rank.has_debug;
  layout.ranks.push_back(std::move(rank));
  return layout;
}

// Step folders hold rank folders: two levels below the top.
constexpr int kStepLevels = 2;

Status AddFilesOfSteps(const fs::path& folder, int levels,
                       const std::function<bool(const fs::path&)>& is_wanted,
                       std::vector<fs::path>& files) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    if (levels > 0 && (ParseStepName(name).valid || ParseRankName(name).valid) && IsFolder(path)) {
      MSP_RETURN_IF_ERROR(AddFilesOfSteps(path, levels - 1, is_wanted, files));
    } else if (is_wanted(path)) {
      files.push_back(path);
    }
  }
  return {};
}

}  // namespace

const char* TensorFolderOf(std::string_view data_name) {
  const std::string of_reduced = std::string(kReducedGradientsEnd) + '.';
  return data_name.find(of_reduced) == std::string_view::npos ? kTensorFolderName
                                                              : kReducedTensorFolderName;
}

NumberedName ParseRankName(std::string_view name) {
  if (name == "rank") {
    return {true, std::nullopt};
  }
  return ParseNumbered(name, "rank");
}

NumberedName ParseStepName(std::string_view name) { return ParseNumbered(name, "step"); }

NumberedName ParseProcessName(std::string_view name) { return ParseNumbered(name, "proc"); }

RankFolder NumberByNames(const fs::path& folder) {
  RankFolder rank;
  rank.folder = folder;
  const fs::path named = Named(folder);
  const NumberedName own = ParseRankName(named.filename().string());
  rank.rank = own.number;
  const NumberedName process = ParseProcessName(named.filename().string());
  rank.process = process.number;
  // dump.json right in a step folder: no rank level at all.
  const fs::path step = own.valid || process.valid ? named.parent_path() : named;
  rank.step = ParseStepName(step.filename().string()).number;
  return rank;
}

Result<DumpLayout> FindDump(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFoundError(fmt::format("{} does not exist", path.string()));
  }
  if (error) {
    return IoError(fmt::format("cannot look at {}: {}", path.string(), error.message()));
  }
  if (!fs::is_directory(status)) {
    return FindInFile(path);
  }
  DumpLayout layout;
  layout.root = path;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(path));
  MSP_ASSIGN_OR_RETURN(layout.ranks, FindRanks(path, names));
  if (layout.ranks.empty()) {
    // The dump may be among the paths that could not be read: that does not make it another kind of
    // folder.
    MSP_RETURN_IF_ERROR(base::CheckUnseenPaths());
    return NothingFound(path, names);
  }
  std::stable_sort(
      layout.ranks.begin(), layout.ranks.end(), [](const RankFolder& a, const RankFolder& b) {
        return std::tuple(a.step, a.rank, a.process) < std::tuple(b.step, b.rank, b.process);
      });
  return layout;
}

Result<std::vector<fs::path>> FilesOfSteps(const fs::path& folder,
                                           const std::function<bool(const fs::path&)>& is_wanted) {
  std::vector<fs::path> files;
  Status status = AddFilesOfSteps(folder, kStepLevels, is_wanted, files);
  if (!status.ok() && status.code() != StatusCode::kNotFound) {
    return status;
  }
  return files;
}

}  // namespace msprobe::dump
