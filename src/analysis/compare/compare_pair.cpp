// The comparison of one pair, from its files to the divergence. Each stage returns what it makes:
//
//   LoadFiles                             both dumps and the NPU side's companions
//   DetectMode                            tensors, statistics or checksums
//   MatchRows                             which rows of both sides belong together
//   CompareMatched                        metrics and distances of each row
//   AddRowNotes, JudgeCalls (v26) or HighlightRows (v8)   what the table says about rows
//   FindDivergence                        where the runs diverge
#include "src/analysis/compare/compare_pair.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/judging_v26.h"
#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/match.h"
#include "src/analysis/compare/pair_relations.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/statistics.h"
#include "src/analysis/compare/tensor_changes.h"
#include "src/analysis/compare/training_inference.h"
#include "src/analysis/compare/user_metrics.h"
#include "src/base/buffer_pool.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {
namespace {

using Warnings = std::vector<std::string>;

constexpr size_t kRowsPerBlock = size_t{1} << 13U;  // that a thread compares at a time

void Append(const Warnings& more, Warnings& warnings) {
  warnings.insert(warnings.end(), more.begin(), more.end());
}

// The rule for the column NPU_Stack_Info: a stack_path needs -s; without one, the file beside the
// json decides.
struct LoadedStack {
  std::optional<dump::StackFile> file;
  bool show_column = false;
};
Result<LoadedStack> LoadStack(const Options& options, const std::filesystem::path& npu_json,
                              Warnings& warnings) {
  const std::filesystem::path beside = npu_json.parent_path() / dump::kStackFileName;
  const bool named = options.stack_path.has_value();
  const bool show = named ? options.stack_mode : base::Exists(beside);
  const std::filesystem::path path = named ? *options.stack_path : beside;
  if (!show && !base::Exists(path)) {
    return LoadedStack();
  }
  Result<dump::StackFile> stack = dump::StackFile::Read(path);
  if (stack.ok()) {
    return LoadedStack{*std::move(stack), show};
  }
  if (named && show) {
    return std::move(stack).status();
  }
  warnings.push_back(stack.status().message() + "; call stacks are left out");
  return LoadedStack();
}

std::optional<dump::ConstructFile> LoadConstruct(const std::filesystem::path& npu_json,
                                                 Warnings& warnings) {
  const std::filesystem::path path = npu_json.parent_path() / dump::kConstructFileName;
  if (!base::Exists(path)) {
    return std::nullopt;
  }
  Result<dump::ConstructFile> construct = dump::ConstructFile::Read(path);
  if (!construct.ok()) {
    warnings.push_back(construct.status().message() + "; parent modules are left out");
    return std::nullopt;
  }
  return *std::move(construct);
}

// Both dumps and the NPU side's companions, read side by side. Errors and warnings come in this
// order, whichever is read first.
Result<LoadedPair> LoadFiles(const Options& options, const PairInput& input, base::ThreadPool& pool,
                             Warnings& warnings) {
  std::array<SideOptions, 2> side_options;
  for (SideOptions& of_side : side_options) {
    of_side.allow_truncated = options.allow_truncated;
    of_side.edition = options.edition();
  }
  if (options.backend() != TrainingBackend::kNone) {
    side_options[0].keep_entry = ForwardPassFilter(options.backend(), options.v26->strict);
  }
  LoadedPair pair;
  std::array<Status, 3> statuses;
  std::array<Warnings, 2> notes;
  const auto take = [](auto loaded, auto& target, Status& status) {
    if (loaded.ok()) {
      target = *std::move(loaded);
    } else {
      status = std::move(loaded).status();
    }
  };
  LoadedStack stack;
  pool.ParallelFor(4, [&](size_t item, size_t) {
    switch (item) {
      case 0:
        take(LoadSide(input.npu_json, side_options[0]), pair.npu, statuses[0]);
        break;
      case 1:
        take(LoadSide(input.bench_json, side_options[1]), pair.bench, statuses[1]);
        break;
      case 2:
        take(LoadStack(options, input.npu_json, notes[0]), stack, statuses[2]);
        break;
      default:
        pair.construct = LoadConstruct(input.npu_json, notes[1]);
        break;
    }
  });
  for (Status& status : statuses) {
    MSP_RETURN_IF_ERROR(std::move(status));
  }
  pair.stack = std::move(stack.file);
  pair.show_stack_column = stack.show_column;
  for (const Warnings& more : notes) {
    Append(more, warnings);
  }
  return pair;
}

// v26 compares PyTorch only with PyTorch.
Status CheckFrameworks(const Side& npu, const Side& bench) {
  if (npu.framework == Framework::kPyTorch && bench.framework != Framework::kPyTorch) {
    return MismatchError(fmt::format("{} comes from PyTorch, {} from MindSpore",
                                     npu.json_path.string(), bench.json_path.string()))
        .WithHint("the MindSpore dump must be the target (-tp)");
  }
  return OkStatus();
}

Result<RowMapping> MappingOf(const Options& options, const Side& npu, const Side& bench,
                             std::optional<RowMapping> given) {
  if (given && !given->keys.empty() && !options.match.data_mapping.given) {
    return *std::move(given);
  }
  return options.v26 ? BuildRowMappingV26(options.match, options.v26->strict, npu, bench)
                     : BuildRowMapping(options.match, npu, bench);
}

MatchResult MatchRows(const MatchRules& rules, const Side& npu, const Side& bench,
                      const RowMapping& mapping, base::ThreadPool& pool) {
  return rules.fuzzy ? MatchFuzzily(npu, bench, mapping) : MatchExactly(npu, bench, mapping, &pool);
}

// Rows of calls that only one of the levels records: they have no partner, and need none.
void NoteLevels(const PairSides& sides, PairResult& result, Warnings& warnings) {
  const SharedKinds kinds = SharedKindsOf(sides.npu, sides.bench);
  if (kinds.HasAll()) {
    return;
  }
  uint64_t bench_rows = 0;
  for (const SideEntry& entry : sides.bench.entries) {
    bench_rows += kinds.Has(dump::ParseEntryName(entry.name)) ? 0 : entry.row_count;
  }
  result.bench_only_count -= std::min(result.bench_only_count, bench_rows);
  warnings.push_back(fmt::format(
      "the sides were captured at different levels, {} on the test side and {} on the reference "
      "side: calls of {}, which only one of them records, are left out",
      *sides.npu.header.level, *sides.bench.header.level, kinds.modules ? "functions" : "modules"));
}

Status CompareTensors(const Options& options, const PairSides& sides, const TensorLoader* loader,
                      base::ThreadPool& pool, PairResult& result, Warnings& warnings) {
  std::unique_ptr<UserMetrics> user;
  if (options.user_metrics.any()) {
    MSP_ASSIGN_OR_RETURN(user, UserMetrics::Prepare(options.user_metrics, warnings));
  }
  const auto finish = [&] {
    if (user != nullptr) {
      user->Finish(result, warnings);
    }
    return OkStatus();
  };
  if (!options.v26) {
    CompareRealData(sides.npu, sides.bench, pool, options.quiet, result, loader, user.get());
    return finish();
  }
  MSP_ASSIGN_OR_RETURN(
      const TensorChanges changes,
      TensorChanges::Prepare(*options.v26, sides.npu, sides.bench, result, warnings));
  CompareRealData(sides.npu, sides.bench, pool, options.quiet, result,
                  changes.empty() ? loader : &changes, user.get());
  Append(changes.Failures(), warnings);
  return finish();
}

// Statistics and checksums need nothing but the rows.
void CompareRow(const Side& npu, const Side& bench, const PairResult& result, RowResult& row) {
  const SideRow& npu_row = npu.rows[row.pair.npu];
  if (row.pair.bench == kNoRow) {
    row.metrics.fill(Metric::Text(kNotApplicable));
    // A null without partner is shown as N/A, which equals the missing bench's N/A.
    const bool null_row = result.mode == CompareMode::kMd5 && npu_row.md5 == kNotApplicable;
    row.verdict = null_row ? Verdict::kPass : Verdict::kNotAvailable;
  } else if (result.mode == CompareMode::kMd5) {
    CompareChecksums(npu_row, bench.rows[row.pair.bench], row);
  } else if (result.edition == Edition::kV26) {
    CompareStatisticsV26(npu_row, bench.rows[row.pair.bench], row);
  } else {
    CompareStatistics(npu_row, bench.rows[row.pair.bench], row);
  }
}

// That many empty rows. The system clears memory when it is touched first, which takes longer than
// filling it: all threads do that.
void MakeRows(size_t count, base::ThreadPool& pool, std::vector<RowResult>& rows) {
  constexpr size_t kPart = size_t{4} << 20U;
  constexpr size_t kPage = 4096;
  rows.reserve(count);
  const size_t bytes = count * sizeof(RowResult);
  base::AskForHugePages(rows.data(), bytes);
  auto* const memory = reinterpret_cast<volatile char*>(rows.data());
  pool.ParallelFor((bytes + kPart - 1) / kPart, [&](size_t part, size_t) {
    for (size_t at = part * kPart; at < std::min(bytes, (part + 1) * kPart); at += kPage) {
      memory[at] = 0;
    }
  });
  rows.resize(count);
}

// Metrics and distances of the rows that `matches` names; `result` has mode and edition.
Status CompareMatched(const Options& options, const PairSides& sides, MatchResult matches,
                      const TensorLoader* loader, base::ThreadPool& pool, PairResult& result,
                      Warnings& warnings) {
  Append(matches.warnings, warnings);
  if (!options.match.name_filter.empty()) {
    std::erase_if(matches.pairs, [&](const RowPair& pair) {
      return !base::GlobMatch(options.match.name_filter, sides.npu.rows[pair.npu].name);
    });
  }
  result.bench_only_count = matches.bench_only_count;
  NoteLevels(sides, result, warnings);
  const size_t count = matches.pairs.size();
  MakeRows(count, pool, result.rows);
  for (const RowPair& pair : matches.pairs) {
    result.shape_mismatch_count += pair.outcome == MatchOutcome::kShapeDiffers ? 1 : 0;
    result.dtype_mismatch_count += pair.outcome == MatchOutcome::kDTypeDiffers ? 1 : 0;
  }
  const bool is_recorded = result.mode != CompareMode::kRealData;
  pool.ParallelFor((count + kRowsPerBlock - 1) / kRowsPerBlock, [&](size_t block, size_t) {
    const size_t first = block * kRowsPerBlock;
    for (size_t i = first; i < std::min(count, first + kRowsPerBlock); ++i) {
      result.rows[i].pair = matches.pairs[i];
      if (is_recorded) {
        CompareRow(sides.npu, sides.bench, result, result.rows[i]);
      }
    }
  });
  return is_recorded ? OkStatus() : CompareTensors(options, sides, loader, pool, result, warnings);
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

// Notes that belong to the row whatever its metrics say.
void AddRowNotes(bool fuzzy, const Side& npu, const Side& bench, PairResult& result) {
  for (RowResult& row : result.rows) {
    const SideRow& npu_row = npu.rows[row.pair.npu];
    if (row.pair.bench != kNoRow && !fuzzy && npu_row.problem.empty()) {
      continue;
    }
    std::string message;
    if (row.pair.bench == kNoRow) {
      message = UnmatchedMessage(row.pair.outcome);
    } else {
      message = row.message;
      if (fuzzy && npu_row.name != bench.rows[row.pair.bench].name) {
        message += "Matched without the call number: the pair may not belong together. ";
      }
    }
    message += npu_row.problem;
    if (message != row.message) {
      row.message = result.arena->Keep(message);
    }
  }
}

// With a mapping or fuzzy matching, rows keep the pairs that the user asked for; two frameworks do
// not make the same calls.
bool PairsCallsByName(const MatchRules& match, const Side& npu, const Side& bench) {
  return match.fuzzy || match.data_mapping.given || match.cell_mapping.given ||
         match.api_mapping.given || match.layer_mapping.given || npu.framework != bench.framework ||
         npu.is_debug || !match.name_filter.empty();
}

// Calls of joined ranks are paired already, and named by their pairs.
CallOrder OrderOf(const Options& options, const PairSides& sides, bool is_joined,
                  base::ThreadPool& pool) {
  const CallPairs pairs = PairsCallsByName(options.match, sides.npu, sides.bench)
                              ? CallPairs::kByName
                          : is_joined ? CallPairs::kByUniqueName
                                      : CallPairs::kByOrder;
  return OrderCalls(sides.npu, sides.bench, pairs, pool);
}

void AddDivergence(const Options& options, const PairInput& input, const PairSides& sides,
                   const CallOrder& order, const StepRecord* previous,
                   std::span<const ReplicaDifference> replicas, PairFindings& findings) {
  DivergenceOutput divergence =
      FindDivergence({options.match, options.noise, sides.npu, sides.bench, findings.result, order,
                      sides.stack, sides.construct, input.step, previous, replicas});
  findings.divergence = std::move(divergence.report);
  findings.record = std::move(divergence.record);
  if (findings.result.unreadable_count > 0) {
    findings.warnings.push_back(
        fmt::format("{} without metrics, for a tensor file that cannot be read; the first: {}",
                    base::Plural(findings.result.unreadable_count, "row"),
                    base::Trim(findings.result.first_unreadable)));
  }
  Append(sides.npu.warnings, findings.warnings);
  Append(sides.bench.warnings, findings.warnings);
  Append(findings.mapping.warnings, findings.warnings);
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
                           npu.has_md5 ? "test" : "reference"))
        .WithHint("dump both sides with the same summary_mode");
  }
  return npu.has_md5 ? CompareMode::kMd5 : CompareMode::kStatistics;
}

Result<LoadedPair> LoadPair(const Options& options, const PairInput& input, base::ThreadPool& pool,
                            PairSource& source) {
  const base::Stopwatch watch;
  MSP_ASSIGN_OR_RETURN(LoadedPair loaded, LoadFiles(options, input, pool, source.warnings));
  source.load_seconds = watch.seconds();
  return loaded;
}

Result<ComparedPair> ComparePair(const Options& options, const PairInput& input,
                                 base::ThreadPool& pool, const StepRecord* previous) {
  PairSource source;
  MSP_ASSIGN_OR_RETURN(LoadedPair loaded, LoadPair(options, input, pool, source));
  return CompareLoaded(options, input, std::move(loaded), std::move(source), pool, previous);
}

Result<ComparedPair> CompareLoaded(const Options& options, const PairInput& input,
                                   LoadedPair loaded, PairSource source, base::ThreadPool& pool,
                                   const StepRecord* previous) {
  const base::Stopwatch compare_watch;
  ComparedPair pair;
  static_cast<LoadedPair&>(pair) = std::move(loaded);
  pair.warnings = std::move(source.warnings);
  pair.timings.load_seconds = source.load_seconds;
  PairResult& result = pair.result;
  MSP_ASSIGN_OR_RETURN(result.mode, DetectMode(pair.npu, pair.bench));
  if (options.v26) {
    MSP_RETURN_IF_ERROR(CheckFrameworks(pair.npu, pair.bench));
    if (options.v26->statistics_only && result.mode == CompareMode::kRealData) {
      result.mode = CompareMode::kStatistics;
    }
  }
  result.edition = options.edition();
  result.sums_are_joined = source.sums_are_joined;
  MatchResult matches;
  if (options.backend() != TrainingBackend::kNone) {
    MSP_ASSIGN_OR_RETURN(matches, MatchTrainingWithInference(*options.v26, options.output.xlsx,
                                                             pair.npu, pair.bench, result));
  } else {
    MSP_ASSIGN_OR_RETURN(pair.mapping,
                         MappingOf(options, pair.npu, pair.bench, std::move(source.mapping)));
    matches = MatchRows(options.match, pair.npu, pair.bench, pair.mapping, pool);
  }
  const PairSides sides = {pair.npu, pair.bench, pair.stack ? &*pair.stack : nullptr,
                           pair.construct ? &*pair.construct : nullptr};
  MSP_RETURN_IF_ERROR(CompareMatched(options, sides, std::move(matches), source.loader, pool,
                                     result, pair.warnings));
  const CallOrder order = OrderOf(options, sides, source.sums_are_joined, pool);
  // What the table says about rows, while where the runs part is found: that reads neither verdicts
  // nor notes nor colours.
  pool.ParallelFor(2, [&](size_t item, size_t) {
    if (item == 0) {
      AddDivergence(options, input, sides, order, previous, source.replicas, pair);
      return;
    }
    AddRowNotes(options.match.fuzzy, pair.npu, pair.bench, result);
    if (options.v26) {
      JudgeCalls(pair.npu, pair.bench, {options.v26->strict, options.backend()}, result);
    } else {
      HighlightRows(pair.npu, pair.bench, result);
    }
  });
  const RelationInput relations = {options.noise, pair.npu,     pair.bench,
                                   source.loader, source.parts, input.bench_before};
  AddRelations(relations, result, pair.divergence);
  if (source.sums_are_joined) {
    if (const uint64_t left = AddRowRelations(relations, pair.divergence, pool, result); left > 0) {
      pair.warnings.push_back(
          fmt::format("the relation of {} was not looked for: too many elements differ",
                      base::Plural(left, "row")));
    }
  }
  pair.timings.compare_seconds = compare_watch.seconds();
  return pair;
}

Result<PairFindings> FindDifferences(const Options& options, const PairInput& input,
                                     const PairSides& sides, base::ThreadPool& pool,
                                     const StepRecord* previous) {
  const base::Stopwatch compare_watch;
  PairFindings findings;
  MSP_ASSIGN_OR_RETURN(findings.result.mode, DetectMode(sides.npu, sides.bench));
  MSP_ASSIGN_OR_RETURN(findings.mapping, BuildRowMapping(options.match, sides.npu, sides.bench));
  MSP_RETURN_IF_ERROR(CompareMatched(
      options, sides, MatchRows(options.match, sides.npu, sides.bench, findings.mapping, pool),
      /*loader=*/nullptr, pool, findings.result, findings.warnings));
  AddDivergence(options, input, sides, OrderOf(options, sides, false, pool), previous, {},
                findings);
  findings.timings.compare_seconds = compare_watch.seconds();
  return findings;
}

}  // namespace msprobe::analysis::compare
