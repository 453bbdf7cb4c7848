// msprobe perf_compare: two profiles of the same training, and why one is slower or uses more
// memory; the ranks of one run against each other; two memory snapshots, and what grew.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/memory/growth.h"
#include "src/analysis/memory/snapshot.h"
#include "src/analysis/perf/document.h"
#include "src/analysis/perf/name_map.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/perf.h"
#include "src/analysis/perf/ranks_of_run.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/report/web_page.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;
using analysis::perf::Gate;
using analysis::perf::GateMetric;

constexpr int64_t kMaxKernelFloor = 3;
constexpr size_t kMaxFlowCategory = 20;

constexpr const char* kPerfCompareNotes =
    R"(Differences are PROFILE minus REFERENCE and ratios PROFILE divided by REFERENCE, so a ratio above 1 is worse. Without any
--enable_* flag all six comparisons are made.

--fail-on METRIC>GROWTH accepts the metrics e2e, computing, communication (uncovered), free, memory and op:GLOB, and
growth in %, ms, s, MB or GB. If a metric cannot be measured, the gate fails.

Memory snapshots of PyTorch (torch.cuda.memory._dump_snapshot) are recognised by their content and never executed: the first
one is before, the second after, and one alone tells what is largest. --fail-on grown: more is allocated than before.

Without REFERENCE the ranks in the folder PROFILE are compared with each other. --fail-on late: a rank makes the others wait; link:
collectives take longer although no rank is late.

)";

std::string WithoutEquals(std::string text) {
  text.erase(0, std::min(text.find_first_not_of('='), text.size()));
  return text;
}

fs::path PathOf(const std::string& typed) {
  std::string text = WithoutEquals(typed);
  if (text == "~" || text.starts_with("~/")) {
    if (const char* home = std::getenv("HOME")) {
      text.replace(0, 1, home);
    }
  }
  return text;
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Status CheckInput(const fs::path& path, std::string_view flag) {
  if (path.empty()) {
    return UsageError(fmt::format("{}: the path is empty", flag));
  }
  if (!base::Exists(path)) {
    return NotFoundError(fmt::format("{} does not exist", path.string()));
  }
  return {};
}

class PerfCompareCommand final : public Command {
 public:
  PerfCompareCommand()
      : Command("perf_compare",
                "Compare two profiles and name what got slower or uses more memory") {
    for (bool* const comparison : Comparisons()) {
      *comparison = false;
    }
  }

  FlagTable flags() override {
    analysis::perf::PairOptions& pair = options_.pair;
    return {
        Group::kInput,
        Path("--profiling-path -d", "PATH", &comparison_path_,
             "The test profile, instead of PROFILE", kPython811),
        Path("--benchmark-profiling-path -bp", "PATH", &base_path_,
             "The reference profile, instead of REFERENCE", kPython811),
        Switch("--strict", &options_.pair.strict,
               "Treat a damaged file as an error instead of a warning"),
        Group::kSelection,
        Switch("--enable-profiling-compare", &pair.overall,
               "Compare the shares of the time: computing, communication, free", kPython811),
        Switch("--enable-operator-compare", &pair.operators,
               "Compare device time per operator, or per module if both sides recorded modules",
               kPython811),
        Switch("--enable-memory-compare", &pair.memory,
               "Compare the memory that operators allocate", kPython811),
        Switch("--enable-communication-compare", &pair.communication, "Compare collectives",
               kPython811),
        Switch("--enable-api-compare", &pair.api, "Compare host time per call", kPython811),
        Switch("--enable-kernel-compare", &pair.kernels,
               "Compare kernels by name and family; for two NPUs also by type and shapes",
               kPython811),
        Switch("--disable-details", &disable_details_,
               "Write statistics only, no sheets of single calls", kPython811),
        Switch("--disable-module", &disable_modules_,
               "Compare operators even if modules were recorded", kPython811),
        Text("--step", "STEP", &step_, "Only this step of both sides"),
        Text("--base-step", "STEP", &base_step_,
             "Only this step of REFERENCE; with --comparison-step", kPython811),
        Text("--comparison-step", "STEP", &comparison_step_,
             "Only this step of PROFILE; with --base-step", kPython811),
        Number("--rank", "N", &rank_, "Only this rank of both sides", kNotNegative),
        Number("--base-rank", "N", &options_.pair.base_rank, "Rank of REFERENCE, if it differs",
               kNotNegative),
        Number("--comparison-rank", "N", &options_.pair.comparison_rank,
               "Rank of PROFILE, if it differs", kNotNegative),
        Group::kMethod,
        Number("--max-kernel-num", "N", &pair.max_kernels,
               "Replace operators with more kernels than this by the operators they call; above 3",
               kPython811),
        Text("--op-name-map", "DICT", &name_map_,
             "Operators to match under different names: \"{'name1':'name2'}\"", kPython811),
        Switch("--use-input-shape", &pair.use_input_shape,
               "Match operators only if their input shapes are equal", kPython811),
        Text("--gpu-flow-cat", "NAME", &pair.gpu_flow_category,
             "Category of the events that link operators to kernels in a GPU trace", kPython811),
        Switch("--use-kernel-type", &pair.use_kernel_type,
               "Compare kernels by type and core, from op_statistic.csv", kPython811),
        Choice("--match-algo", "NAME", &pair.alignment,
               {{"legacy", analysis::perf::Alignment::kLegacy},
                {"longest", analysis::perf::Alignment::kLongest}},
               "How to align operators; legacy: as the Python tool does, longest: by longest "
               "common subsequence"),
        Choice("--match-collectives", "HOW", &pair.match_collectives_by_kind,
               {{"kind", true}, {"name", false}},
               "How the answer and summary.json match collectives; kind: NCCL with HCCL, name: as "
               "in the sheet"),
        Switch("--exact-time", &pair.exact_time,
               "GPU times in nanoseconds instead of whole microseconds"),

        OutputFolderFlag(output_path_, "Folder for the results", {"--output_path"}),
        FormatsFlag({{"xlsx", &options_.formats.xlsx},
                     {"csv", &options_.formats.csv},
                     {"json", &options_.formats.json},
                     {"html", &wants_page_}},
                    "xlsx"),
        Group::kOutput,
        Number("--top", "N", &top_, "Number of differences to show"),
        Number("--min-diff-us", "US", &min_difference_us_,
               "Hide smaller differences, in microseconds", kNotNegative),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        Group::kGeneral,
        Switch("--debug", &debug_, "The same as --verbose", kPython811, kHidden),

        AnswerRows(answer_, analysis::perf::kGateLevels, "METRIC>GROWTH, e.g. 'e2e>5%'"),
    };
  }

  std::vector<Positional> positionals() override {
    constexpr NeededUnless kOtherWays{"--profiling-path --benchmark-profiling-path"};
    return {
        Argument("PROFILE", &profile_,
                 "The test profile: a PyTorch trace (.json, .json.gz), an *_ascend_pt or "
                 "*_ascend_ms folder, a profiler database, or a folder with one of them per rank",
                 kOtherWays),
        Argument("REFERENCE", &reference_,
                 "The reference profile; without it the ranks in PROFILE are compared with each "
                 "other",
                 FromProject{"reference", ProjectScope::kOwnTable})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe perf_compare npu_ascend_pt gpu.pt.trace.json -o result",
         "an NPU profile against a GPU profile: everything that both contain"},
        {"msprobe perf_compare after.pt.trace.json.gz before.pt.trace.json.gz "
         "--enable_operator_compare",
         "operators and modules only"},
        {"msprobe perf_compare after.pt.trace.json.gz before.pt.trace.json.gz --format xlsx,html",
         "the workbook, and a page for any browser: what grew, as a tree down to kernels"},
        {"mpirun -n 8 msprobe perf_compare after before -o result",
         "folders with one profile per rank, distributed over eight processes"},
        {"msprobe perf_compare run -o result --format html",
         "a folder with one profile per rank: which rank is late, which link is slow, and a map"},
        {"msprobe perf_compare after before --fail-on 'e2e>5%' --fail-on 'op:*matmul*>10%' --junit "
         "perf.xml",
         "in CI: exit code 1 if the step or its matrix products got that much slower"},
    };
  }

  std::string notes() const override {
    return kPerfCompareNotes + FailOnHelp(analysis::perf::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override;

 private:
  Status TakeSides() {
    if (profile_.empty()) {
      return comparison_path_.empty() ? MissingArgument("msprobe perf_compare", "-d PROFILE")
             : base_path_.empty()     ? MissingArgument("msprobe perf_compare", "-bp REFERENCE")
                                      : OkStatus();
    }
    if (reference_.empty()) {
      return MissingArgument("msprobe perf_compare", "REFERENCE")
          .WithHint("msprobe perf_compare PROFILE REFERENCE, or -d PROFILE -bp REFERENCE");
    }
    if (!comparison_path_.empty() || !base_path_.empty()) {
      return UsageError("the profiles are given in more than one way")
          .WithHint("msprobe perf_compare PROFILE REFERENCE, or -d PROFILE -bp REFERENCE");
    }
    comparison_path_ = profile_.string();
    base_path_ = reference_.string();
    return {};
  }

  // Memory snapshots: the first one is before, the second after; those of flags as profiles are.
  bool AreSnapshots() const {
    return analysis::memory::IsSnapshotFile(profile_.empty() ? PathOf(comparison_path_) : profile_);
  }

  Result<ExitCode> CompareSnapshots(const Context& context) {
    analysis::memory::Options options;
    options.top = top_;
    options.output = PathOf(output_path_.string());
    if (!profile_.empty()) {
      options.before = profile_;
      if (!reference_.empty()) {
        options.after = reference_;
      }
    } else {
      options.before = PathOf(base_path_.empty() ? comparison_path_ : base_path_);
      if (!base_path_.empty()) {
        options.after = PathOf(comparison_path_);
      }
    }
    MSP_RETURN_IF_ERROR(CheckInput(options.before, "PROFILE"));
    MSP_RETURN_IF_ERROR(options.after ? CheckInput(*options.after, "REFERENCE") : OkStatus());
    for (const std::string& text : answer_.fail_on) {
      if (text != analysis::memory::kGateLevels[0].word) {
        return UsageError(fmt::format("--fail-on {} is not about memory snapshots", text))
            .WithHint(fmt::format("--fail-on {}", analysis::memory::kGateLevels[0].word));
      }
    }
    OwnForms own;
    if (wants_page_ || answer_.open) {
      own.page = options.output / "memory.html";
      MSP_RETURN_IF_ERROR(CheckPage(own.page));
    }
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const analysis::memory::Growth growth, analysis::memory::Run(options));
    report::Document document = analysis::memory::MakeDocument(growth, top_);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

  // One side: a folder with the profiles of several ranks.
  Result<bool> IsOneRun() const {
    const fs::path path = profile_.empty() ? PathOf(comparison_path_) : profile_;
    const bool is_alone =
        profile_.empty() ? base_path_.empty() && !comparison_path_.empty()
                         : reference_.empty() && comparison_path_.empty() && base_path_.empty();
    if (!is_alone || !base::IsFolder(path)) {
      return false;
    }
    return analysis::perf::HoldsRanks(path);
  }

  Result<ExitCode> CompareRanks(const Context& context) {
    options_.pair.comparison = profile_.empty() ? PathOf(comparison_path_) : profile_;
    options_.output = PathOf(output_path_.string());
    options_.quiet = context.quiet;
    if (rank_ || options_.pair.base_rank || options_.pair.comparison_rank) {
      return UsageError(
          "without REFERENCE all ranks are compared with each other: --rank, "
          "--base-rank and --comparison-rank do not apply");
    }
    base_step_ = comparison_step_.empty() ? step_ : comparison_step_;
    comparison_step_ = base_step_;
    MSP_RETURN_IF_ERROR(CheckSteps());
    for (const std::string& text : answer_.fail_on) {
      const auto& levels = analysis::perf::kRankLevels;
      if (std::none_of(levels.begin(), levels.end(),
                       [&](const auto& level) { return text == level.word; })) {
        return UsageError(fmt::format("--fail-on {} needs a reference", text))
            .WithHint("the ranks of one run: --fail-on late, --fail-on link");
      }
    }
    OwnForms own;
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    if (base::AnswersHere()) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(options_.output / "ranks.csv"));
      if (wants_page_ || answer_.open) {
        own.page = options_.output / "ranks.html";
        MSP_RETURN_IF_ERROR(CheckPage(own.page));
      }
    }
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const analysis::perf::RanksOfRun run,
                         analysis::perf::CompareRanks(options_));
    if (!run.reports) {
      return ExitCode::kDone;
    }
    report::Document document = analysis::perf::MakeDocument(run, top_);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

  // In the Python tool's order, so that of several mistakes the same one is reported.
  Status CheckFlags() {
    analysis::perf::PairOptions& pair = options_.pair;
    if (pair.max_kernels.has_value() && *pair.max_kernels <= kMaxKernelFloor) {
      return UsageError(fmt::format("--max_kernel_num must be greater than {}, not {}",
                                    kMaxKernelFloor, *pair.max_kernels));
    }
    if (!name_map_.empty()) {
      MSP_ASSIGN_OR_RETURN(pair.operator_names,
                           analysis::perf::ParseNameMap(WithoutEquals(name_map_)));
    }
    pair.gpu_flow_category = WithoutEquals(pair.gpu_flow_category);
    if (pair.gpu_flow_category.size() > kMaxFlowCategory) {
      return UsageError(
          fmt::format("--gpu_flow_cat may have at most {} characters", kMaxFlowCategory));
    }
    MSP_RETURN_IF_ERROR(CheckSteps());
    MSP_RETURN_IF_ERROR(CheckGates());
    pair.base = PathOf(base_path_);
    pair.comparison = PathOf(comparison_path_);
    options_.output = PathOf(output_path_.string());
    MSP_RETURN_IF_ERROR(CheckInput(pair.comparison, "-d"));
    MSP_RETURN_IF_ERROR(CheckInput(pair.base, "-bp"));
    if (base::Exists(options_.output) && !base::IsFolder(options_.output)) {
      return UsageError(fmt::format("the output folder {} is a file", options_.output.string()));
    }
    return {};
  }

  Status CheckSteps() {
    if (!step_.empty()) {
      base_step_ = base_step_.empty() ? step_ : base_step_;
      comparison_step_ = comparison_step_.empty() ? step_ : comparison_step_;
    }
    base_step_ = WithoutEquals(base_step_);
    comparison_step_ = WithoutEquals(comparison_step_);
    if (base_step_.empty() && comparison_step_.empty()) {
      return {};
    }
    if (base_step_.empty() || comparison_step_.empty()) {
      return UsageError("--base_step and --comparison_step must be given at the same time");
    }
    if (!IsDigits(base_step_) || !IsDigits(comparison_step_)) {
      return UsageError(fmt::format("a step must be a number: --base_step {}, --comparison_step {}",
                                    base_step_, comparison_step_));
    }
    options_.pair.base_step = base_step_;
    options_.pair.comparison_step = comparison_step_;
    return {};
  }

  Status CheckGates() {
    for (std::string& text : answer_.fail_on) {
      if (text == analysis::perf::kGateLevels[0].word) {
        continue;
      }
      MSP_ASSIGN_OR_RETURN(Gate gate, analysis::perf::ParseGate(text));
      if (gate.metric == GateMetric::kOperator) {
        options_.pair.watched_operators.push_back(gate.pattern);
      } else if (!options_.pair.overall) {
        return UsageError(fmt::format("--fail-on {} needs --enable_profiling_compare", gate.text));
      }
      text = gate.text;  // as the answer names it
      options_.gates.push_back(std::move(gate));
    }
    return {};
  }

  std::array<bool*, 6> Comparisons() {
    analysis::perf::PairOptions& pair = options_.pair;
    return {&pair.overall,       &pair.operators, &pair.memory,
            &pair.communication, &pair.api,       &pair.kernels};
  }

  // All that were asked for, or else all.
  void ChooseComparisons() {
    analysis::perf::PairOptions& pair = options_.pair;
    const std::array<bool*, 6> chosen = Comparisons();
    if (std::none_of(chosen.begin(), chosen.end(),
                     [](const bool* comparison) { return *comparison; })) {
      for (bool* const comparison : chosen) {
        *comparison = true;
      }
    }
    pair.details = !disable_details_;
    pair.modules = !disable_modules_;
    if (pair.use_kernel_type && !pair.kernels) {
      base::LogWarning("--use_kernel_type has no effect without --enable_kernel_compare");
    }
  }

  analysis::perf::Options options_;
  std::filesystem::path profile_;
  std::filesystem::path reference_;
  // As typed; the Python tool lets values begin with '='.
  std::string comparison_path_;
  std::string base_path_;
  std::filesystem::path output_path_ = "./";
  bool disable_details_ = false;
  bool disable_modules_ = false;
  std::string name_map_;
  std::string step_;
  std::string base_step_;
  std::string comparison_step_;
  std::optional<int64_t> rank_;
  AnswerFlags answer_;
  size_t top_ = 10;
  double min_difference_us_ = 0;
  bool wants_page_ = false;
  bool debug_ = false;
};

Result<ExitCode> PerfCompareCommand::Run(const Context& context) {
  if (debug_ && !context.quiet) {
    base::SetLogLevel(base::LogLevel::kDebug);
  }
  if (AreSnapshots()) {
    return CompareSnapshots(context);
  }
  MSP_ASSIGN_OR_RETURN(const bool is_one_run, IsOneRun());
  if (is_one_run) {
    return CompareRanks(context);
  }
  MSP_RETURN_IF_ERROR(TakeSides());
  wants_page_ |= answer_.open;
  ChooseComparisons();
  MSP_RETURN_IF_ERROR(CheckFlags());
  analysis::perf::PairOptions& pair = options_.pair;
  if (rank_.has_value()) {
    pair.base_rank = pair.base_rank.has_value() ? pair.base_rank : rank_;
    pair.comparison_rank = pair.comparison_rank.has_value() ? pair.comparison_rank : rank_;
  }
  if (wants_page_) {
    MSP_RETURN_IF_ERROR(report::CheckAnswerPage());
  }
  options_.quiet = context.quiet;

  MSP_ASSIGN_OR_RETURN(const analysis::perf::RunResult run, analysis::perf::Run(options_));
  if (!run.reports) {
    return ExitCode::kDone;
  }
  report::Document document =
      analysis::perf::MakeDocument(run.summary, {top_, min_difference_us_, /*page=*/wants_page_});
  const ExitCode code = ExitCodeOf(document, answer_);
  if (wants_page_) {
    const fs::path page = analysis::perf::PagePath(options_.output, run.stamp.text(), run.summary);
    MSP_RETURN_IF_ERROR(report::WriteAnswerPage(page, document));
    document.files.insert(document.files.begin(), {page, "page"});
  }
  MSP_ASSIGN_OR_RETURN(fs::path summary,
                       analysis::perf::WriteSummary(options_, run, static_cast<int>(code)));
  document.files.push_back({std::move(summary), "summary"});
  // The table is too wide for people; the workbook has all of it. Programs look for it where the
  // Python tool puts it.
  OwnForms own;
  own.behind = run.overall ? "\n" + report::RuledTable(*run.overall) : "";
  return EmitReport(std::move(document), answer_, context, own);
}

}  // namespace

std::unique_ptr<Command> MakePerfCompare() { return std::make_unique<PerfCompareCommand>(); }

}  // namespace msprobe::commands
