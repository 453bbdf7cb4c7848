#include "src/analysis/compare/compare_pair.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/line26/judge.h"
#include "src/analysis/compare/line26/row_mapping26.h"
#include "src/analysis/compare/line26/tensor_changes.h"
#include "src/analysis/compare/line26/training_inference.h"
#include "src/analysis/compare/match.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/statistics.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {
namespace {

// The rule for the column NPU_Stack_Info: a stack_path needs -s; without one, the file beside the
// json decides.
Status LoadStack(const Options& options, ComparedPair& pair) {
  const std::filesystem::path beside = pair.npu.json_path.parent_path() / dump::kStackFileName;
  const bool named = options.stack_path.has_value();
  pair.show_stack_column = named ? options.stack_mode : base::Exists(beside);
  const std::filesystem::path path = named ? *options.stack_path : beside;
  if (!pair.show_stack_column && !base::Exists(path)) {
    return {};
  }
  Result<dump::StackFile> stack = dump::StackFile::Read(path);
  if (stack.ok()) {
    pair.stack = *std::move(stack);
    return {};
  }
  if (named && pair.show_stack_column) {
    return std::move(stack).status();
  }
  pair.warnings.push_back(stack.status().message() + "; call stacks are left out");
  pair.show_stack_column = false;
  return {};
}

void LoadConstruct(ComparedPair& pair) {
  const std::filesystem::path path = pair.npu.json_path.parent_path() / dump::kConstructFileName;
  if (!base::Exists(path)) {
    return;
  }
  Result<dump::ConstructFile> construct = dump::ConstructFile::Read(path);
  if (construct.ok()) {
    pair.construct = *std::move(construct);
  } else {
    pair.warnings.push_back(construct.status().message() + "; parent modules are left out");
  }
}

Status LoadSides(const Options& options, const PairInput& input, base::ThreadPool& pool,
                 ComparedPair& pair) {
  SideOptions side_options;
  side_options.allow_truncated = options.allow_truncated;
  side_options.edition = options.edition();
  std::array<SideOptions, 2> of_side = {side_options, side_options};
  if (options.line26 && options.line26->backend != TrainingBackend::kNone) {
    of_side[0].keep_entry = ForwardPassFilter(options.line26->backend, options.line26->strict);
  }
  std::array<Status, 2> statuses;
  pool.ParallelFor(2, [&](size_t item, size_t) {
    Result<Side> side = LoadSide(item == 0 ? input.npu_json : input.bench_json, of_side[item]);
    if (side.ok()) {
      (item == 0 ? pair.npu : pair.bench) = *std::move(side);
    } else {
      statuses[item] = std::move(side).status();
    }
  });
  for (Status& status : statuses) {
    MSP_RETURN_IF_ERROR(std::move(status));
  }
  return {};
}

void CountOutcomes(PairResult& result) {
  for (const RowResult& row : result.rows) {
    result.shape_mismatch_count += row.pair.outcome == MatchOutcome::kShapeDiffers ? 1 : 0;
    result.dtype_mismatch_count += row.pair.outcome == MatchOutcome::kDTypeDiffers ? 1 : 0;
  }
}

std::string_view UnmatchedMessage(MatchOutcome outcome) {
  switch (outcome) {
    case MatchOutcome::kShapeDiffers:
      return "No bench row matches: the bench row of this name has another shape. ";
    case MatchOutcome::kDTypeDiffers:
      return "No bench row matches: the bench row of this name has a dtype that cannot be "
             "compared. ";
    case MatchOutcome::kNoBenchRow:
    case MatchOutcome::kMatched:
      break;
  }
  return "No bench row matches. ";
}

// Statistics and checksums need nothing but the rows.
void CompareRows(const Side& npu, const Side& bench, PairResult& result) {
  for (RowResult& row : result.rows) {
    const SideRow& npu_row = npu.rows[row.pair.npu];
    if (row.pair.bench == kNoRow) {
      row.metrics.fill(Metric::Text(kNotApplicable));
      // A null that nothing stands against is shown as N/A, which equals the missing bench's N/A.
      const bool null_row = result.mode == CompareMode::kMd5 && npu_row.md5 == kNotApplicable;
      row.verdict = null_row ? Verdict::kPass : Verdict::kNotAvailable;
    } else if (result.mode == CompareMode::kMd5) {
      CompareChecksums(npu_row, bench.rows[row.pair.bench], row);
    } else if (result.edition == Edition::k26) {
      CompareStatistics26(npu_row, bench.rows[row.pair.bench], row);
    } else {
      CompareStatistics(npu_row, bench.rows[row.pair.bench], row);
    }
  }
}

// Notes that belong to the row whatever its metrics say.
void AddRowNotes(const Options& options, const Side& npu, const Side& bench, PairResult& result) {
  for (RowResult& row : result.rows) {
    const SideRow& npu_row = npu.rows[row.pair.npu];
    std::string message;
    if (row.pair.bench == kNoRow) {
      message = UnmatchedMessage(row.pair.outcome);
    } else {
      message = row.message;
      if (options.fuzzy && npu_row.name != bench.rows[row.pair.bench].name) {
        message += "Matched without the call number: the pair may not belong together. ";
      }
    }
    if (!npu_row.problem.empty()) {
      message += npu_row.problem;
    }
    if (message != row.message) {
      row.message = result.arena->Keep(message);
    }
  }
}

void DropFilteredRows(const Options& options, const Side& npu, MatchResult& matches) {
  if (!options.name_filter.empty()) {
    std::erase_if(matches.pairs, [&](const RowPair& pair) {
      return !base::GlobMatch(options.name_filter, npu.rows[pair.npu].name);
    });
  }
}

Result<MatchResult> MatchSides(const Options& options, const Side& npu, const Side& bench,
                               RowMapping& mapping) {
  if (mapping.keys.empty() || options.data_mapping.given) {
    MSP_ASSIGN_OR_RETURN(mapping, options.line26 ? BuildRowMapping26(options, npu, bench)
                                                 : BuildRowMapping(options, npu, bench));
  }
  return options.fuzzy ? MatchFuzzily(npu, bench, mapping) : MatchExactly(npu, bench, mapping);
}

Result<MatchResult> MatchRows(const Options& options, ComparedPair& pair) {
  return options.line26 && options.line26->backend != TrainingBackend::kNone
             ? MatchTrainingWithInference(options, pair.npu, pair.bench, pair.result)
             : MatchSides(options, pair.npu, pair.bench, pair.mapping);
}

Status CompareTensors(const Options& options, const PairSides& sides, base::ThreadPool& pool,
                      PairFindings& findings) {
  if (!options.line26) {
    CompareRealData(sides.npu, sides.bench, pool, options.quiet, findings.result, findings.loader);
    return OkStatus();
  }
  MSP_ASSIGN_OR_RETURN(
      const TensorChanges changes,
      TensorChanges::Prepare(options, sides.npu, sides.bench, findings.result, findings.warnings));
  CompareRealData(sides.npu, sides.bench, pool, options.quiet, findings.result,
                  changes.empty() ? nullptr : &changes);
  const std::vector<std::string> failures = changes.Failures();
  findings.warnings.insert(findings.warnings.end(), failures.begin(), failures.end());
  return OkStatus();
}

// Which frameworks the 26.x line compares with which.
Status CheckFrameworks(const ComparedPair& pair) {
  if (pair.npu.framework == Framework::kPyTorch && pair.bench.framework != Framework::kPyTorch) {
    return MismatchError(fmt::format("{} comes from PyTorch, {} from MindSpore",
                                     pair.npu.json_path.string(), pair.bench.json_path.string()))
        .WithHint("the MindSpore dump must be the target (-tp)");
  }
  return OkStatus();
}

// Rows of calls that only one of the levels records: they have no partner, and need none.
void NoteLevels(const PairSides& sides, PairFindings& findings) {
  const SharedKinds kinds = SharedKindsOf(sides.npu, sides.bench);
  if (kinds.HasAll()) {
    return;
  }
  uint64_t bench_rows = 0;
  for (const SideEntry& entry : sides.bench.entries) {
    bench_rows += kinds.Has(dump::ParseEntryName(entry.name)) ? 0 : entry.row_count;
  }
  findings.result.bench_only_count -= std::min(findings.result.bench_only_count, bench_rows);
  findings.warnings.push_back(fmt::format(
      "the sides were captured at different levels, {} under test and {} in the reference: calls "
      "of "
      "{}, which only one of them records, are left out",
      *sides.npu.header.level, *sides.bench.header.level, kinds.modules ? "functions" : "modules"));
}

Status CompareMatched(const Options& options, const PairSides& sides, MatchResult matches,
                      base::ThreadPool& pool, PairFindings& findings) {
  PairResult& result = findings.result;
  findings.warnings.insert(findings.warnings.end(), matches.warnings.begin(),
                           matches.warnings.end());
  DropFilteredRows(options, sides.npu, matches);
  result.bench_only_count = matches.bench_only_count;
  NoteLevels(sides, findings);
  result.rows.resize(matches.pairs.size());
  for (size_t i = 0; i < matches.pairs.size(); ++i) {
    result.rows[i].pair = matches.pairs[i];
  }
  if (result.mode == CompareMode::kRealData) {
    MSP_RETURN_IF_ERROR(CompareTensors(options, sides, pool, findings));
  } else {
    CompareRows(sides.npu, sides.bench, result);
  }
  CountOutcomes(result);
  return {};
}

// The walk over the calls, and what is to be told of the sides.
void TakeWalk(const Options& options, const PairInput& input, const PairSides& sides,
              const StepRecord* previous, PairFindings& findings) {
  DivergenceOutput divergence =
      FindDivergence({options, sides.npu, sides.bench, findings.result, sides.stack,
                      sides.construct, input.step, previous});
  findings.divergence = std::move(divergence.report);
  findings.record = std::move(divergence.record);
  if (findings.result.unreadable_count > 0) {
    findings.warnings.push_back(
        fmt::format("{} without metrics, for a tensor file that cannot be read; the first: {}",
                    base::Plural(findings.result.unreadable_count, "row"),
                    base::Trim(findings.result.first_unreadable)));
  }
  for (const std::vector<std::string>* more :
       {&sides.npu.warnings, &sides.bench.warnings, &std::as_const(findings.mapping.warnings)}) {
    findings.warnings.insert(findings.warnings.end(), more->begin(), more->end());
  }
}

}  // namespace

Result<CompareMode> DetectMode(const Side& npu, const Side& bench) {
  for (const Side* side : {&npu, &bench}) {
    if (!side->header.has_data) {
      return BadFormatError(fmt::format("{} has no object \"data\"", side->json_path.string()))
          .WithHint("is it the dump.json of a finished step?");
    }
    if (!side->header.task || side->header.task->empty()) {
      return BadFormatError(fmt::format("{} has no text \"task\"", side->json_path.string()));
    }
  }
  const std::string& task = *npu.header.task;
  if (task != *bench.header.task) {
    return MismatchError(
               fmt::format("the dumps were made with different tasks: {} is \"{}\", {} is \"{}\"",
                           npu.json_path.string(), task, bench.json_path.string(),
                           *bench.header.task))
        .WithHint("dump both sides with the same task");
  }
  if (task == "tensor") {
    return CompareMode::kRealData;
  }
  if (task != "statistics") {
    return UnsupportedError(fmt::format("a dump of task \"{}\" holds nothing to compare", task))
        .WithHint("compare reads dumps of the tasks tensor and statistics");
  }
  if (npu.has_md5 != bench.has_md5) {
    return MismatchError(
               fmt::format("only the {} side was dumped with checksums (summary_mode md5)",
                           npu.has_md5 ? "NPU" : "bench"))
        .WithHint("dump both sides with the same summary_mode");
  }
  return npu.has_md5 ? CompareMode::kMd5 : CompareMode::kStatistics;
}

Result<ComparedPair> ComparePair(const Options& options, const PairInput& input,
                                 base::ThreadPool& pool, const StepRecord* previous) {
  ComparedPair pair;
  const base::Stopwatch load_watch;
  MSP_RETURN_IF_ERROR(LoadSides(options, input, pool, pair));
  MSP_RETURN_IF_ERROR(LoadStack(options, pair));
  LoadConstruct(pair);
  pair.timings.load_seconds = load_watch.seconds();
  MSP_RETURN_IF_ERROR(CompareLoaded(options, input, pool, previous, pair));
  return pair;
}

Status CompareLoaded(const Options& options, const PairInput& input, base::ThreadPool& pool,
                     const StepRecord* previous, ComparedPair& pair) {
  MSP_ASSIGN_OR_RETURN(pair.result.mode, DetectMode(pair.npu, pair.bench));
  if (options.line26) {
    MSP_RETURN_IF_ERROR(CheckFrameworks(pair));
    if (options.line26->statistics_only && pair.result.mode == CompareMode::kRealData) {
      pair.result.mode = CompareMode::kStatistics;
    }
  }
  const base::Stopwatch compare_watch;
  pair.result.edition = options.edition();
  MSP_ASSIGN_OR_RETURN(MatchResult matches, MatchRows(options, pair));
  const PairSides sides = {pair.npu, pair.bench, pair.stack ? &*pair.stack : nullptr,
                           pair.construct ? &*pair.construct : nullptr};
  MSP_RETURN_IF_ERROR(CompareMatched(options, sides, std::move(matches), pool, pair));
  AddRowNotes(options, pair.npu, pair.bench, pair.result);
  if (options.line26) {
    JudgeCalls(pair.npu, pair.bench, {options.line26->strict, options.line26->backend},
               pair.result);
  } else {
    HighlightRows(pair.npu, pair.bench, pair.result);
  }
  TakeWalk(options, input, sides, previous, pair);
  pair.timings.compare_seconds = compare_watch.seconds();
  return {};
}

Status FindDifferences(const Options& options, const PairInput& input, const PairSides& sides,
                       base::ThreadPool& pool, const StepRecord* previous, PairFindings& findings) {
  MSP_ASSIGN_OR_RETURN(findings.result.mode, DetectMode(sides.npu, sides.bench));
  const base::Stopwatch compare_watch;
  MSP_ASSIGN_OR_RETURN(MatchResult matches,
                       MatchSides(options, sides.npu, sides.bench, findings.mapping));
  MSP_RETURN_IF_ERROR(CompareMatched(options, sides, std::move(matches), pool, findings));
  TakeWalk(options, input, sides, previous, findings);
  findings.timings.compare_seconds = compare_watch.seconds();
  return {};
}

}  // namespace msprobe::analysis::compare
