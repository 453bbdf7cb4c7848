#include "src/commands/perf_compare_command.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/analysis/perf/answer.h"
#include "src/analysis/perf/name_map.h"
#include "src/analysis/perf/page.h"
#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/report/answer_page.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;
using analysis::perf::Gate;
using analysis::perf::GateMetric;

constexpr int64_t kMaxKernelFloor = 3;
constexpr size_t kMaxFlowCategory = 20;

constexpr const char* kExamples = R"(Examples:
  msprobe perf_compare -d npu_ascend_pt -bp gpu.pt.trace.json -o result
      an NPU's profile against a GPU's: everything that both tell
  msprobe perf_compare -d after.pt.trace.json.gz -bp before.pt.trace.json.gz --enable_operator_compare
      operators and modules only
  msprobe perf_compare -d after.pt.trace.json.gz -bp before.pt.trace.json.gz --format xlsx,html
      the workbook, and a page for any browser: what grew, as a tree down to kernels
  msprobe perf_compare -d after -bp before --fail-on 'e2e>5%' --fail-on 'op:*matmul*>10%' --junit perf.xml
      in CI: exit code 1 when the step or its matrix products got slower than that
  mpirun -n 8 msprobe perf_compare -d after -bp before -o result
      folders with one profile per rank, shared out over processes

-d is judged, -bp is what it is held against: every difference is -d minus -bp, every ratio -d over -bp, and a
ratio above 1 is worse. Without any --enable_* flag all six comparisons are made.

--fail-on METRIC>GROWTH (also --fail-if) takes e2e, computing, communication (uncovered), free, memory or op:GLOB,
and a growth in %, ms, s, MB or GB. What cannot be measured fails.

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
  std::error_code error;
  if (path.empty()) {
    return UsageError(fmt::format("{} names no path", flag));
  }
  if (!fs::exists(path, error)) {
    return NotFoundError(fmt::format("{} does not exist", path.string()));
  }
  return {};
}

}  // namespace

void PerfCompareCommand::ConfigureComparisons(CLI::App& app) {
  app.add_flag("--enable_profiling_compare", enable_profiling_,
               "What the time consists of: computing, communication, free");
  app.add_flag("--enable_operator_compare", enable_operators_,
               "Device time by operator, or by module where both sides recorded them");
  app.add_flag("--enable_memory_compare", enable_memory_, "What operators allocated");
  app.add_flag("--enable_communication_compare", enable_communication_, "Collectives");
  app.add_flag("--enable_api_compare", enable_api_, "Host time by call");
  app.add_flag("--enable_kernel_compare", enable_kernels_,
               "Kernels by name and family; of two NPUs also by type and shapes");
  app.add_flag("--disable_details", disable_details_, "Statistics only, no sheets of single calls");
  app.add_flag("--disable_module", disable_modules_, "Operators even where there are modules");
}

void PerfCompareCommand::ConfigureMatching(CLI::App& app) {
  analysis::perf::Options& compare = options_.compare;
  app.add_option("--max_kernel_num", compare.max_kernels,
                 "Operators with more kernels than this are replaced by what they call; above 3")
      ->type_name("N");
  app.add_option("--op_name_map", name_map_,
                 "Operators that match under other names: \"{'name1':'name2'}\"")
      ->type_name("DICT");
  app.add_flag("--use_input_shape", compare.use_input_shape,
               "Operators match only with equal input shapes");
  app.add_option("--gpu_flow_cat", compare.gpu_flow_category,
                 "Category of the GPU trace's links from operators to kernels")
      ->type_name("NAME");
  app.add_option("--base_step", base_step_, "Only this step of the base")->type_name("STEP");
  app.add_option("--comparison_step", comparison_step_, "Only this step of the comparison")
      ->type_name("STEP");
  app.add_flag("--use_kernel_type", compare.use_kernel_type,
               "Kernels by type and core, from op_statistic.csv");
  app.add_option("--match_algo,--match-algo", algorithm_,
                 "How operators are aligned: legacy, as the Python tool does it, or longest, a "
                 "longest common subsequence")
      ->type_name("NAME")
      ->check(CLI::IsMember({"legacy", "longest"}));
  app.add_option("--match_collectives,--match-collectives", collectives_,
                 "How the answer and summary.json match collectives: by kind, so that NCCL's and "
                 "HCCL's meet, or by name, as the sheet does")
      ->type_name("HOW")
      ->check(CLI::IsMember({"kind", "name"}));
  app.add_flag("--exact_time,--exact-time", compare.exact_time,
               "GPU: times to the nanosecond instead of whole microseconds");
  app.add_option("--rank", rank_, "Only this rank of both sides")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--base_rank,--base-rank", compare.base_rank, "The base's rank, if it differs")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--comparison_rank,--comparison-rank", compare.comparison_rank,
                 "The comparison's rank, if it differs")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
}

void PerfCompareCommand::ConfigureResults(CLI::App& app) {
  AddFormatFlag(app, formats_, {"xlsx", "csv", "json", "html"});
  app.add_option("--top", top_, "Differences to show (default 10)")->type_name("N");
  app.add_option("--min_diff_us,--min-diff-us", min_difference_us_,
                 "Differences of less time are not shown (default 0)")
      ->type_name("US")
      ->check(CLI::NonNegativeNumber);
  AddAnswerFlags(app, answer_, analysis::perf::kGateLevels, "METRIC>GROWTH, e.g. 'e2e>5%'");
  app.add_option("--wait", patience_s_,
                 "Under srun or mpirun: seconds to wait for the other processes (default 1800)")
      ->type_name("S")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--strict", options_.compare.strict, "A damaged file is an error, not a warning");
  AddForceFlag(app);
  app.add_flag("--debug", debug_, "Log in detail");
  AddThreadsFlag(app, options_.threads);
}

void PerfCompareCommand::Configure(CLI::App& app) {
  app.add_option("-d,--profiling_path", comparison_path_,
                 "The profile to judge: a PyTorch trace (.json, .json.gz), an *_ascend_pt or "
                 "*_ascend_ms folder, a profiler database, or a folder with one of them per rank")
      ->type_name("PATH")
      ->required();
  app.add_option("--benchmark_profiling_path", base_path_,
                 "The profile to hold it against (also -bp)")
      ->type_name("PATH")
      ->required();
  app.add_option("-o,--output_path", output_path_, "Folder for the results (default: ./)")
      ->type_name("DIR");
  ConfigureComparisons(app);
  ConfigureMatching(app);
  ConfigureResults(app);
  app.footer(kExamples + FailOnHelp(analysis::perf::kGateLevels));
}

void PerfCompareCommand::ChooseComparisons() {
  analysis::perf::Options& compare = options_.compare;
  const bool all = !enable_profiling_ && !enable_operators_ && !enable_memory_ &&
                   !enable_communication_ && !enable_api_ && !enable_kernels_;
  compare.overall = all || enable_profiling_;
  compare.operators = all || enable_operators_;
  compare.memory = all || enable_memory_;
  compare.communication = all || enable_communication_;
  compare.api = all || enable_api_;
  compare.kernels = all || enable_kernels_;
  compare.details = !disable_details_;
  compare.modules = !disable_modules_;
  if (compare.use_kernel_type && !compare.kernels) {
    base::LogWarning("--use_kernel_type has no effect without --enable_kernel_compare");
  }
}

Status PerfCompareCommand::CheckSteps() {
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
  options_.compare.base_step = base_step_;
  options_.compare.comparison_step = comparison_step_;
  return {};
}

Status PerfCompareCommand::CheckGates() {
  for (std::string& text : answer_.fail_on) {
    if (text == analysis::perf::kGateLevels[0].word) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(Gate gate, analysis::perf::ParseGate(text));
    if (gate.metric == GateMetric::kOperator) {
      options_.compare.watched_operators.push_back(gate.pattern);
    } else if (!options_.compare.overall) {
      return UsageError(fmt::format("--fail-on {} needs --enable_profiling_compare", gate.text));
    }
    text = gate.text;  // as the answer names it
    options_.gates.push_back(std::move(gate));
  }
  return {};
}

// In the Python tool's order, so that of several mistakes the same one is told.
Status PerfCompareCommand::CheckFlags() {
  analysis::perf::Options& compare = options_.compare;
  if (compare.max_kernels.has_value() && *compare.max_kernels <= kMaxKernelFloor) {
    return UsageError(fmt::format("--max_kernel_num must be greater than {}, not {}",
                                  kMaxKernelFloor, *compare.max_kernels));
  }
  if (!name_map_.empty()) {
    MSP_ASSIGN_OR_RETURN(compare.operator_names,
                         analysis::perf::ParseNameMap(WithoutEquals(name_map_)));
  }
  compare.gpu_flow_category = WithoutEquals(compare.gpu_flow_category);
  if (compare.gpu_flow_category.size() > kMaxFlowCategory) {
    return UsageError(
        fmt::format("--gpu_flow_cat may have at most {} characters", kMaxFlowCategory));
  }
  MSP_RETURN_IF_ERROR(CheckSteps());
  MSP_RETURN_IF_ERROR(CheckGates());
  compare.base = PathOf(base_path_);
  compare.comparison = PathOf(comparison_path_);
  options_.output = PathOf(output_path_);
  MSP_RETURN_IF_ERROR(CheckInput(compare.base, "-bp"));
  MSP_RETURN_IF_ERROR(CheckInput(compare.comparison, "-d"));
  std::error_code error;
  if (fs::exists(options_.output, error) && !fs::is_directory(options_.output, error)) {
    return UsageError(fmt::format("the output folder {} is a file", options_.output.string()));
  }
  return {};
}

Result<ExitCode> PerfCompareCommand::Run(const Context& context) {
  if (debug_) {
    base::SetLogLevel(base::LogLevel::kDebug);
  }
  ChooseComparisons();
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_RETURN_IF_ERROR(CheckFlags());
  analysis::perf::Options& compare = options_.compare;
  compare.match_collectives_by_kind = collectives_ == "kind";
  compare.alignment = algorithm_ == "longest" ? analysis::perf::Alignment::kLongest
                                              : analysis::perf::Alignment::kLegacy;
  if (rank_.has_value()) {
    compare.base_rank = compare.base_rank.has_value() ? compare.base_rank : rank_;
    compare.comparison_rank = compare.comparison_rank.has_value() ? compare.comparison_rank : rank_;
  }
  if (!formats_.empty()) {
    const auto wants = [&](const char* format) {
      return std::find(formats_.begin(), formats_.end(), format) != formats_.end();
    };
    options_.formats = {wants("xlsx"), wants("csv"), wants("json")};
    wants_page_ = wants("html");
  }
  if (wants_page_) {
    MSP_RETURN_IF_ERROR(report::AnswerPage::Available());
  }
  if (patience_s_ > 0) {
    options_.patience = std::chrono::seconds(patience_s_);
  }
  options_.quiet = context.quiet;

  MSP_ASSIGN_OR_RETURN(const analysis::perf::Run run, analysis::perf::RunPerfCompare(options_));
  report::Document document = analysis::perf::MakeDocument(run.summary, {top_, min_difference_us_});
  const ExitCode code = ExitCodeOf(document, answer_);
  if (!run.reports) {
    return code;
  }
  if (wants_page_) {
    MSP_ASSIGN_OR_RETURN(analysis::perf::PerfPage page,
                         analysis::perf::WritePage(options_.output, run.stamp.text(), run.summary));
    document.warnings.insert(document.warnings.end(), page.notes.begin(), page.notes.end());
    document.files.insert(document.files.begin(), {std::move(page.path), "page"});
  }
  MSP_ASSIGN_OR_RETURN(fs::path summary,
                       analysis::perf::WriteSummary(options_, run, static_cast<int>(code)));
  document.files.push_back({std::move(summary), "summary"});
  // The table is too wide for people; the workbook has all of it. Programs look for it where the
  // Python tool puts it.
  OwnForms own;
  own.behind = run.overall ? "\n" + report::RuledTable(*run.overall) : "";
  return GiveAnswer(std::move(document), answer_, context, own);
}

}  // namespace msprobe::commands
