#include "src/analysis/nan/rank_folders.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"

namespace msprobe::analysis::nan {
namespace {

namespace fs = std::filesystem;

bool HoldsDump(const fs::path& folder) {
  return base::IsRegularFile(folder / dump::kDumpFileName) ||
         base::IsRegularFile(folder / dump::kRecordLogName);
}

// The rank folders in a folder; those without a dump become warnings.
Result<StepFolder> ReadStep(const fs::path& folder) {
  StepFolder step;
  step.folder = folder;
  step.step =
      dump::ParseStepName(fs::absolute(folder).lexically_normal().filename().string()).number;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::vector<std::string> processes;
  for (const std::string& name : names) {
    if (!base::IsFolder(folder / name)) {
      continue;
    }
    if (name.starts_with("proc")) {
      processes.push_back(name);
    }
    const dump::NumberedName number = dump::ParseRankName(name);
    if (!number.valid) {
      continue;
    }
    if (!HoldsDump(folder / name)) {
      step.warnings.push_back(fmt::format("{} holds no {}: that rank is left out",
                                          (folder / name).string(), dump::kDumpFileName));
      continue;
    }
    step.ranks.push_back({number.number.value_or(0), folder / name});
  }
  if (step.ranks.empty() && step.warnings.empty() && processes.size() == 1 &&
      HoldsDump(folder / processes[0])) {
    step.ranks.push_back({0, folder / processes[0]});
  }
  std::stable_sort(step.ranks.begin(), step.ranks.end(),
                   [](const RankPath& a, const RankPath& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < step.ranks.size();) {
    if (step.ranks[i].rank != step.ranks[i - 1].rank) {
      ++i;
      continue;
    }
    step.warnings.push_back(fmt::format("{} and {} are both rank {}: the latter is left out",
                                        step.ranks[i - 1].folder.string(),
                                        step.ranks[i].folder.string(), step.ranks[i].rank));
    step.ranks.erase(step.ranks.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return step;
}

std::vector<fs::path> StepsIn(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::pair<int64_t, fs::path>> steps;
  for (const std::string& name : names) {
    const dump::NumberedName number = dump::ParseStepName(name);
    if (number.valid && base::IsFolder(folder / name)) {
      steps.emplace_back(*number.number, folder / name);
    }
  }
  std::sort(steps.begin(), steps.end());
  std::vector<fs::path> paths;
  paths.reserve(steps.size());
  for (auto& [number, path] : steps) {
    paths.push_back(std::move(path));
  }
  return paths;
}

Status NotAStep(const fs::path& path) {
  return NotFoundError(fmt::format("no dump in {}: expected rank<M>/{} in it", path.string(),
                                   dump::kDumpFileName))
      .WithHint("name the folder of one step, such as dump/step0");
}

Result<fs::path> ExistingFolder(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFoundError(fmt::format("{} does not exist", path.string()));
  }
  if (error) {
    return IoError(fmt::format("cannot look at {}: {}", path.string(), error.message()));
  }
  if (fs::is_directory(status)) {
    return path;
  }
  if (path.filename() == dump::kDumpFileName) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
  }
  return NotFoundError(fmt::format("{} is not a step's folder", path.string()))
      .WithHint("name the folder of one step, such as dump/step0");
}

}  // namespace

Result<StepFolder> FindStep(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const fs::path folder, ExistingFolder(path));
  if (HoldsDump(folder)) {
    const fs::path named = fs::absolute(folder).lexically_normal();
    const std::string name = base::WithoutLastSlash(named).filename().string();
    StepFolder step;
    step.folder = folder;
    step.ranks.push_back({dump::ParseRankName(name).number.value_or(0), folder});
    return step;
  }
  MSP_ASSIGN_OR_RETURN(StepFolder step, ReadStep(folder));
  if (!step.ranks.empty()) {
    return step;
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  const std::vector<fs::path> steps = StepsIn(folder, names);
  if (steps.size() == 1) {
    MSP_ASSIGN_OR_RETURN(StepFolder only, ReadStep(steps[0]));
    if (!only.ranks.empty()) {
      return only;
    }
  }
  if (steps.size() > 1) {
    return UsageError(fmt::format("{} holds {}", path.string(), base::Plural(steps.size(), "step")))
        .WithHint(fmt::format("choose one, such as {}, or search them all with --all-steps {}",
                              steps[0].string(), path.string()));
  }
  if (!step.warnings.empty()) {
    return NotFoundError(
        fmt::format("no rank in {} holds a {}", path.string(), dump::kDumpFileName));
  }
  return NotAStep(path);
}

Result<std::vector<StepFolder>> FindSteps(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const fs::path folder, ExistingFolder(path));
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::vector<StepFolder> steps;
  for (const fs::path& found : StepsIn(folder, names)) {
    MSP_ASSIGN_OR_RETURN(StepFolder step, ReadStep(found));
    if (!step.ranks.empty()) {
      steps.push_back(std::move(step));
    }
  }
  if (steps.empty()) {
    return NotFoundError(fmt::format("no steps with dumps in {}", path.string()))
        .WithHint("--all-steps takes the folder that holds step0, step1, ...");
  }
  return steps;
}

}  // namespace msprobe::analysis::nan
