#include "src/base/process_share.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "src/base/number_text.h"

namespace msprobe::base {
namespace {

constexpr uint64_t kMaxPartBytes = uint64_t{1} << 30U;
constexpr std::chrono::milliseconds kFirstPause{20};
constexpr std::chrono::milliseconds kLongestPause{1000};

struct Launcher {
  const char* index;
  const char* count;
  std::array<const char*, 2> identity;  // joined; unset ones are left out
};
// SLURM_NTASKS is set in the job script, too; the task count of a step only by srun.
constexpr std::array<Launcher, 3> kLaunchers = {
    {{"OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE",
      {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}},
     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
     {"PMI_RANK", "PMI_SIZE", {"PMI_JOBID", "SLURM_JOB_ID"}}}};

std::optional<size_t> NumberOf(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = ParseInt(text);
  return number.has_value() && *number >= 0 ? std::optional(static_cast<size_t>(*number))
                                            : std::nullopt;
}

// Letters and digits only: it becomes part of a folder's name.
std::string IdentityOf(const Launcher& launcher) {
  std::string identity;
  for (const char* variable : launcher.identity) {
    if (const char* text = std::getenv(variable)) {
      identity += '_';
      for (const char c : std::string_view(text).substr(0, 64)) {
        const bool plain =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        identity += plain ? c : '-';
      }
    }
  }
  return identity;
}

Path PartFile(const Path& folder, const ProcessShare& share, size_t index) {
  return folder / fmt::format("part_{}_of_{}.json", index, share.count);
}

}  // namespace

ProcessShare ShareFromEnvironment() {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<size_t> index = NumberOf(launcher.index);
    const std::optional<size_t> count = NumberOf(launcher.count);
    if (index.has_value() && count.has_value() && *index < *count) {
      return {*index, *count, IdentityOf(launcher)};
    }
  }
  return {};
}

Path PartsFolder(const Path& output, std::string_view command, const ProcessShare& share) {
  return output / fmt::format(".{}_parts{}", command, share.launch);
}

Status DeliverPart(const Path& folder, const ProcessShare& share, std::string_view text) {
  MSP_RETURN_IF_ERROR(CreateFolders(folder));
  return WriteFileAtomically(PartFile(folder, share, share.index), text);
}

Result<std::vector<Part>> CollectParts(const Path& folder, const ProcessShare& share,
                                       std::chrono::seconds patience, std::vector<size_t>& late) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<Part> parts;
  std::chrono::milliseconds pause = kFirstPause;
  std::vector<size_t> waiting(share.count);
  for (size_t index = 0; index < share.count; ++index) {
    waiting[index] = index;
  }
  std::error_code ignored;
  while (true) {
    std::vector<size_t> still;
    for (const size_t index : waiting) {
      const Path file = PartFile(folder, share, index);
      if (!std::filesystem::exists(file, ignored)) {
        still.push_back(index);
        continue;
      }
      MSP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(file, kMaxPartBytes));
      parts.push_back({file, std::move(text)});
      std::filesystem::remove(file, ignored);
    }
    waiting = std::move(still);
    if (waiting.empty() || std::chrono::steady_clock::now() >= deadline) {
      break;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  late = std::move(waiting);
  if (late.empty()) {
    std::filesystem::remove(folder, ignored);  // fails, rightly, where it is not empty
  }
  return parts;
}

}  // namespace msprobe::base
