#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/profile/ascend_database/reader.h"
#include "src/profile/ascend_text/reader.h"
#include "src/profile/common/event_runs.h"
#include "src/profile/common/trace_events.h"
#include "src/profile/pytorch_trace/reader.h"

namespace msprobe::profile {
namespace {

constexpr std::string_view kOutputFolder = "ASCEND_PROFILER_OUTPUT";
constexpr std::string_view kTraceView = "trace_view.json";

bool StartsWithAny(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

bool IsTraceName(std::string_view name) {
  return name.ends_with(".pt.trace.json") || name.ends_with(".pt.trace.json.gz");
}

bool IsAscendFolderName(std::string_view name) {
  return name.ends_with("_ascend_pt") || name.ends_with("_ascend_ms");
}

bool IsDatabaseName(std::string_view name) {
  return name.ends_with(".db") &&
         StartsWithAny(name, {"ascend_pytorch_profiler", "ascend_mindspore_profiler", "msmonitor"});
}

// The number behind the last "rank" or "worker" of a name, or behind `prefix`.
std::optional<int64_t> NumberBehind(std::string_view name, std::string_view word) {
  const size_t at = name.rfind(word);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view digits = name.substr(at + word.size());
  digits.remove_prefix(std::min(digits.find_first_not_of("_-"), digits.size()));
  int64_t number = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return end.ec == std::errc() && number >= 0 ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> RankOfName(std::string_view name) {
  for (const std::string_view word : {"rank", "worker", "profiler_info_"}) {
    if (const std::optional<int64_t> rank = NumberBehind(name, word)) {
      return rank;
    }
  }
  return std::nullopt;
}

// Where an Ascend profile's files lie; nullopt when the folder is none.
struct AscendPlace {
  std::filesystem::path output;
  std::filesystem::path database;  // empty: text files
  std::optional<int64_t> rank;
};

Result<std::optional<AscendPlace>> FindAscend(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  AscendPlace place;
  for (const std::string& name : names) {
    if (name.starts_with("profiler_info_")) {
      place.rank = RankOfName(name);
    }
  }
  place.output = base::IsFolder(folder / kOutputFolder) ? folder / kOutputFolder : folder;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> files, base::ListFolder(place.output));
  const auto database = std::find_if(files.begin(), files.end(), IsDatabaseName);
  if (database != files.end()) {
    place.database = place.output / *database;
    return std::optional(place);
  }
  if (std::find(files.begin(), files.end(), kTraceView) != files.end()) {
    return std::optional(place);
  }
  return std::optional<AscendPlace>();
}

// Ranks that no name gives are counted in the order of names; equal ones are an error.
Status NumberRanks(const std::filesystem::path& folder, std::vector<RankPath>& found) {
  if (found.size() == 1) {
    return {};
  }
  std::set<int64_t> seen;
  const bool all_known = std::all_of(
      found.begin(), found.end(), [](const RankPath& profile) { return profile.rank.has_value(); });
  for (size_t index = 0; index < found.size(); ++index) {
    if (!all_known) {
      found[index].rank = static_cast<int64_t>(index);
    }
    if (!seen.insert(*found[index].rank).second) {
      return MismatchError(fmt::format("{} holds more than one profile of rank {}: {}",
                                       folder.string(), *found[index].rank,
                                       found[index].path.filename().string()))
          .WithHint("name the file or folder to use");
    }
  }
  std::sort(found.begin(), found.end(),
            [](const RankPath& a, const RankPath& b) { return *a.rank < *b.rank; });
  return {};
}

// Categories and names of processes that only one of the two writes into a list of events.
constexpr std::array<std::string_view, 3> kCategoriesOfAscend = {"async_npu", "enqueue", "dequeue"};
constexpr std::array<std::string_view, 5> kProcessesOfAscend = {
    "Ascend Hardware", "CANN", "HCCL", "Communication", "Overlap Analysis"};
constexpr std::array<std::string_view, 16> kCategoriesOfPytorch = {"kernel",
                                                                   "gpu_memcpy",
                                                                   "gpu_memset",
                                                                   "memcpy",
                                                                   "memset",
                                                                   "cuda_runtime",
                                                                   "cuda_driver",
                                                                   "hip_runtime",
                                                                   "hip_driver",
                                                                   "runtime",
                                                                   "ac2g",
                                                                   "async_gpu",
                                                                   "cpu_to_cuda",
                                                                   "cpu_instant_event",
                                                                   "gpu_user_annotation",
                                                                   "async_cpu_to_gpu"};

// PyTorch may write its events as a list, too: the events decide whether it is Ascend's.
Result<bool> IsAscendTrace(const std::filesystem::path& path) {
  const auto is_one_of = [](const auto& names, std::string_view wanted) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return base::EqualsIgnoringCase(name, wanted);
    });
  };
  MSP_ASSIGN_OR_RETURN(const EventRuns runs, EventRuns::Open(path));
  if (runs.root() == TraceRoot::kObject) {
    return false;
  }
  bool any_call = false;
  std::optional<bool> is_ascend;
  MSP_RETURN_IF_ERROR(ForEachEvent(path, [&](const TraceEvent& event) {
                        const bool of_ascend =
                            (event.name == "process_name" &&
                             is_one_of(kProcessesOfAscend, event.argument(Argument::kName).text)) ||
                            is_one_of(kCategoriesOfAscend, event.category) ||
                            event.name.starts_with("npu::") ||
                            event.argument(Argument::kTaskType).present();
                        if (of_ascend || is_one_of(kCategoriesOfPytorch, event.category)) {
                          is_ascend = of_ascend;
                        }
                        any_call =
                            any_call || !event.category.empty() || event.process == "CPU functions";
                        return !is_ascend.has_value();
                      }).status());
  return is_ascend.value_or(!any_call);
}

Result<Profile> ReadOne(const std::filesystem::path& path, const Needs& needs) {
  if (base::IsFolder(path)) {
    MSP_ASSIGN_OR_RETURN(const std::optional<AscendPlace> place, FindAscend(path));
    if (!place.has_value()) {
      return NotFoundError(fmt::format("{} holds no profile", path.string()));
    }
    Result<Profile> profile = place->database.empty() ? ReadAscendText(path, place->output, needs)
                                                      : ReadAscendDatabase(place->database, needs);
    if (profile.ok()) {
      profile->rank = place->rank;
    }
    return profile;
  }
  if (LooksLikeDatabase(path)) {
    return ReadAscendDatabase(path, needs);
  }
  MSP_ASSIGN_OR_RETURN(const bool is_ascend, IsAscendTrace(path));
  return is_ascend ? ReadAscendTrace(path, needs) : ReadPytorchTrace(path, needs);
}

}  // namespace

Result<std::vector<RankPath>> FindProfiles(const std::filesystem::path& path) {
  if (!base::IsFolder(path)) {
    if (!base::Exists(path)) {
      return NotFoundError(fmt::format("{} does not exist", path.string()));
    }
    return std::vector<RankPath>{{std::nullopt, path}};
  }
  MSP_ASSIGN_OR_RETURN(const std::optional<AscendPlace> ascend, FindAscend(path));
  if (ascend.has_value()) {
    return std::vector<RankPath>{{ascend->rank, path}};
  }
  std::vector<RankPath> found;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(path));
  for (const std::string& name : names) {
    if (IsTraceName(name)) {
      found.push_back({RankOfName(name), path / name});
    }
  }
  if (found.empty()) {
    for (const std::string& name : names) {
      if (!IsAscendFolderName(name) || !base::IsFolder(path / name)) {
        continue;
      }
      MSP_ASSIGN_OR_RETURN(const std::optional<AscendPlace> place, FindAscend(path / name));
      if (place.has_value()) {
        found.push_back({place->rank, path / name});
      }
    }
  }
  if (found.empty()) {
    return NotFoundError(fmt::format("{} holds no profile", path.string()))
        .WithHint(
            "looked for *.pt.trace.json[.gz], *_ascend_pt or *_ascend_ms folders, "
            "ASCEND_PROFILER_OUTPUT, trace_view.json and ascend_*_profiler*.db; profiles that were "
            "not parsed yet (PROF_*, FRAMEWORK) must be parsed by their profiler first");
  }
  MSP_RETURN_IF_ERROR(NumberRanks(path, found));
  return found;
}

Result<Profile> ReadProfile(const std::filesystem::path& path, const Needs& needs,
                            std::optional<int64_t> rank) {
  MSP_ASSIGN_OR_RETURN(const std::vector<RankPath> found, FindProfiles(path));
  const auto chosen = rank.has_value()
                          ? std::find_if(found.begin(), found.end(),
                                         [&](const RankPath& known) { return known.rank == rank; })
                          : found.begin();
  if (chosen == found.end() || (!rank.has_value() && found.size() > 1)) {
    std::vector<std::string> ranks;
    ranks.reserve(found.size());
    for (const RankPath& known : found) {
      ranks.push_back(known.rank.has_value() ? std::to_string(*known.rank) : "unknown");
    }
    return MismatchError(fmt::format("{} holds profiles of ranks {}{}", path.string(),
                                     base::Join(ranks, ", "),
                                     rank.has_value() ? fmt::format(", not {}", *rank) : ""));
  }
  MSP_ASSIGN_OR_RETURN(Profile profile, ReadOne(chosen->path, needs));
  profile.path = chosen->path;
  if (!profile.rank.has_value()) {
    profile.rank = chosen->rank;
  }
  return profile;
}

}  // namespace msprobe::profile
