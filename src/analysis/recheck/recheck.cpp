#include "src/analysis/recheck/recheck.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/recheck/step_ranks.h"
#include "src/base/buffer_pool.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::recheck {

namespace {

using Clock = std::chrono::steady_clock;

// Calls whose files cannot be read are reported one by one up to here; all of them stand in the
// table.
constexpr uint64_t kToldOneByOne = 5;

bool IsWanted(const Options& options, const std::string& name) {
  const dump::Direction direction = dump::ParseEntryName(name).direction;
  if (direction == dump::Direction::kForward ? !options.forward : !options.backward) {
    return false;
  }
  return options.calls.empty() ||
         std::any_of(options.calls.begin(), options.calls.end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

std::string RankText(const dump::RankFolder& rank) { return rank.folder.string(); }

Result<std::optional<DumpEntries>> OpenRank(const dump::RankFolder* rank,
                                            const std::filesystem::path& file, Answer& answer) {
  if (rank == nullptr) {
    return std::optional<DumpEntries>();
  }
  Result<DumpEntries> entries =
      DumpEntries::Open(file.empty() ? rank->folder / dump::kDumpFileName : file);
  if (!entries.ok()) {
    answer.warnings.push_back(
        fmt::format("{} is left out: {}", RankText(*rank), entries.status().message()));
    return std::optional<DumpEntries>();
  }
  if (entries->truncated()) {
    answer.warnings.push_back(
        fmt::format("{}: the dump ends early; its complete calls are checked", RankText(*rank)));
  }
  std::error_code ignored;
  answer.has_tensors =
      answer.has_tensors || (std::filesystem::is_directory(entries->tensor_folder(), ignored) &&
                             !std::filesystem::is_empty(entries->tensor_folder(), ignored));
  answer.size_bytes += entries->size_bytes();
  return std::optional<DumpEntries>(*std::move(entries));
}

// The entries that tell about one half of a call.
struct CallEntries {
  dump::EntryTree forward;
  dump::EntryTree backward;
  dump::EntryTree parameters_grad;
  RecordedCall recorded;  // of these

  // `name` must outlive this.
  Status Read(const DumpEntries& entries, std::string_view name,
              const reference::OtherCalls& others) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    recorded.name = name;
    recorded.tensors = entries.tensors();
    recorded.others = others;
    recorded.remarks = entries.RemarksOf(name);
    const std::string forward_name = dump::WithDirection(name, dump::Direction::kForward);
    if (entries.Has(forward_name)) {
      MSP_ASSIGN_OR_RETURN(forward, entries.Read(forward_name), forward_name);
      recorded.forward = &forward;
    }
    if (parsed.direction == dump::Direction::kForward) {
      return {};
    }
    MSP_ASSIGN_OR_RETURN(backward, entries.Read(name), std::string(name));
    recorded.backward = &backward;
    if (parsed.is_module) {
      // If a module is called once, the gradients of its parameters belong to this call.
      const std::string base = ModuleOf(parsed);
      const std::string gradients = base + ".parameters_grad";
      if (entries.Has(gradients) && !entries.Has(base + ".forward.1")) {
        MSP_ASSIGN_OR_RETURN(parameters_grad, entries.Read(gradients), gradients);
        recorded.parameters_grad = &parameters_grad;
      }
    }
    return {};
  }
};

class RankCheck {
 public:
  RankCheck(const Options& options, base::ThreadPool& pool) : options_(options), pool_(pool) {}

  struct Side {
    const std::optional<DumpEntries>& entries;
    const dump::RankFolder* folder = nullptr;  // null: without entries
    DumpSteps& steps;
  };

  // Adds the calls of a rank to its answer.
  void Check(const dump::RankFolder& place, const std::array<Side, 2>& sides, Answer& answer) {
    std::vector<std::string> names;
    std::set<std::string_view> seen;
    for (const Side& side : sides) {
      if (side.entries) {
        for (const std::string& name : side.entries->calls()) {
          if (IsWanted(options_, name) && seen.insert(name).second) {
            names.push_back(name);
          }
        }
      }
    }
    base::Progress progress("rechecking", names.size(), "calls", options_.quiet);
    // What forward calls told of the backward calls that follow.
    std::array<std::map<std::string, CallVerdict, std::less<>>, 2> ahead;
    for (const std::string& name : names) {
      CheckedCall call;
      call.name = name;
      call.step = place.step;
      call.rank = place.rank;
      const size_t known_before = ahead[0].size() + ahead[1].size();
      for (size_t at = 0; at < sides.size(); ++at) {
        const Side& side = sides[at];
        if (const auto known = ahead[at].find(name); known != ahead[at].end()) {
          call.sides[at] = std::move(known->second);
          ahead[at].erase(known);
          TellUnreadable(name, call.sides[at]->unreadable, answer);
        } else if (side.entries && side.entries->Has(name)) {
          Result<CallVerdict> verdict = Recheck(side, name, ahead[at]);
          if (verdict.ok()) {
            call.sides[at] = *std::move(verdict);
          } else {
            CallVerdict unread;
            unread.reason = verdict.status().message();
            unread.unreadable = unread.reason;
            call.sides[at] = std::move(unread);
          }
          TellUnreadable(name, call.sides[at]->unreadable, answer);
        }
      }
      switch (call.verdict()) {
        case Verdict::kWithin:
          ++answer.within;
          answer.less_exact += call.is_less_exact() ? 1 : 0;
          break;
        case Verdict::kBeyond:
          ++answer.beyond;
          call.layer = LayerOf(name, *(sides[0].folder != nullptr ? sides[0] : sides[1]).folder);
          break;
        case Verdict::kNotCheckable:
          ++answer.not_checkable;
          break;
      }
      answer.calls.push_back(std::move(call));
      // A call and its other half are done at the first of their names.
      const size_t known_now = ahead[0].size() + ahead[1].size();
      progress.Add(known_now > known_before ? 2 : known_now < known_before ? 0 : 1);
    }
  }

 private:
  // A call; with a forward one that has a backward half that is wanted, too, also that.
  Result<CallVerdict> Recheck(const Side& side, const std::string& name,
                              std::map<std::string, CallVerdict, std::less<>>& ahead) {
    const reference::OtherCalls others = side.steps.OthersOf(*side.folder, name);
    const std::string backward_name = dump::WithDirection(name, dump::Direction::kBackward);
    if (backward_name != name && side.entries->Has(backward_name) &&
        IsWanted(options_, backward_name)) {
      CallEntries backward;
      if (backward.Read(*side.entries, backward_name, {}).ok()) {
        RecordedCall forward = backward.recorded;
        forward.name = name;
        forward.others = others;
        BothVerdicts both = RecheckBoth(forward, backward.recorded, options_.precision, pool_);
        ahead.emplace(backward_name, std::move(both.backward));
        return std::move(both.forward);
      }
    }
    return RecheckCall(*side.entries, name, options_.precision, pool_, others);
  }

  // Read once a rank; without the file, or with one that cannot be read, nothing is known.
  std::string LayerOf(const std::string& call, const dump::RankFolder& rank) {
    if (!construct_ || construct_rank_ != rank.folder) {
      const std::filesystem::path file = rank.folder / dump::kConstructFileName;
      construct_.emplace(base::Exists(file) ? dump::ConstructFile::Read(file)
                                            : Result<dump::ConstructFile>(dump::ConstructFile()));
      construct_rank_ = rank.folder;
    }
    if (!construct_->ok()) {
      return {};
    }
    const dump::EntryName own = dump::ParseEntryName(call);
    const std::string_view parent = (*construct_)->ParentOf(call);
    return dump::LayerText(own.is_module ? own : dump::ParseEntryName(parent));
  }

  static void TellUnreadable(const std::string& call, const std::string& why, Answer& answer) {
    if (!why.empty() && ++answer.unreadable <= kToldOneByOne) {
      answer.warnings.push_back(fmt::format("{}: {}", call, why));
    }
  }

  const Options& options_;
  base::ThreadPool& pool_;
  std::filesystem::path construct_rank_;
  std::optional<Result<dump::ConstructFile>> construct_;
};

// Names the first few files of all ranks that cannot be read.
void AddRank(Answer rank, Answer& answer) {
  answer.has_tensors = answer.has_tensors || rank.has_tensors;
  std::move(rank.calls.begin(), rank.calls.end(), std::back_inserter(answer.calls));
  answer.within += rank.within;
  answer.beyond += rank.beyond;
  answer.not_checkable += rank.not_checkable;
  answer.less_exact += rank.less_exact;
  answer.size_bytes += rank.size_bytes;
  // The last warnings of a rank are those about files.
  const uint64_t named = std::min(rank.unreadable, kToldOneByOne);
  const uint64_t room = kToldOneByOne - std::min(answer.unreadable, kToldOneByOne);
  const uint64_t dropped =
      std::min<uint64_t>(named > room ? named - room : 0, rank.warnings.size());
  rank.warnings.resize(rank.warnings.size() - dropped);
  answer.unreadable += rank.unreadable;
  std::move(rank.warnings.begin(), rank.warnings.end(), std::back_inserter(answer.warnings));
}

std::filesystem::path FileOf(const dump::DumpLayout& layout) {
  return layout.is_single_file ? layout.ranks.front().folder / layout.single_file_name
                               : std::filesystem::path();
}

}  // namespace

std::string_view WrongSideName(WrongSide side) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "dump", "bench", "both", "unknown"};
  return kNames[static_cast<size_t>(side)];
}

WrongSide CheckedCall::wrong_side() const {
  const auto is = [&](size_t side, Verdict verdict) {
    return sides[side] && sides[side]->verdict == verdict;
  };
  const bool dump = is(0, Verdict::kBeyond);
  const bool bench = is(1, Verdict::kBeyond);
  if (dump && bench) {
    return WrongSide::kBoth;
  }
  if (dump && (is(1, Verdict::kWithin) || !sides[1])) {
    return WrongSide::kDump;
  }
  if (bench && (is(0, Verdict::kWithin) || !sides[0])) {
    return WrongSide::kBench;
  }
  return is(0, Verdict::kWithin) && is(1, Verdict::kWithin) ? WrongSide::kNone
                                                            : WrongSide::kUnknown;
}

bool CheckedCall::is_less_exact() const {
  return std::any_of(sides.begin(), sides.end(), [](const std::optional<CallVerdict>& side) {
    return side && side->is_less_exact;
  });
}

Verdict CheckedCall::verdict() const {
  Verdict worst = Verdict::kNotCheckable;
  for (const std::optional<CallVerdict>& side : sides) {
    if (!side) {
      continue;
    }
    if (side->verdict == Verdict::kBeyond) {
      return Verdict::kBeyond;
    }
    if (side->verdict == Verdict::kWithin) {
      worst = Verdict::kWithin;
    }
  }
  return worst;
}

Result<CallVerdict> RecheckCall(const DumpEntries& entries, std::string_view name,
                                const Precision& precision, base::ThreadPool& pool,
                                const reference::OtherCalls& others) {
  CallEntries read;
  MSP_RETURN_IF_ERROR(read.Read(entries, name, others));
  return read.recorded.backward == nullptr ? RecheckForward(read.recorded, precision, pool)
                                           : RecheckBackward(read.recorded, precision, pool);
}

Result<Answer> Run(const Options& options) {
  const Clock::time_point start = Clock::now();
  Answer answer;
  answer.has_bench = !options.bench.empty();
  base::KeepFreedMemory();  // what one call leaves is used by the next
  base::ThreadPool pool(options.threads);
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout dump, dump::FindDump(options.dump));
  dump::DumpLayout bench;
  if (answer.has_bench) {
    MSP_ASSIGN_OR_RETURN(bench, dump::FindDump(options.bench));
  }
  const bool single = dump.ranks.size() == 1 && bench.ranks.size() == 1;
  std::vector<const dump::RankFolder*> ranks;
  std::vector<base::WorkUnit> units;
  for (const dump::RankFolder& rank : dump.ranks) {
    if (rank.has_dump || dump.is_single_file) {
      ranks.push_back(&rank);
      units.push_back(base::UnitOfFiles({rank.folder / dump::kDumpFileName}));
    }
  }
  MSP_ASSIGN_OR_RETURN(base::SharedRun shared,
                       base::SharedRun::Join(options.output, "recheck", base::TimestampNow()));
  RankCheck check(options, pool);
  DumpSteps dump_steps(dump);
  DumpSteps bench_steps(bench);
  const auto check_rank = [&](const dump::RankFolder& rank) -> Result<RankAnswer> {
    RankAnswer found;
    Answer& of_rank = found.answer;
    const auto partner =
        std::find_if(bench.ranks.begin(), bench.ranks.end(), [&](const dump::RankFolder& other) {
          return single || (other.step == rank.step && other.rank == rank.rank);
        });
    if (answer.has_bench && partner == bench.ranks.end()) {
      of_rank.warnings.push_back(fmt::format("{} has no partner in the reference", RankText(rank)));
    }
    MSP_ASSIGN_OR_RETURN(const std::optional<DumpEntries> left,
                         OpenRank(&rank, FileOf(dump), of_rank));
    MSP_ASSIGN_OR_RETURN(
        const std::optional<DumpEntries> right,
        OpenRank(partner == bench.ranks.end() ? nullptr : &*partner,
                 bench.ranks.empty() ? std::filesystem::path() : FileOf(bench), of_rank));
    found.read = left || right;
    check.Check(rank,
                {{{left, &rank, dump_steps}, {right, right ? &*partner : nullptr, bench_steps}}},
                of_rank);
    return found;
  };
  std::vector<std::optional<RankAnswer>> found;
  MSP_RETURN_IF_ERROR(shared.ShareOut(
      units,
      [&](std::span<const size_t> places, const auto& give) -> Status {
        std::vector<size_t> mine(places.begin(), places.end());
        std::sort(mine.begin(), mine.end());  // step by step: what a step is asked for is kept
        for (const size_t place : mine) {
          MSP_ASSIGN_OR_RETURN(RankAnswer of_rank, check_rank(*ranks[place]));
          give(place, std::move(of_rank));
        }
        return {};
      },
      found));
  answer.reports = shared.answers();
  if (!answer.reports) {
    return answer;
  }
  bool any = false;
  for (size_t place = 0; place < found.size(); ++place) {
    if (found[place]) {
      any = any || found[place]->read;
      AddRank(std::move(found[place]->answer), answer);
    } else {
      any = true;
      answer.is_incomplete = true;
    }
  }
  for (std::string& sentence :
       shared.Missing("ranks", [&](size_t place) { return RankText(*ranks[place]); })) {
    answer.warnings.push_back(std::move(sentence));
  }
  if (!any) {
    return NotFoundError(
               fmt::format("{} holds no dump.json that can be read", options.dump.string()))
        .WithHint("msprobe show lists what is in a folder");
  }
  if (!answer.has_tensors && !answer.is_incomplete) {
    return NotFoundError(
               fmt::format("{} holds no tensors: calls cannot be recomputed from statistics",
                           options.dump.string()))
        .WithHint("capture the step again with \"task\": \"tensor\"");
  }
  if (answer.unreadable > kToldOneByOne) {
    answer.warnings.push_back(fmt::format("of {} more calls a tensor file could not be read",
                                          answer.unreadable - kToldOneByOne));
  }
  answer.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  MSP_RETURN_IF_ERROR(WriteTables(options, pool, answer));
  return answer;
}

}  // namespace msprobe::analysis::recheck
