// A whole recheck: from the folders of one or two dumps to the answer, its table and its document.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/recheck/recompute.h"
#include "src/analysis/recheck/step_ranks.h"
#include "src/base/threads.h"
#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::recheck {

// The result of a recheck.

// The one of two dumps that computed a call wrong.
enum class WrongSide : uint8_t { kNone, kDump, kBench, kBoth, kUnknown };
std::string_view WrongSideName(WrongSide side);  // "none", "dump", "bench", "both", "unknown"

struct CheckedCall {
  std::string name;
  std::optional<int64_t> step;
  std::optional<int64_t> rank;
  std::string layer;  // of a call that is beyond its bound, where construct.json tells
  // The verdicts about the dump and about the reference; nullopt where that side has no such call.
  std::array<std::optional<CallVerdict>, 2> sides;

  // kUnknown where a side that is not beyond could not be checked.
  WrongSide wrong_side() const;
  Verdict verdict() const;     // of the dump's side; with one side alone, of that
  bool is_less_exact() const;  // one of its sides
  const CallVerdict& checked() const { return *(sides[0] ? sides[0] : sides[1]); }
};

struct Answer {
  bool has_bench = false;
  bool has_tensors = false;        // one rank at least has tensor files
  std::vector<CheckedCall> calls;  // by step and rank, in file order
  // Counts of the dump, or of both dumps together where there are two.
  uint64_t within = 0;
  uint64_t beyond = 0;
  uint64_t not_checkable = 0;
  uint64_t less_exact = 0;  // within, but only in less exact arithmetic than float32
  uint64_t unreadable = 0;  // calls of which a tensor file could not be read
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  uint64_t size_bytes = 0;
  double seconds = 0;
  bool is_incomplete = false;  // a process that shared the work did not deliver
  // False in a process that handed its share to another one; nothing else here is of use then.
  bool reports = true;
};

// The part of a rank in an answer, as one process hands it to another (base/shared_run.h).
template <typename Archive>
void PackMembers(Archive& archive, Judgement& judgement) {
  archive.Choice(judgement.verdict, kVerdictCount);
  archive(judgement.ratio, judgement.tensor, judgement.element, judgement.index, judgement.captured,
          judgement.exact, judgement.bound, judgement.elements, judgement.beyond,
          judgement.nearly_as_far, judgement.unjudged, judgement.reason);
}
template <typename Archive>
void PackMembers(Archive& archive, CallVerdict& verdict) {
  archive.Choice(verdict.verdict, kVerdictCount);
  archive(verdict.ratio, verdict.tensors, verdict.reason, verdict.is_less_exact,
          verdict.rounds_factors, verdict.has_products, verdict.unreadable, verdict.operation);
}
template <typename Archive>
void PackMembers(Archive& archive, CheckedCall& call) {
  archive(call.name, call.step, call.rank, call.layer, call.sides);
  // What is counted and shown asks one side at least.
  if constexpr (requires { archive.Fail(); }) {
    if (!call.sides[0] && !call.sides[1]) {
      archive.Fail();
    }
  }
}
struct RankAnswer {
  Answer answer;      // of this rank alone
  bool read = false;  // one side at least
};
template <typename Archive>
void PackMembers(Archive& archive, RankAnswer& rank) {
  Answer& answer = rank.answer;
  archive(answer.has_tensors, answer.calls, answer.within, answer.beyond, answer.not_checkable,
          answer.less_exact, answer.unreadable, answer.warnings, answer.size_bytes, rank.read);
}

// A whole recheck: from the folders of one or two dumps to the answer and its table.

// Steps and ranks of two dumps are paired by their numbers. A rank that cannot be read is a warning
// as long as another one can be. Under a launcher each process checks its share of the ranks, and
// the first one answers. Memory: the tensors of one call, and what is computed from them.
Result<Answer> Run(const Options& options);

// One call of one rank; the name's direction tells which half. `others`: communication and what
// only the next step tells is not checkable without them.
Result<CallVerdict> RecheckCall(const DumpEntries& entries, std::string_view name,
                                const Precision& precision, base::ThreadPool& pool,
                                const reference::OtherCalls& others = {});

// The result as a table, one row per call, or per call and side where there are two dumps.

report::Table MakeTable(const Answer& answer);
// recheck_result_<time>.csv and its like in options.output, when that is not empty; adds them to
// answer.files.
Status WriteTables(const Options& options, base::ThreadPool& pool, Answer& answer);

// What a recheck answers.

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"beyond", "a call beyond its bound", false},
     {"unchecked", "a call that cannot be checked", false}}};

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::recheck
