#include "src/capture/step_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/json/config.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPathBytes = 4096;

bool IsAcceptedCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-' || c == ',';
}

Status RefuseLink(const base::Path& path) {
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(path, ignored))) {
    return IoError(fmt::format(
        "{} is a symbolic link, and captures write into folders of their own", path.string()));
  }
  return {};
}

// Somebody may have made it in advance where everybody may write. Network file systems may give all
// that this user makes to another one, dump_path included.
Status RefuseForeign(const base::Path& folder, const base::Path& dump_path) {
  struct stat there {};
  struct stat root {};
  if (::lstat(folder.c_str(), &there) != 0 || there.st_uid == ::geteuid() ||
      (::stat(dump_path.c_str(), &root) == 0 && there.st_uid == root.st_uid)) {
    return {};
  }
  return IoError(fmt::format("{} belongs to another user (id {}), who could redirect what is "
                             "written into it",
                             folder.string(), there.st_uid))
      .WithHint("name another dump_path, in a folder that only you can write to");
}

// False when another process has the lock. Who only looks whether there is one (IsBeingWritten) has
// it for a moment.
bool TryLock(int descriptor) {
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      return true;
    }
    ::usleep(1000);
  }
  return false;
}

// Opens and locks the log of a rank folder. A process that finishes removes its log: a lock on a
// file that has no name any more is worth nothing, so the next one is tried.
Result<int> LockLog(const base::Path& folder) {
  const base::Path path = folder / dump::kRecordLogName;
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int descriptor = ::open(
        path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (descriptor < 0) {
      const StatusCode code = errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIo;
      return Status(code, fmt::format("cannot create {}: {}", path.string(), std::strerror(errno)))
          .WithHint("check dump_path: space, permissions, and that it is a folder");
    }
    if (!TryLock(descriptor)) {
      ::close(descriptor);
      return BusyError(folder);
    }
    // Where locks do not exist (some network file systems) the capture goes on without.
    struct stat opened {};
    struct stat named {};
    if (::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      if (!S_ISREG(opened.st_mode)) {
        ::close(descriptor);
        return IoError(fmt::format("{} is not a regular file", path.string()));
      }
      return descriptor;
    }
    ::close(descriptor);
  }
  return IoError(fmt::format("{} is locked by other processes again and again", path.string()));
}

// Makes the folder and locks its log. A process that learns its rank removes the folder that it had
// before, perhaps between the two.
Result<int> CreateAndLock(const base::Path& folder) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
    Result<int> descriptor = LockLog(folder);
    if (descriptor.ok() || descriptor.status().code() != StatusCode::kNotFound ||
        attempt == kAttempts) {
      return descriptor;
    }
  }
}

// Whether what a locked folder holds may be replaced by this run. The log that locking has made
// goes again when not.
Status CheckOwner(const base::Path& folder, int log_descriptor) {
  Status status = CheckLivingOwner(folder);
  if (status.ok() && !ReplacesOtherRuns()) {
    const Result<std::string> run = RunOfDump(folder);
    if (run.ok() && !IsThisRun(*run)) {
      status = OtherRunError(folder);
    }
  }
  struct stat log {};
  if (!status.ok() && ::fstat(log_descriptor, &log) == 0 && log.st_size == 0) {
    ::unlink((folder / dump::kRecordLogName).c_str());
  }
  return status;
}

// Whether the folder is as new: it has no owner, and there is nothing to remove.
bool HoldsOnlyAnEmptyLog(const base::Path& folder, int log_descriptor) {
  struct stat log {};
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  return names.ok() && names->size() == 1 && names->front() == dump::kRecordLogName &&
         ::fstat(log_descriptor, &log) == 0 && log.st_size == 0;
}

// Removes what an earlier dump left, the log excepted; tells whether there was something.
Result<bool> RemoveResults(const base::Path& folder) {
  bool found = false;
  for (const std::string_view name : kResultNames) {
    std::error_code error;
    const auto removed = fs::remove_all(folder / name, error);
    if (error) {
      return IoError(fmt::format("cannot remove {} of an earlier dump: {}",
                                 (folder / name).string(), error.message()));
    }
    found |= removed > 0;
  }
  return found;
}

}  // namespace

base::Path StepPlace::step_path() const {
  return base::WithoutLastSlash(dump_path) / fmt::format("step{}", step);
}

base::Path StepPlace::rank_path() const {
  return step_path() / (rank ? fmt::format("rank{}", *rank) : std::string("rank"));
}

Status CheckPlace(const StepPlace& place) {
  if (place.dump_path.empty()) {
    return UsageError("dump_path is empty").WithHint("name the folder that dumps go to");
  }
  std::error_code error;
  const base::Path given = fs::absolute(place.rank_path(), error);
  base::Path resolved;
  // A folder that another process makes at this moment is missing in one look and there in the
  // next, which weakly_canonical() takes for an error.
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    resolved = fs::weakly_canonical(given, error);
    if (error != std::errc::no_such_file_or_directory) {
      break;
    }
  }
  if (error) {
    return IoError(
        fmt::format("cannot resolve dump_path {}: {}", place.dump_path, error.message()));
  }
  const std::string text = (resolved / dump::kTensorFolderName).string();
  if (!std::all_of(text.begin(), text.end(), IsAcceptedCharacter)) {
    return UsageError(fmt::format("dump_path {} is not usable: {}",
                                  base::Printable(place.dump_path), base::Printable(text)))
        .WithHint("letters, digits and _ . / - , are allowed in the path that it stands for");
  }
  const bool long_name = std::any_of(resolved.begin(), resolved.end(), [](const base::Path& part) {
    return part.string().size() > base::kLongestNameBytes;
  });
  if (long_name || text.size() + base::kLongestNameBytes > kLongestPathBytes) {
    return UsageError(fmt::format("dump_path is too long: {} bytes of path, names of at most {}",
                                  text.size(), base::kLongestNameBytes));
  }
  for (const base::Path& folder : {place.step_path(), place.rank_path()}) {
    MSP_RETURN_IF_ERROR(RefuseLink(folder));
    MSP_RETURN_IF_ERROR(RefuseForeign(folder, place.dump_path));
  }
  return {};
}

StepFolder::StepFolder(StepFolder&& other) noexcept
    : place_(std::move(other.place_)),
      path_(std::move(other.path_)),
      with_tensors_(other.with_tensors_),
      log_descriptor_(std::exchange(other.log_descriptor_, -1)),
      replaced_(other.replaced_) {}

StepFolder::~StepFolder() {
  if (log_descriptor_ >= 0) {
    ::close(log_descriptor_);
  }
}

Result<StepFolder> StepFolder::Claim(StepPlace place, bool with_tensors) {
  MSP_RETURN_IF_ERROR(CheckPlace(place));
  StepFolder folder;
  folder.path_ = place.rank_path();
  folder.place_ = std::move(place);
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder.place_.step_path()));
  MSP_ASSIGN_OR_RETURN(folder.log_descriptor_, CreateAndLock(folder.path_));
  if (!HoldsOnlyAnEmptyLog(folder.path_, folder.log_descriptor_)) {
    MSP_RETURN_IF_ERROR(CheckOwner(folder.path_, folder.log_descriptor_));
    MSP_ASSIGN_OR_RETURN(folder.replaced_, RemoveResults(folder.path_));
    struct stat log {};
    folder.replaced_ |= ::fstat(folder.log_descriptor_, &log) == 0 && log.st_size > 0;
    if (::ftruncate(folder.log_descriptor_, 0) != 0) {
      return IoError(fmt::format("cannot empty the log in {}: {}", folder.path_.string(),
                                 std::strerror(errno)));
    }
  }
  folder.with_tensors_ = with_tensors;
  if (with_tensors) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder.path_ / dump::kTensorFolderName));
  }
  return folder;
}

StepFolder StepFolder::Nowhere(StepPlace place) {
  StepFolder folder;
  folder.place_ = std::move(place);
  return folder;
}

Status StepFolder::MoveTo(int64_t rank) {
  StepPlace place = place_;
  place.rank = rank;
  MSP_RETURN_IF_ERROR(CheckPlace(place));
  const base::Path target = place.rank_path();
  MSP_RETURN_IF_ERROR(CheckOtherRuns(place));
  MSP_ASSIGN_OR_RETURN(const int lock, CreateAndLock(target));
  // Closed at the end: until then no other process can claim the folder.
  struct Unlock {
    int descriptor;
    ~Unlock() { ::close(descriptor); }
  } const unlock{lock};
  MSP_ASSIGN_OR_RETURN(replaced_, RemoveResults(target));
  const auto move = [&](std::string_view name) -> Status {
    if (::rename((path_ / name).c_str(), (target / name).c_str()) != 0 && errno != ENOENT) {
      return IoError(fmt::format("cannot move {} to {}: {}", (path_ / name).string(),
                                 target.string(), std::strerror(errno)));
    }
    return {};
  };
  for (const std::string_view name : kResultNames) {
    MSP_RETURN_IF_ERROR(move(name));
  }
  MSP_RETURN_IF_ERROR(move(dump::kRecordLogName));
  ::rmdir(path_.c_str());  // stays when it holds files of others
  place_ = std::move(place);
  path_ = target;
  return {};
}

namespace {

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

// Identifies a host since its last boot.
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
  const json::Json* value = json::Find(manifest.root(), key);
  return value != nullptr && value->is_string() ? json::TextOf(*value) : std::string();
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
