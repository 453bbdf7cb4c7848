#include "src/capture/run_identity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/json/config.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAncestors = 64;
constexpr std::string_view kProcess = "process-";

std::string TextOf(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::string() : std::string(text);
}

struct ProcessFacts {
  bool ended = false;  // and not waited for by its parent yet
  int64_t parent = 0;
  std::string start;  // in ticks since the boot: a number is given to many processes in turn
};

std::optional<ProcessFacts> FactsOf(int64_t process) {
  // "pid (name) state ppid ...": the name may hold anything, also ")". Start is the 22nd field.
  constexpr uint64_t kMostBytes = 65536;
  std::string text(kMostBytes, '\0');
  std::FILE* const file = std::fopen(fmt::format("/proc/{}/stat", process).c_str(), "re");
  if (file == nullptr) {
    return std::nullopt;
  }
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  const std::string rest = text.substr(name_end + 1);
  std::vector<std::string_view> fields;
  for (const std::string_view field : base::Split(rest, ' ')) {
    if (!field.empty()) {
      fields.push_back(field);
    }
  }
  constexpr size_t kState = 0;
  constexpr size_t kParent = 1;
  constexpr size_t kStart = 19;
  const std::optional<int64_t> parent =
      fields.size() > kStart ? base::ParseInt(fields[kParent]) : std::nullopt;
  if (!parent) {
    return std::nullopt;
  }
  const bool ended = fields[kState] == "Z" || fields[kState] == "X";
  return ProcessFacts{ended, *parent, std::string(fields[kStart])};
}

// Of a host since its last boot.
std::string BootId() {
  std::array<char, 64> text{};
  if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    const size_t bytes = std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
    return std::string(base::Trim(std::string_view(text.data(), bytes))).substr(0, 13);
  }
  return "unknown";
}

std::string ProcessName(int64_t process, const ProcessFacts& facts) {
  return fmt::format("{}{}-{}-{}", kProcess, BootId(), process, facts.start);
}

int64_t NanosecondsNow() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

std::string FindRunIdentity() {
  if (std::string given = TextOf("MSPROBE_RUN_ID"); !given.empty()) {
    return given;
  }
  const std::string elastic = TextOf("TORCHELASTIC_RUN_ID");
  if (!elastic.empty() && elastic != "none") {
    return "torchrun-" + elastic;
  }
  // torchrun without an id: what it starts again after a failure is the same run.
  if (!elastic.empty()) {
    if (const std::optional<ProcessFacts> parent = FactsOf(::getppid())) {
      return ProcessName(::getppid(), *parent);
    }
  }
  // Without /proc: in containers the same few numbers of processes come again and again.
  return FactsOf(::getpid()) ? ProcessIdentity()
                             : fmt::format("{}-{}", ProcessIdentity(), NanosecondsNow());
}

// The text of a key of a folder's manifest: empty without the key, an error without a manifest.
Result<std::string> FromManifest(const base::Path& rank_folder, std::string_view key) {
  MSP_ASSIGN_OR_RETURN(const json::Config manifest,
                       json::LoadJsonConfig(rank_folder / dump::kManifestFileName));
  const json::ConfigValue* value = manifest.root.Find(key);
  return value != nullptr && value->kind == json::ConfigKind::kText ? value->text : std::string();
}

bool HasResults(const base::Path& folder) {
  std::error_code ignored;
  return std::any_of(kResultNames.begin(), kResultNames.end(), [&](std::string_view name) {
    return fs::exists(fs::symlink_status(folder / name, ignored));
  });
}

// A folder that does not say whose it is may be one that a sibling has just begun or moves away at
// this moment: it is locked, or says more a little later.
bool IsOfOtherRun(const base::Path& folder) {
  constexpr int kLooks = 3;
  for (int look = 0; look < kLooks; ++look) {
    const Result<std::string> run = RunOfDump(folder);
    if (!run.ok() || IsThisRun(*run) || IsLivingProcess(*run) ||
        dump::IsBeingWritten(folder / dump::kRecordLogName)) {
      return false;
    }
    if (!run->empty()) {
      return true;
    }
    ::usleep(1000);
  }
  return true;
}

}  // namespace

std::string ProcessIdentity() {
  const std::optional<ProcessFacts> self = FactsOf(::getpid());
  return self ? ProcessName(::getpid(), *self) : fmt::format("{}{}", kProcess, ::getpid());
}

bool IsLivingProcess(std::string_view process) {
  if (!process.starts_with(kProcess)) {
    return false;
  }
  const size_t last = process.rfind('-');
  const size_t before = process.rfind('-', last - 1);
  const std::optional<int64_t> number =
      last > before ? base::ParseInt(process.substr(before + 1, last - before - 1)) : std::nullopt;
  const std::optional<ProcessFacts> facts = number ? FactsOf(*number) : std::nullopt;
  return facts && !facts->ended && ProcessName(*number, *facts) == process;
}

const std::string& RunIdentity() {
  static const std::string kIdentity = FindRunIdentity();
  return kIdentity;
}

bool IsThisRun(std::string_view run) {
  if (run.empty()) {
    return false;
  }
  if (run == RunIdentity()) {
    return true;
  }
  int64_t process = ::getpid();
  for (int i = 0; i < kMostAncestors && process > 0; ++i) {
    const std::optional<ProcessFacts> facts = FactsOf(process);
    if (!facts) {
      return false;
    }
    if (ProcessName(process, *facts) == run) {
      return true;
    }
    process = facts->parent;
  }
  return false;
}

Result<std::string> RunOfDump(const base::Path& rank_folder) {
  if (Result<std::string> run = FromManifest(rank_folder, "run"); run.ok()) {
    return run;
  }
  std::error_code error;
  const base::Path log_path = rank_folder / dump::kRecordLogName;
  if (fs::file_size(log_path, error) > 0 && !error) {
    return dump::RunOfLog(log_path);
  }
  if (HasResults(rank_folder)) {
    return std::string();
  }
  return NotFoundError(fmt::format("{} holds no dump", rank_folder.string()));
}

bool ReplacesOtherRuns() { return !TextOf("MSPROBE_REPLACE_DUMP").empty(); }

Status OtherRunError(const base::Path& folder) {
  return IoError(fmt::format("{} holds the dump of another run, which is neither replaced nor "
                             "mixed with; nothing is captured",
                             folder.string()))
      .WithHint(
          "name another dump_path, or delete that dump; msprobe dump --force (or "
          "MSPROBE_REPLACE_DUMP=1) replaces it; runs with the same MSPROBE_RUN_ID count as one");
}

Status BusyError(const base::Path& folder) {
  return UsageError(
             fmt::format("{} is being written by another process right now", folder.string()))
      .WithHint(
          "give every process a rank of its own (start capture after the process group is "
          "initialised), or a dump_path of its own");
}

Status CheckLivingOwner(const base::Path& rank_folder) {
  const Result<std::string> process = FromManifest(rank_folder, "process");
  if (!process.ok() || !IsLivingProcess(*process) || *process == ProcessIdentity()) {
    return {};
  }
  const Result<std::string> run = RunOfDump(rank_folder);
  return run.ok() && IsThisRun(*run) ? BusyError(rank_folder) : Status();
}

Status CheckOtherRuns(const StepPlace& place) {
  const std::string rank_name = place.rank_path().filename().string();
  const Result<std::vector<std::string>> steps = base::ListFolder(place.dump_path);
  if (!steps.ok()) {
    return {};  // new, or the error shows when it is made
  }
  for (const std::string& step : *steps) {
    if (!dump::ParseStepName(step).valid) {
      continue;
    }
    const base::Path step_folder = base::Path(place.dump_path) / step;
    MSP_RETURN_IF_ERROR(CheckLivingOwner(step_folder / rank_name));
    if (ReplacesOtherRuns()) {
      continue;
    }
    for (const std::string& name : {rank_name, std::string("rank")}) {
      const base::Path folder = step_folder / name;
      if (IsOfOtherRun(folder)) {
        return OtherRunError(folder);
      }
    }
  }
  return {};
}

namespace {

// Whether processes that this host does not show wrote it, and not long ago: another node of the
// run that begins.
bool MayBeOfOtherNode(const base::Path& folder) {
  constexpr std::chrono::minutes kNodesBeginWithin(30);
  const Result<std::string> process = FromManifest(folder, "process");
  const Result<std::string> owner = process.ok() ? process : RunOfDump(folder);
  if (!owner.ok() || !owner->starts_with(kProcess)) {
    return false;
  }
  if (owner->starts_with(std::string(kProcess) + BootId())) {
    return IsLivingProcess(*owner);
  }
  std::error_code error;
  fs::file_time_type newest = fs::file_time_type::min();
  for (const std::string_view name :
       {std::string_view(dump::kManifestFileName), dump::kRecordLogName}) {
    const fs::file_time_type written = fs::last_write_time(folder / name, error);
    newest = error ? newest : std::max(newest, written);
  }
  return fs::file_time_type::clock::now() - newest < kNodesBeginWithin;
}

}  // namespace

Status CheckBeforeRun(const std::string& dump_path, std::optional<int64_t> rank) {
  const Result<std::vector<std::string>> steps = base::ListFolder(dump_path);
  if (!steps.ok()) {
    return {};  // new, or the error shows when it is made
  }
  for (const std::string& step : *steps) {
    const base::Path step_folder = base::Path(dump_path) / step;
    const Result<std::vector<std::string>> ranks = base::ListFolder(step_folder);
    if (!dump::ParseStepName(step).valid || !ranks.ok()) {
      continue;
    }
    for (const std::string& name : *ranks) {
      const dump::NumberedName number = dump::ParseRankName(name);
      const bool may_be_written = !rank || !number.number || *number.number == *rank;
      if (number.valid && may_be_written && IsOfOtherRun(step_folder / name) &&
          !MayBeOfOtherNode(step_folder / name)) {
        return OtherRunError(step_folder / name);
      }
    }
  }
  return {};
}

}  // namespace msprobe::capture
