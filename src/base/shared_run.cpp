// What the processes of a run leave in the folder of its parts:
//
//   run               of a launch: the time in the names of its files, from whoever came first
//   process_K         a file that process K holds locked while it works: a second process of that
//                     number is refused, and on one machine the first process sees that one was
//                     killed and does not wait for it
//   part_K_of_N.json  what process K found (processes.h), behind a line that says what it
//                     belongs to
//   answered_TIME     the first process went on without a late one, which then says so
//
// All of it goes when the answer has everything.
#include "src/base/shared_run.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <queue>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::base {
namespace {

constexpr std::string_view kPartBegin = "msprobe part ";
constexpr size_t kMostProcesses = 1'000'000;
constexpr size_t kLongestStamp = 64;
constexpr std::string_view kAnswered = "answered_";
constexpr size_t kNamedUnits = 8;
// A process whose lock was free for so long has ended.
constexpr std::chrono::seconds kUntilEnded{4};

std::optional<Sharing>& ChosenSharing() {
  static std::optional<Sharing> chosen;
  return chosen;
}

// FNV-1a: distinguishes runs; it does not protect against forged parts.
class Fingerprint {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      value_ = (value_ ^ static_cast<uint8_t>(c)) * 0x100000001B3U;
    }
    AddNumber(bytes.size());
  }
  void AddNumber(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      value_ = (value_ ^ ((number >> static_cast<unsigned>(shift)) & 0xFFU)) * 0x100000001B3U;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
};

}  // namespace

void SetSharing(Sharing sharing) { ChosenSharing() = std::move(sharing); }

const Sharing& ThisSharing() {
  static const Sharing found = [] {
    Sharing sharing;
    sharing.share = ShareFromEnvironment();
    return sharing;
  }();
  return ChosenSharing() ? *ChosenSharing() : found;
}

Result<ProcessShare> ParseShare(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<int64_t> number =
      slash == std::string_view::npos ? std::nullopt : ParseInt(text.substr(0, slash));
  const std::optional<int64_t> count =
      slash == std::string_view::npos ? std::nullopt : ParseInt(text.substr(slash + 1));
  if (!number || !count || *number < 1 || *count < *number ||
      *count > static_cast<int64_t>(kMostProcesses)) {
    return UsageError(fmt::format("--share {}: expected K/N, K from 1 to N", Printable(text)))
        .WithHint("--share 1/4, --share 2/4, --share 3/4 and --share 4/4; the first one answers");
  }
  ProcessShare share;
  share.index = static_cast<size_t>(*number - 1);
  share.count = static_cast<size_t>(*count);
  share.launch = fmt::format("_of_{}", *count);
  share.by_hand = true;
  return share;
}

WorkUnit UnitOfFiles(std::initializer_list<Path> files) {
  WorkUnit unit;
  Fingerprint mark;
  for (const Path& file : files) {
    struct stat found {};
    if (::stat(file.c_str(), &found) == 0) {
      unit.size += static_cast<uint64_t>(found.st_size);
      mark.AddNumber(static_cast<uint64_t>(found.st_size));
      mark.AddNumber(static_cast<uint64_t>(found.st_mtim.tv_sec));
      mark.AddNumber(static_cast<uint64_t>(found.st_mtim.tv_nsec));
    }
    mark.Add(file.string());
  }
  unit.mark = mark.value();
  return unit;
}

std::vector<size_t> DealOut(std::span<const WorkUnit> units, size_t index, size_t count) {
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return units[a].size > units[b].size; });
  if (count <= 1) {
    return order;
  }
  using Load = std::pair<uint64_t, size_t>;  // and the process that has it
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (size_t process = 0; process < count; ++process) {
    loads.emplace(0, process);
  }
  std::vector<size_t> mine;
  for (const size_t unit : order) {
    const auto [load, process] = loads.top();
    loads.pop();
    loads.emplace(load + std::max<uint64_t>(units[unit].size, 1), process);
    if (process == index) {
      mine.push_back(unit);
    }
  }
  return mine;
}

Result<SharedRun> SharedRun::Join(const Path& folder, std::string_view command,
                                  const std::string& time) {
  SharedRun run;
  run.share_ = ThisSharing().share;
  run.output_ = folder.empty() ? Path(".") : folder;
  run.time_ = time;
  if (!run.is_shared()) {
    return run;
  }
  MSP_RETURN_IF_ERROR(CheckOutputFolder(run.output_));
  run.folder_ = PartsFolder(run.output_, command, run.share_);
  MSP_RETURN_IF_ERROR(CreateFolders(run.folder_));
  if (!run.share_.by_hand) {
    MSP_RETURN_IF_ERROR(run.AgreeOnStamp());
  }
  MSP_RETURN_IF_ERROR(run.Claim());
  return run;
}

SharedRun::SharedRun(SharedRun&& other) noexcept { *this = std::move(other); }

SharedRun& SharedRun::operator=(SharedRun&& other) noexcept {
  if (this != &other) {
    Leave();
    share_ = std::exchange(other.share_, {});
    output_ = std::move(other.output_);
    folder_ = std::move(other.folder_);
    time_ = std::move(other.time_);
    stamp_ = std::move(other.stamp_);
    run_ = std::move(other.run_);
    claim_ = std::exchange(other.claim_, -1);
    round_ = other.round_;
    late_ = std::move(other.late_);
  }
  return *this;
}

SharedRun::~SharedRun() { Leave(); }

Path SharedRun::ClaimOf(size_t process) const {
  return folder_ / fmt::format("process_{}", process + 1);
}

// Made under another name and locked before it appears, so that it is never seen unlocked while its
// process works. The file of a process that was killed is taken over; a look at the lock by the
// first process lasts no longer than a moment.
Status SharedRun::Claim() {
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kPause{100};
  const Path file = ClaimOf(share_.index);
  Path made = file;
  made += fmt::format(".{}", ::getpid());
  claim_ = ::open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (claim_ < 0) {
    return IoError(fmt::format("cannot write {}: {}", made.string(), std::strerror(errno)));
  }
  ::flock(claim_, LOCK_EX | LOCK_NB);
  const bool is_new = ::link(made.c_str(), file.c_str()) == 0;
  const int error = errno;
  ::unlink(made.c_str());
  if (is_new) {
    return {};
  }
  ::close(std::exchange(claim_, -1));
  if (error != EEXIST) {
    return IoError(fmt::format("cannot write {}: {}", file.string(), std::strerror(error)));
  }
  claim_ = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  for (int tried = 0; claim_ >= 0 && tried < kTries; ++tried) {
    if (::flock(claim_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      return {};  // also where there are no locks
    }
    std::this_thread::sleep_for(kPause);
  }
  if (claim_ >= 0) {
    ::close(std::exchange(claim_, -1));
  }
  return IoError(fmt::format("process {} of {} was started twice: another one of that number is at "
                             "work on {}",
                             share_.index + 1, share_.count, output_.string()))
      .WithHint(share_.by_hand ? "give each process a --share of its own"
                               : "start the command once per process of the launch");
}

// The first process to come makes the file, by a link, which appears complete and only once.
Status SharedRun::AgreeOnStamp() {
  const Path file = folder_ / "run";
  const auto read = [&]() -> Status {
    MSP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(file, kLongestStamp));
    if (text.empty() || text.find_first_not_of("0123456789_") != std::string::npos) {
      return BadFormatError(fmt::format("{} is damaged", file.string()))
          .WithHint(fmt::format("remove {} and start again", folder_.string()));
    }
    run_ = std::move(text);
    stamp_ = RunStamp::Shared(run_);
    return {};
  };
  if (Exists(file)) {
    return read();
  }
  // In the folder of a launch with an identity, this cannot come from an older one.
  for (const std::string& name : NamesIn(folder_)) {
    if (name.starts_with(kAnswered) && !answers() && !share_.launch.empty()) {
      return TooLate();
    }
  }
  MSP_ASSIGN_OR_RETURN(RunStamp stamp, RunStamp::Take(output_, time_));
  const Path mine = folder_ / fmt::format("run_of_{}", share_.index + 1);
  MSP_RETURN_IF_ERROR(WriteFileAtomically(mine, stamp.text(), Existing::kReplace));
  const bool is_first = ::link(mine.c_str(), file.c_str()) == 0;
  const int error = errno;
  ::unlink(mine.c_str());
  if (is_first) {
    run_ = stamp.text();
    stamp_ = std::move(stamp);
    return {};
  }
  if (error != EEXIST) {
    return IoError(fmt::format("cannot write {}: {}", file.string(), std::strerror(error)));
  }
  return read();
}

Result<RunStamp> SharedRun::TakeStamp() {
  if (is_shared() && !share_.by_hand) {
    return std::move(stamp_);
  }
  return RunStamp::Take(output_, time_);
}

// It began and holds no lock any more. False where that cannot be known: locks of other machines
// may not be seen.
bool SharedRun::IsUnclaimed(size_t process) const {
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return false;
  }
  const bool sees_locks = IsOfThisMachine(folder);
  ::close(folder);
  const int claim =
      sees_locks ? ::open(ClaimOf(process).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
  if (claim < 0) {
    return false;
  }
  const bool is_free = ::flock(claim, LOCK_EX | LOCK_NB) == 0;
  ::close(claim);
  return is_free;
}

bool SharedRun::IsAnswered() const { return !run_.empty() && Exists(AnsweredFile()); }

Path SharedRun::AnsweredFile() const { return folder_ / (std::string(kAnswered) + run_); }

Status SharedRun::TooLate() const {
  return IoError(fmt::format("process {} of {} is too late: the answer was given without it",
                             share_.index + 1, share_.count))
      .WithHint("let the first process wait longer with --wait");
}

std::string SharedRun::HeaderOf(std::span<const WorkUnit> units, size_t index) const {
  Fingerprint work;
  work.Add(ThisSharing().work);
  work.AddNumber(units.size());
  for (const WorkUnit& unit : units) {
    work.AddNumber(unit.size);
    work.AddNumber(unit.mark);
  }
  return fmt::format("{}{} {:016x} round {} process {} of {}\n", kPartBegin, MSPROBE_VERSION,
                     work.value(), round_, index + 1, share_.count);
}

Status SharedRun::Exchange(
    std::span<const WorkUnit> units, const Status& computed,
    const std::function<void(std::string&)>& pack,
    const std::function<bool(std::span<const size_t>, std::string_view)>& unpack) {
  const Path folder = round_ == 0 ? folder_ : folder_ / fmt::format("round{}", round_);
  if (!answers()) {
    std::string text = HeaderOf(units, share_.index);
    text += computed.ok() ? '+' : '-';
    if (computed.ok()) {
      pack(text);
    } else {
      Packer pack_error(text);
      pack_error(computed);
    }
    MSP_RETURN_IF_ERROR(CreateFolders(folder));
    if (IsAnswered()) {
      return TooLate();
    }
    MSP_RETURN_IF_ERROR(DeliverPart(folder, share_, text));
    ++round_;
    return computed;
  }
  MSP_RETURN_IF_ERROR(Status(computed));
  PartRules rules;
  rules.skips_own = true;
  rules.keeps = share_.by_hand;
  std::vector<std::string> headers(share_.count);
  for (size_t index = 0; index < share_.count; ++index) {
    headers[index] = HeaderOf(units, index);
  }
  rules.accepts = [&](std::string_view text) {
    return std::any_of(headers.begin(), headers.end(),
                       [&](const std::string& header) { return text.starts_with(header); });
  };
  using Clock = std::chrono::steady_clock;
  std::vector<std::optional<Clock::time_point>> free_since(share_.count);
  rules.has_ended = [&](size_t index) {
    if (!IsUnclaimed(index)) {
      free_since[index].reset();
      return false;
    }
    const Clock::time_point now = Clock::now();
    free_since[index] = free_since[index].value_or(now);
    return now - *free_since[index] >= kUntilEnded;
  };
  std::vector<size_t> late;
  MSP_ASSIGN_OR_RETURN(const std::vector<Part> parts,
                       CollectParts(folder, share_, ThisSharing().patience, late, rules));
  for (const Part& part : parts) {
    std::string_view text = part.text;
    const std::vector<size_t> theirs = DealOut(units, part.index, share_.count);
    const std::string& header = headers[part.index];
    const Status damaged =
        BadFormatError(fmt::format("{} is damaged", part.file.string()))
            .WithHint(fmt::format("start process {} again, then the first one", part.index + 1));
    if (!text.starts_with(header) || text.size() == header.size()) {
      return damaged;
    }
    const char kind = text[header.size()];
    text.remove_prefix(header.size() + 1);
    if (kind == '-') {
      Status failure;
      Unpacker unpacker(text);
      unpacker(failure);
      return unpacker.Ended() && !failure.ok()
                 ? std::move(failure).AddContext(
                       fmt::format("process {} of {}", part.index + 1, share_.count))
                 : damaged;
    }
    if (kind != '+' || !unpack(theirs, text)) {
      return damaged;
    }
  }
  if (late.empty() && share_.by_hand) {
    std::error_code ignored;
    for (const Part& part : parts) {
      std::filesystem::remove(part.file, ignored);
    }
  }
  for (const size_t process : late) {
    late_.push_back({process, free_since[process].has_value(),
                     Exists(PartFile(folder, share_, process)),
                     DealOut(units, process, share_.count)});
  }
  ++round_;
  return {};
}

std::string SharedRun::Reason(const Late& late) const {
  return fmt::format("process {} of {} {}", late.process + 1, share_.count,
                     late.ended     ? "ended without a result"
                     : late.foreign ? "left only the part of another run"
                                    : "delivered nothing in time");
}

std::string SharedRun::WhyMissing(size_t unit) const {
  const auto late = std::find_if(late_.begin(), late_.end(), [&](const Late& process) {
    return std::find(process.units.begin(), process.units.end(), unit) != process.units.end();
  });
  return late == late_.end() ? "no process delivered it" : Reason(*late);
}

std::vector<std::string> SharedRun::Missing(
    std::string_view what, const std::function<std::string(size_t unit)>& name) const {
  std::vector<std::string> sentences;
  for (const Late& late : late_) {
    std::vector<size_t> units = late.units;
    std::sort(units.begin(), units.end());
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(units.size(), kNamedUnits); ++i) {
      names.push_back(name(units[i]));
    }
    if (units.size() > kNamedUnits) {
      names.push_back(fmt::format("and {} more", units.size() - kNamedUnits));
    }
    sentences.push_back(units.empty() ? fmt::format("{}; it had nothing to do", Reason(late))
                                      : fmt::format("{}; missing are {} {}: {}", Reason(late),
                                                    units.size(), what, base::Join(names, ", ")));
  }
  return sentences;
}

void SharedRun::Leave() {
  if (!is_shared() || folder_.empty()) {
    return;
  }
  std::error_code ignored;
  if (claim_ >= 0) {
    if (answers() || round_ > 0) {  // otherwise it says that this process failed
      std::filesystem::remove(ClaimOf(share_.index), ignored);
    }
    ::close(std::exchange(claim_, -1));
  }
  if (!answers() || round_ == 0) {
    std::filesystem::remove(folder_, ignored);  // of the last to leave, if nothing is in it
    return;
  }
  if (!late_.empty() && share_.by_hand) {
    return;  // what is there serves another try
  }
  if (!run_.empty()) {
    if (!late_.empty()) {
      const Status noted = WriteFileAtomically(AnsweredFile(), "", Existing::kReplace);
      (void)noted;  // a late process then delivers into the void
    }
    std::filesystem::remove(folder_ / "run", ignored);
  }
  for (const Late& late : late_) {
    if (late.ended) {
      std::filesystem::remove(ClaimOf(late.process), ignored);
    }
  }
  for (size_t round = 1; round < round_; ++round) {
    std::filesystem::remove(folder_ / fmt::format("round{}", round), ignored);
  }
  const bool all_known =
      std::all_of(late_.begin(), late_.end(), [](const Late& late) { return late.ended; });
  if (all_known) {
    std::filesystem::remove(AnsweredFile(), ignored);
    std::filesystem::remove(folder_, ignored);
  }
}

}  // namespace msprobe::base
