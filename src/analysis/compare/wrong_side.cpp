#include "src/analysis/compare/wrong_side.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/recheck/run.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

// How a side came out, to go behind "is" or a comma.
std::string VerdictText(const recheck::CallVerdict& verdict) {
  switch (verdict.verdict) {
    case recheck::Verdict::kWithin:
      return "within its error bound" +
             (verdict.is_less_exact ? ", " + verdict.reason : std::string());
    case recheck::Verdict::kNotCheckable:
      return fmt::format("not checkable ({})", base::Printable(verdict.reason));
    case recheck::Verdict::kBeyond:
      break;
  }
  const recheck::Judgement& worst = *verdict.worst();
  if (!worst.reason.empty()) {
    return fmt::format("off in {} ({})", base::Printable(worst.tensor), worst.reason);
  }
  const std::string how_far = std::isinf(verdict.ratio)
                                  ? "where no error is allowed"
                                  : fmt::format("by {:.3g} times its error bound", verdict.ratio);
  return fmt::format("off {} ({} {} is {:.6g}, exactly {:.6g})", how_far,
                     base::Printable(worst.tensor), worst.element, worst.captured, worst.exact);
}

SideOpinion OpinionOf(const recheck::CheckedCall& call) {
  const std::string npu = VerdictText(*call.sides[0]);
  const std::string bench = VerdictText(*call.sides[1]);
  switch (call.wrong_side()) {
    case recheck::WrongSide::kDump:
      return {WrongSide::kNpu, fmt::format("the NPU side, {}; the bench is {}", npu, bench)};
    case recheck::WrongSide::kBench:
      return {WrongSide::kBench, fmt::format("the bench, {}; the NPU side is {}", bench, npu)};
    case recheck::WrongSide::kBoth:
      return {WrongSide::kBoth,
              fmt::format("both sides; the NPU side is {}, the bench {}", npu, bench)};
    case recheck::WrongSide::kNone:
      return {WrongSide::kNeither,
              npu == bench
                  ? fmt::format("neither side, each is {}", npu)
                  : fmt::format("neither side; the NPU side is {}, the bench {}", npu, bench)};
    case recheck::WrongSide::kUnknown:
      break;
  }
  return {WrongSide::kUnknown,
          npu == bench ? fmt::format("not known, the call is {}", npu)
                       : fmt::format("not known; the NPU side is {}, the bench {}", npu, bench)};
}

recheck::CallVerdict RecheckSide(const std::filesystem::path& json, const std::string& name,
                                 base::ThreadPool& pool) {
  recheck::CallVerdict unknown;
  if (name.empty()) {
    unknown.reason = "it has no partner there";
    return unknown;
  }
  const Result<recheck::DumpEntries> entries = recheck::DumpEntries::Open(json);
  if (!entries.ok()) {
    unknown.reason = entries.status().message();
    return unknown;
  }
  Result<recheck::CallVerdict> verdict =
      recheck::RecheckCall(*entries, name, recheck::Precision(), pool);
  if (!verdict.ok()) {
    unknown.reason = verdict.status().message();
    return unknown;
  }
  return *std::move(verdict);
}

}  // namespace

std::string_view WrongSideName(WrongSide side) {
  constexpr std::array<std::string_view, 5> kNames = {"npu", "bench", "both", "neither", "unknown"};
  return kNames[static_cast<size_t>(side)];
}

bool NameWrongSide(ComparedPair& pair, base::ThreadPool& pool) {
  std::optional<DivergencePoint>& point =
      pair.divergence.first_of_kind[static_cast<size_t>(OriginKind::kComputation)];
  if (pair.result.mode != CompareMode::kRealData || !point || point->is_saved_value) {
    return false;
  }
  recheck::CheckedCall call;
  call.name = point->entry_name;
  call.sides[0] = RecheckSide(pair.npu.json_path, point->entry_name, pool);
  call.sides[1] = RecheckSide(pair.bench.json_path, point->bench_entry_name, pool);
  point->wrong_side = OpinionOf(call);
  if (std::optional<DivergencePoint>& first = pair.divergence.first_origin;
      first && first->kind == OriginKind::kComputation) {
    first->wrong_side = point->wrong_side;
  }
  return true;
}

}  // namespace msprobe::analysis::compare
