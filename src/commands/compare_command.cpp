// msprobe compare: two dumps of the same model, and where they diverge; and msprobe merge_result,
// one workbook over its results of many ranks.
//
// compare has the command lines of two Python tools: TEST REFERENCE or -i compare.json
// (8.1.1), and -tp with -gp (26.x), whose flags are refused with the others. -m offline_data
// compares kernel dumps.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/analysis/compare/compare.h"
#include "src/analysis/compare/document.h"
#include "src/analysis/compare/merge/merge_result.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/kernel_dump/fusion_rules.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_document.h"
#include "src/analysis/offline_model/offline_model.h"
#include "src/analysis/repro/repro.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/dump/layout.h"
#include "src/json/config.h"
#include "src/report/document.h"
#include "src/report/texts.h"

namespace msprobe::commands {
namespace {

// compare.json, the Python tool's way to say what to compare.

// Fills paths, stack_path and the MindSpore folder keys of `options` from the file. Unknown keys
// are warned about.
Status ReadCompareConfig(const std::filesystem::path& file, analysis::compare::Options& options) {
  static const std::vector<std::string> known_keys = {
      "npu_path", "bench_path", "stack_path", "is_print_compare_log",
      "rank_id",  "step_id",    "common",     "map_dict"};
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(file));
  const json::Json& root = config.root();
  if (!root.is_object()) {
    return config.ErrorAt(root, "", "the file must hold an object with npu_path and bench_path");
  }
  // The Python tool ignores keys it does not know; a mistyped one deserves a word.
  if (const Status unknown = config.CheckKeys(root, known_keys); !unknown.ok()) {
    base::LogWarning(unknown.message() + "; ignored");
  }
  MSP_ASSIGN_OR_RETURN(const std::string npu_path, config.RequiredText(root, "npu_path"));
  MSP_ASSIGN_OR_RETURN(const std::string bench_path, config.RequiredText(root, "bench_path"));
  options.npu_path = base::WithoutLastSlash(npu_path);
  options.bench_path = base::WithoutLastSlash(bench_path);
  MSP_ASSIGN_OR_RETURN(const std::string stack_path, config.Text(root, "stack_path", ""));
  if (!stack_path.empty()) {
    options.stack_path = stack_path;
  }
  // Only looked at for its kind: this tool prints no two lines per row.
  MSP_RETURN_IF_ERROR(config.Bool(root, "is_print_compare_log", true).status());
  MSP_ASSIGN_OR_RETURN(options.folders.common, config.Bool(root, "common", false));
  if (json::Find(root, "rank_id") != nullptr) {
    MSP_ASSIGN_OR_RETURN(options.folders.rank_ids, config.IntList(root, "rank_id"));
  }
  MSP_ASSIGN_OR_RETURN(options.folders.step_ids, config.IntList(root, "step_id"));
  if (const json::Json* map = json::Find(root, "map_dict"); map != nullptr && !map->is_null()) {
    if (!map->is_object()) {
      return config.ErrorAt(*map, "map_dict", "must be an object of test name to reference name");
    }
    for (const auto& [npu_name, value] : map->items()) {
      MSP_ASSIGN_OR_RETURN(std::string bench_name, config.RequiredText(*map, npu_name));
      options.folders.common_map.emplace_back(npu_name, std::move(bench_name));
    }
  }
  return {};
}

// compare --repro: the first diverging call as a folder that makes it again.

namespace compare = analysis::compare;
namespace repro = analysis::repro;

// The computation of a pair that was rechecked.
const compare::DivergencePoint* PointOf(const compare::PairSummary& pair) {
  const std::optional<compare::DivergencePoint>& point =
      pair.divergence.first_of_kind[static_cast<size_t>(compare::OriginKind::kComputation)];
  return point && point->wrong_side ? &*point : nullptr;
}

const compare::PairSummary* PairWithPoint(const compare::RunSummary& summary) {
  if (const std::optional<size_t> leading = compare::LeadingPair(summary);
      leading && PointOf(summary.pairs[*leading]) != nullptr) {
    return &summary.pairs[*leading];
  }
  for (const compare::PairSummary& pair : summary.pairs) {
    if (PointOf(pair) != nullptr) {
      return &pair;
    }
  }
  return nullptr;
}

// The first computation that diverges, as the wrong side captured it, made small where one is
// wrong; of the NPU side where that is not known. Adds its files to the document, or a warning why
// there is nothing to write.
Status WriteFirstDivergence(const compare::RunSummary& summary, const std::filesystem::path& folder,
                            size_t threads, report::Document& document) {
  const compare::PairSummary* const pair = PairWithPoint(summary);
  if (pair == nullptr) {
    document.warnings.emplace_back(
        "--repro wrote nothing: no computation of tensors diverges first");
    return {};
  }
  const compare::DivergencePoint& point = *PointOf(*pair);
  const compare::WrongSide side = point.wrong_side->side;
  const bool of_bench = side == compare::WrongSide::kBench;
  repro::Options options;
  options.dump = of_bench ? pair->bench_path : pair->npu_path;
  options.call = of_bench ? point.bench_entry_name : point.entry_name;
  options.output = folder;
  options.minimise = side != compare::WrongSide::kNeither && side != compare::WrongSide::kUnknown;
  options.threads = threads;
  options.quiet = true;
  MSP_ASSIGN_OR_RETURN(const repro::Answer answer, repro::Run(options));
  const report::Document written = repro::MakeDocument(answer);
  std::vector<std::string> values = {folder.string()};
  if (answer.minimised) {
    values.push_back(fmt::format("{}", answer.minimised->elements_after));
    values.push_back(fmt::format("{}", answer.minimised->elements_before));
  }
  document.Advise(
      report::Advice(fmt::format("compare.{}_{}", answer.minimised ? "small_repro" : "repro",
                                 of_bench ? "bench" : "npu"),
                     std::move(values)));
  for (const report::OutputFile& file : written.files) {
    document.files.push_back({file.path, "repro"});
  }
  document.warnings.insert(document.warnings.end(), written.warnings.begin(),
                           written.warnings.end());
  return {};
}

// --watch: steps of a dump that grows are compared one after another.
//
// A step is complete when each rank that the reference has of it is there, with a manifest that
// says so. The Python tool writes none: its steps are complete once a later one has begun, or when
// nothing was written for a while.
//
// Ctrl-C ends the watch: what was compared by then is the answer, which says that it is incomplete.
class StepWatcher {
 public:
  enum class End { kDiverges, kAllAgree, kTimeout, kInterrupted };

  // What runs compare: the same options with the folders of one step.
  StepWatcher(const compare::Options& options, std::chrono::seconds patience,
              report::Language language)
      : options_(options),
        patience_(patience),
        interrupt_(report::InLanguage("interrupted: the answer follows; Ctrl-C again ends at once",
                                      language) +
                   '\n') {}

  Result<End> Run() {
    MSP_ASSIGN_OR_RETURN(const dump::DumpLayout reference, dump::FindDump(options_.bench_path));
    std::map<int64_t, std::vector<dump::RankFolder>> steps;
    for (const dump::RankFolder& rank : reference.ranks) {
      if (rank.has_dump && rank.step) {
        steps[*rank.step].push_back(rank);
      }
    }
    if (steps.empty()) {
      return UsageError(fmt::format("--watch needs a dump with steps, and {} has none",
                                    options_.bench_path.string()));
    }
    step_count_ = steps.size();
    for (const auto& [step, ranks] : steps) {
      step_ = step;
      if (!WaitFor(step, ranks) && !interrupt_.came()) {
        base::LogWarning(fmt::format("step {} was not complete within {}; see --watch-timeout",
                                     step,
                                     base::FormatSeconds(static_cast<double>(patience_.count()))));
        return End::kTimeout;
      }
      if (interrupt_.came()) {
        return End::kInterrupted;
      }
      MSP_ASSIGN_OR_RETURN(const bool agrees, Agrees(step));
      if (interrupt_.came()) {
        return End::kInterrupted;
      }
      if (!agrees) {
        return End::kDiverges;
      }
    }
    return End::kAllAgree;
  }

  int64_t step() const { return step_; }  // the last one that was waited for
  const compare::Comparison& so_far() const { return so_far_; }

  // The verdict over the steps compared so far, marked as incomplete.
  report::Document InterimAnswer() {
    compare::FinishSummary(so_far_.summary);
    report::Document document = compare::MakeDocument(options_, so_far_);
    report::Verdict& verdict = document.verdict;
    if (compared_ == 0) {
      verdict.Say("NOTHING COMPARED", fmt::format("interrupted before step {} was complete", step_),
                  report::Tone::kBad);
    } else {
      verdict.text +=
          fmt::format("; interrupted after {} of {}", compared_, base::Plural(step_count_, "step"));
    }
    verdict.outcome = report::AnswerOutcome::kIncomplete;
    return document;
  }

 private:
  static bool IsWhole(const std::filesystem::path& rank, bool later_step_exists) {
    const std::filesystem::path manifest = rank / dump::kManifestFileName;
    if (!base::Exists(manifest)) {
      constexpr std::chrono::seconds kQuiet(5);
      std::error_code failure;
      const auto written = std::filesystem::last_write_time(rank / dump::kDumpFileName, failure);
      return !failure && (later_step_exists ||
                          std::filesystem::file_time_type::clock::now() - written > kQuiet);
    }
    const Result<json::Config> config = json::LoadJsonConfig(manifest);
    const json::Json* const complete =
        config.ok() ? json::Find(config->root(), "complete") : nullptr;
    return complete != nullptr && json::BoolOf(*complete);
  }

  bool IsComplete(int64_t step, const std::vector<dump::RankFolder>& ranks) const {
    const std::vector<std::string> names = base::NamesIn(options_.npu_path);
    const bool later = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      const dump::NumberedName other = dump::ParseStepName(name);
      return other.valid && other.number.value_or(-1) > step;
    });
    const std::filesystem::path folder = options_.npu_path / fmt::format("step{}", step);
    return std::all_of(ranks.begin(), ranks.end(), [&](const dump::RankFolder& rank) {
      return IsWhole(folder / rank.folder.filename(), later);
    });
  }

  bool WaitFor(int64_t step, const std::vector<dump::RankFolder>& ranks) const {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kPause(200);
    const Clock::time_point end = Clock::now() + patience_;
    while (!IsComplete(step, ranks)) {
      if (Clock::now() >= end || interrupt_.came()) {
        return false;
      }
      std::this_thread::sleep_for(kPause);
    }
    return true;
  }

  // The answer of one step, without files.
  Result<bool> Agrees(int64_t step) {
    compare::Options options = options_;
    const std::string name = fmt::format("step{}", step);
    options.npu_path /= name;
    options.bench_path /= name;
    options.output.xlsx = options.output.csv = options.output.json = options.output.html = false;
    options.output.advisor = false;
    options.quiet = true;
    MSP_ASSIGN_OR_RETURN(compare::Comparison run, compare::Run(options));
    const report::Document document = compare::MakeDocument(options, run);
    base::LogInfo(fmt::format("step {}: {}", step, document.verdict.text));
    Keep(step, std::move(run));
    return document.verdict.outcome == report::AnswerOutcome::kClean;
  }

  void Keep(int64_t step, compare::Comparison run) {
    compare::RunSummary& all = so_far_.summary;
    for (compare::PairSummary& pair : run.summary.pairs) {
      pair.step = step;
      all.pairs.push_back(std::move(pair));
    }
    for (const auto side : {&compare::RunSummary::npu_only, &compare::RunSummary::bench_only}) {
      for (const std::string& rank : run.summary.*side) {
        (all.*side).push_back(fmt::format("step{}/{}", step, rank));
      }
    }
    all.seconds += run.summary.seconds;
    all.threads = run.summary.threads;
    so_far_.stamp = std::move(run.stamp);
    so_far_.warnings.insert(so_far_.warnings.end(), run.warnings.begin(), run.warnings.end());
    ++compared_;
  }

  const compare::Options& options_;
  const std::chrono::seconds patience_;
  const base::FirstInterrupt interrupt_;
  int64_t step_ = 0;
  size_t step_count_ = 0;
  size_t compared_ = 0;
  compare::Comparison so_far_;
};

// Flags that mean something to mode auto alone.
constexpr std::array<std::string_view, 15> kAutoFlags = {
    "--xlsx",         "--diff-analyze",   "--is-print-compare-log",
    "--rank",         "--step",           "--consistent-check",
    "--backend",      "--module-mapping", "--strict",
    "--postprocess",  "--valid-rows",     "--fuzzy-match",
    "--data-mapping", "--cell-mapping",   "--api-mapping"};
// The first of them are unknown to the older command line.
constexpr size_t kNewFlagCount = 11;

constexpr const char* kCalibrationFile = "right_matmul.yaml";

constexpr const char* kCompareNotes =
    R"(The first line of the output is the first divergence: the first call, in execution order, whose inputs agree and
whose outputs do not, or the weights or data that bring a difference in. "Agree" means equal up to the rounding
noise of the dtype; --rtol and --atol allow more.

)";

class CompareCommand final : public Command {
 public:
  CompareCommand()
      : Command("compare", "Compare two dumps and name the first call that diverges") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input-path -i", "FILE", &config_file_,
             "compare.json with npu_path and bench_path, instead of two paths", kPython811),
        Switch("--allow-truncated", &options_.allow_truncated,
               "Compare the complete entries of a truncated file"),
        Group::kSelection,
        Text("--filter", "GLOB", &options_.match.name_filter,
             "Only test rows whose name matches, e.g. 'Module.*.output.*'"),
        Text("--call", "NAME", &options_.folders.kernel_call,
             "When kernel dumps are compared with a framework dump: the call to use if several "
             "match"),
        Group::kMethod,
        Switch("--fuzzy-match -f -fm", &options_.match.fuzzy,
               "Match rows regardless of their call numbers", kPython811),
        Path("--data-mapping -dm", "FILE", &options_.match.data_mapping.file,
             "YAML file with lines `test row name: reference row name`", kPython811),
        Path("--cell-mapping -cm", "FILE", &options_.match.cell_mapping.file,
             "Map MindSpore cells to PyTorch modules; the YAML file is optional", kOneOrNone,
             kPython811),
        Path("--api-mapping -am", "FILE", &options_.match.api_mapping.file,
             "Map MindSpore APIs to PyTorch APIs; the YAML file is optional", kOneOrNone,
             kPython811),
        Path("--layer-mapping -lm", "FILE", &options_.match.layer_mapping.file,
             "Map MindSpore layers to PyTorch layers; the YAML file is optional", kOneOrNone,
             kPython811),
        Switch("--layer-frames", &options_.match.layer_mapping_frames,
               "With --layer-mapping: also distinguish calls by the call stacks of a grouped "
               "stack.json"),
        Text(
            "--layout", "WHAT", &layout_,
            "auto: join ranks that share a model where the runs are not cut in the same way; none: "
            "pair ranks by number; a file: what layout.json does not say of both sides"),
        Number("--rtol", "R", &options_.noise.relative_tolerance,
               "Relative difference up to which values agree", kNotNegative,
               Default{"the rounding noise of each dtype"}),
        Number("--atol", "A", &options_.noise.absolute_tolerance,
               "Absolute difference up to which values agree", kNotNegative),
        OutputFolderFlag(options_.output.folder, "Folder for the result files", {"--output_path"}),
        FormatsFlag({{"xlsx", &options_.output.xlsx},
                     {"csv", &options_.output.csv},
                     {"json", &options_.output.json},
                     {"html", &options_.output.html}},
                    "xlsx; csv with -tp and -gp"),
        Group::kOutput,
        Text("--output-name", "NAME", &options_.output.name,
             "Start of the result file names, instead of compare_result"),
        Switch("--only-diff", &options_.output.only_different,
               "Omit rows that agree from the result files"),
        Switch("--only-leading", &options_.output.only_leading,
               "Write tables only of the ranks to look at: the first one of each group that parts "
               "at the same call"),
        Switch("--stack-mode -s", &options_.stack_mode,
               "Show call stacks when compare.json names a stack_path", kPython811),
        Switch("--compare-only -c", &compare_only_, "Do not write the advisor's text file",
               kPython811),
        Path("--repro", "DIR", &repro_folder_,
             "Also write the first diverging call alone to this folder, as msprobe repro does"),
        Switch("--watch", &watch_,
               "Compare the steps of a dump that grows, one after another, up to the first that "
               "diverges"),
        Number("--watch-timeout", "SECONDS", &watch_timeout_s_,
               "How long to wait for the next step", Between(1, 1e9), Needs{"--watch"}),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        AnswerRows(answer_, analysis::compare::kGateLevels),
        Group::kV26,
        Path("--target-path -tp", "PATH", &target_path_, "The test dump", kPython26),
        Path("--golden-path -gp", "PATH", &golden_path_, "Reference dump", kPython26),
        Choice("--mode -m", "MODE", &mode_,
               {"auto", "atb", "torchair", "offline_data", "offline_model"},
               "Kind of dumps; offline_model runs an .onnx file of REFERENCE first", kPython26),
        Switch("--xlsx", &write_xlsx_, "Write a workbook instead of csv", kPython26),
        Switch("--diff-analyze -da", &options_.output.first_difference,
               "Find the first differing call over all ranks; written as JSON", kPython26),
        Switch("--is-print-compare-log -tensor_log", &options_.output.log_rows,
               "Write two log lines per row", kPython26),
        Number("--rank", "N,N", &rank_ids_,
               "MindSpore static-graph kernel dumps: these ranks; with -m torchair: this one",
               kSeparatedByCommas, kPython26),
        Number("--step", "N,N", &step_ids_, "MindSpore static-graph kernel dumps: these steps",
               kSeparatedByCommas, kPython26),
        Switch("--consistent-check", &consistent_check_,
               "Compare training with inference: match fused projections and renamed modules",
               kPython26),
        Choice("--backend", "NAME", &backend_, {"fsdp", "megatron"},
               "The trainer of --consistent-check", kPython26),
        Path("--module-mapping", "FILE", &v26_.module_mapping,
             "With --consistent-check: YAML file with further lines `training module: inference "
             "module`"),
        Switch("--strict", &v26_.strict,
               "Match and judge more strictly than the Python tool: see docs/commands/compare.md"),
        Path("--postprocess --config", "FILE", &v26_.postprocess,
             "YAML file with calibration matrices that tensors are multiplied with before "
             "comparing"),
        Text("--metric", "NAME=EXPRESSION", &metrics_,
             "Column of your own, an expression over the sums of the comparison, such as "
             "rmse=sqrt(difference_square_sum/count)"),
        Path("--algorithms", "DIR", &options_.user_metrics.folder,
             "Columns of your own: files alg_<name>.py of this folder with column_name() and "
             "compare(a, b), which are run"),
        Path("--python", "PATH", &options_.user_metrics.python_path,
             "Python that runs the files of --algorithms (with PyTorch) or the model of -m "
             "offline_model (with onnx and onnxruntime)",
             Default{"python3"}),
        Number("--metric-seconds", "N", &options_.user_metrics.seconds,
               "Time for the files of --algorithms per 256 MiB of tensors", kPositive),
        Text("--valid-rows", "NAME=KEYWORD", &valid_rows_,
             "Only the first rows of the outputs of calls with this name are valid; KEYWORD is the "
             "argument whose sum is their number"),
        Path("--input-data", "FILE,FILE", &model_.input_data,
             "With -m offline_model: inputs of the model, .npy or .bin", kSeparatedByCommas,
             Default{"the same random numbers every time"}, kPython26),
        Text("--input-shape", "SHAPES", &model_.input_shape,
             "With -m offline_model: shapes of inputs, \"name:1,3;name:1\"", kPython26),
        Choice("--onnx-fusion-switch -ofs", "WHEN", &model_fusion_, {"True", "False"},
               "With -m offline_model: whether ONNX Runtime may fuse operators", kPython26),
        Text("--dym-shape-range", "SHAPES", &model_.shape_range,
             "With -m offline_model: the first of these shapes", kPython26),
        Text("--output-size", "N,N", &model_output_size_, "Of OM models: without effect", kHidden,
             kPython26),
        Path("--fusion-rule-file -fr", "FILE", &fusion_rules_.network,
             "With -m offline_data: graph of the compiled model as JSON, which names what its "
             "operators were fused from",
             kPython26),
        Path("--quant-fusion-rule-file -qfr", "FILE", &fusion_rules_.quantised,
             "Like --fusion-rule-file, for the quantised model", kPython26),
        Path("--close-fusion-rule-file -cfr", "FILE", &fusion_rules_.reference,
             "The same of the golden model, if it is compiled", kPython26),
    };
  }

  std::vector<Positional> positionals() override {
    constexpr NeededUnless kOtherWays{"--input-path --target-path --golden-path"};
    return {Argument("TEST", &npu_path_,
                     "The test dump: a dump.json, a rank, a step or a whole dump folder; or "
                     "kernel dumps",
                     kOtherWays),
            Argument("REFERENCE", &bench_path_, "Reference dump, of the same kind", kOtherWays,
                     FromProject{"reference"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe compare npu/step0/rank0/dump.json gpu/step0/rank0/dump.json",
         "one rank against one rank; the table goes to ./output"},
        {"msprobe compare npu_dump gpu_dump -o result --format xlsx,csv",
         "whole dumps: steps and ranks are paired by number"},
        {"msprobe compare npu_dump gpu_dump --format xlsx,html",
         "the table, and a page for any browser: first divergence, modules, error curve, all "
         "tensors"},
        {"mpirun -n 64 msprobe compare npu_dump gpu_dump -o result --only-leading",
         "a thousand ranks, shared out over the processes of a cluster's launcher"},
        {"msprobe compare npu_dump gpu_dump --fail-on error --junit compare.xml",
         "in CI: exit code 1 if a row is red or fails its threshold"},
        {"msprobe compare npu_dump gpu_dump --watch --fail-on different",
         "while the training runs: ends at the first step that diverges"},
        {"msprobe compare npu_dump gpu_dump -o none --fail-on different --annotations github",
         "only the verdict, and what fails beside the code of a pull request"},
        {"msprobe -f pytorch compare -i compare.json -o out -s -c",
         "the Python tool's command line"},
    };
  }

  std::string notes() const override {
    return kCompareNotes + FailOnHelp(analysis::compare::kGateLevels) +
           "\nEvery level also fails if less than half of a side could be compared, or a tensor "
           "file could not be read.";
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(FillOptions(context));
    if (watch_) {
      if (base::ThisSharing().share.count > 1) {
        return UsageError("--watch is the work of one process");
      }
      MSP_ASSIGN_OR_RETURN(const std::optional<ExitCode> interrupted, Watch(context));
      if (interrupted) {
        return *interrupted;
      }
    }
    if (mode_ == "offline_data" || mode_ == "offline_model") {
      if (!base::AnswersHere()) {
        return ExitCode::kDone;
      }
      if (mode_ == "offline_model") {
        MSP_RETURN_IF_ERROR(RunModel());
      }
      return CompareOfflineData(context);
    }
    if (!repro_folder_.empty()) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFolder(repro_folder_));
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(repro_folder_ / "README.md"));
    }
    MSP_ASSIGN_OR_RETURN(const analysis::compare::Comparison run, analysis::compare::Run(options_));
    if (!run.reports) {
      return ExitCode::kDone;
    }
    for (const std::string& line : run.log_lines) {
      base::LogInfo(line);
    }
    report::Document document = analysis::compare::MakeDocument(options_, run);
    const ExitCode code = ExitCodeOf(document, answer_);
    MSP_ASSIGN_OR_RETURN(std::filesystem::path summary,
                         analysis::compare::WriteSummary(options_, run, static_cast<int>(code)));
    document.files.push_back({std::move(summary), "summary"});
    Status written;
    if (!repro_folder_.empty()) {
      written = WriteFirstDivergence(run.summary, repro_folder_, options_.threads, document);
    }
    // The comparison is reported in any case, and what could not be written behind it.
    MSP_ASSIGN_OR_RETURN(const ExitCode given, EmitReport(std::move(document), answer_, context));
    MSP_RETURN_IF_ERROR(written);
    return given;
  }

 private:
  // Waits for the step that diverges, which then is what is compared; otherwise all is. After
  // Ctrl-C the answer has been given: its exit code.
  Result<std::optional<ExitCode>> Watch(const Context& context) {
    if (mode_ != "auto") {
      return UsageError(fmt::format("--watch cannot be used with -m {}", mode_));
    }
    StepWatcher watcher(options_, std::chrono::seconds(watch_timeout_s_), context.language);
    MSP_ASSIGN_OR_RETURN(const StepWatcher::End end, watcher.Run());
    if (end == StepWatcher::End::kInterrupted) {
      return GiveInterimAnswer(watcher, context);
    }
    if (end == StepWatcher::End::kDiverges) {
      options_.npu_path /= fmt::format("step{}", watcher.step());
      options_.bench_path /= fmt::format("step{}", watcher.step());
    }
    MSP_RETURN_IF_ERROR(CheckPaths());
    return std::optional<ExitCode>();
  }

  Result<std::optional<ExitCode>> GiveInterimAnswer(StepWatcher& watcher, const Context& context) {
    report::Document document = watcher.InterimAnswer();
    const ExitCode code = ExitCodeOf(document, answer_);
    if (!watcher.so_far().summary.pairs.empty()) {
      MSP_ASSIGN_OR_RETURN(
          std::filesystem::path summary,
          compare::WriteSummary(options_, watcher.so_far(), static_cast<int>(code)));
      document.files.push_back({std::move(summary), "summary"});
    }
    MSP_ASSIGN_OR_RETURN(const ExitCode given, EmitReport(std::move(document), answer_, context));
    return std::optional<ExitCode>(given);
  }

  Status FillOptions(const Context& context);
  // The command line of the 26.x line: -tp and -gp.
  Status FillV26(const Context& context);
  // Flags of that command line next to another way of naming the dumps.
  Status RefuseV26Flags(const Context& context) const {
    if (mode_ != "auto") {
      return UsageError(fmt::format("-m {} needs -tp and -gp", mode_));
    }
    for (const std::string_view flag : std::span(kAutoFlags).first(kNewFlagCount)) {
      if (const auto typed = context.typed.find(flag); typed != context.typed.end()) {
        return UsageError(fmt::format("{} needs the dumps as -tp and -gp", typed->second))
            .WithHint("msprobe compare -tp TARGET -gp GOLDEN");
      }
    }
    return {};
  }

  // Writing next to the inputs is fine; overwriting them is not.
  Status CheckPaths() const {
    for (const std::filesystem::path* path : {&options_.npu_path, &options_.bench_path}) {
      if (!base::Exists(*path)) {
        return NotFoundError(fmt::format("{} does not exist", path->string()));
      }
    }
    if (base::Exists(options_.output.folder) && !base::IsFolder(options_.output.folder)) {
      return UsageError(
          fmt::format("the output folder {} is a file", options_.output.folder.string()));
    }
    return {};
  }

  // -m offline_model: the reference becomes what it computes.
  Status RunModel() {
    if (base::AsciiLower(options_.npu_path.extension().string()) == ".om") {
      return UnsupportedError(fmt::format("{}: an OM model runs on an Ascend device only",
                                          options_.npu_path.string()))
          .WithHint("dump it there, and give the folder of its kernel dumps to -tp");
    }
    model_.model = options_.bench_path;
    model_.output = options_.output.folder;
    model_.fusion = model_fusion_ == "True";
    model_.python = options_.user_metrics.python_path;
    MSP_ASSIGN_OR_RETURN(const analysis::offline_model::Dumped dumped,
                         analysis::offline_model::Dump(model_));
    options_.bench_path = dumped.folders.front() / "dump_data" / "onnx";
    return {};
  }

  // -m offline_data: kernel dumps by the vendor's measures.
  Result<ExitCode> CompareOfflineData(const Context& context) {
    namespace dumps = analysis::kernel_dump;
    dumps::VectorOptions options;
    options.mine = options_.npu_path;
    options.golden = options_.bench_path;
    options.output = options_.output.folder;
    options.fusion_rules = fusion_rules_;
    options.threads = options_.threads;
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const dumps::VectorFindings findings, dumps::CompareVectors(options));
    report::Document document = dumps::MakeDocument(findings);
    document.command = "compare";
    document.levels = {};
    for (const std::string& word : answer_.fail_on) {
      // Any of compare's levels asks for at least this.
      document.levels.push_back(
          {.word = word, .found = findings.FirstBad() != nullptr || findings.failed() > 0});
    }
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context);
  }

  analysis::compare::Options options_;
  std::filesystem::path config_file_;  // -i
  std::filesystem::path npu_path_;
  std::filesystem::path bench_path_;
  std::filesystem::path target_path_;  // -tp
  std::filesystem::path golden_path_;  // -gp
  std::filesystem::path repro_folder_;
  AnswerFlags answer_;
  bool watch_ = false;
  int64_t watch_timeout_s_ = 600;
  bool compare_only_ = false;
  std::string layout_ = "auto";
  std::string mode_ = "auto";  // -m
  analysis::compare::V26Options v26_;
  bool write_xlsx_ = false;  // --xlsx
  bool consistent_check_ = false;
  std::string backend_;
  std::vector<std::string> valid_rows_;  // NAME=keyword
  std::vector<std::string> metrics_;     // NAME=expression
  std::vector<int64_t> rank_ids_;
  std::vector<int64_t> step_ids_;
  analysis::kernel_dump::FusionRuleFiles fusion_rules_;  // of --mode offline_data
  analysis::offline_model::Options model_;               // of --mode offline_model
  std::string model_fusion_ = "True";
  std::string model_output_size_;
};

Status CompareCommand::FillV26(const Context& context) {
  if (!mode_.starts_with("offline_") && fusion_rules_.any()) {
    return UsageError("-fr, -qfr and -cfr need -m offline_data");
  }
  if (mode_ != "auto") {
    for (const std::string_view flag : kAutoFlags) {
      const auto typed = context.typed.find(flag);
      if (typed != context.typed.end() &&
          !(flag == "--rank" && (mode_ == "torchair" || mode_ == "offline_model"))) {
        return UsageError(fmt::format("{} cannot be used with -m {}", typed->second, mode_));
      }
    }
  }
  if (context.Given("--stack-mode") || context.Given("--compare-only")) {
    return UsageError("-s and -c cannot be used with -tp and -gp")
        .WithHint("call stacks are shown whenever stack.json is beside the target's dump.json");
  }
  if (consistent_check_) {
    if (backend_.empty()) {
      return UsageError("--consistent_check needs --backend fsdp or --backend megatron");
    }
    v26_.backend = backend_ == "fsdp" ? analysis::compare::TrainingBackend::kFsdp
                                      : analysis::compare::TrainingBackend::kMegatron;
  }
  for (const std::string& text : metrics_) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return UsageError(fmt::format("--metric \"{}\": expected NAME=EXPRESSION", text))
          .WithHint("for example --metric \"rmse=sqrt(difference_square_sum/count)\"");
    }
    options_.user_metrics.expressions.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
  for (const std::string& text : valid_rows_) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return UsageError(fmt::format("--valid-rows \"{}\": expected NAME=KEYWORD", text))
          .WithHint("for example --valid-rows npu_grouped_matmul=group_list");
    }
    v26_.valid_rows.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
  if (mode_ == "torchair" && context.Given("--rank")) {
    if (rank_ids_.size() != 1) {
      return UsageError("--rank with -m torchair is one number");
    }
    v26_.torchair_rank = rank_ids_.front();
  } else if (context.Given("--rank") && mode_ != "offline_model") {
    options_.folders.rank_ids = rank_ids_;
    options_.folders.step_ids = step_ids_;
  }
  v26_.statistics_only = options_.output.first_difference && base::IsFolder(target_path_);
  if (v26_.postprocess.empty() && base::Exists(kCalibrationFile)) {
    // The Python tool reads a file of this name from its own installation.
    v26_.postprocess = kCalibrationFile;
    base::LogInfo(
        fmt::format("using {} of this folder; --postprocess none ignores it", kCalibrationFile));
  } else if (v26_.postprocess == "none") {
    v26_.postprocess.clear();
  }
  v26_.atb = mode_ == "atb";
  v26_.torchair = mode_ == "torchair";
  options_.v26 = v26_;
  options_.output.csv_parts = true;
  if (!context.Given("--format")) {
    options_.output.xlsx = write_xlsx_ || v26_.atb;
    options_.output.csv = !options_.output.xlsx;
  }
  return {};
}

Status CompareCommand::FillOptions(const Context& context) {
  options_.quiet = context.quiet;
  options_.match.framework = context.framework == "pytorch" ? analysis::compare::Framework::kPyTorch
                             : context.framework == "mindspore"
                                 ? analysis::compare::Framework::kMindSpore
                                 : analysis::compare::Framework::kUnknown;
  const size_t ways = (config_file_.empty() ? 0U : 1U) + (npu_path_.empty() ? 0U : 1U) +
                      (target_path_.empty() && golden_path_.empty() ? 0U : 1U);
  if (ways > 1) {
    return UsageError("the dumps are given in more than one way")
        .WithHint("msprobe compare TEST REFERENCE, or -i compare.json");
  }
  if (!config_file_.empty()) {
    MSP_RETURN_IF_ERROR(ReadCompareConfig(config_file_, options_));
  } else if (!npu_path_.empty()) {
    options_.npu_path = npu_path_;
    options_.bench_path = bench_path_;
  } else {
    if (target_path_.empty() || golden_path_.empty()) {
      return UsageError("--target_path and --golden_path must be given together");
    }
    options_.npu_path = target_path_;
    options_.bench_path = golden_path_;
    MSP_RETURN_IF_ERROR(FillV26(context));
  }
  if (!options_.v26) {
    MSP_RETURN_IF_ERROR(RefuseV26Flags(context));
  }
  options_.output.html |= answer_.open;
  options_.output.advisor = !compare_only_ && !options_.v26;
  options_.layout.none = layout_ == "none";
  if (layout_ != "auto" && layout_ != "none") {
    options_.layout.file = layout_;
  }
  options_.match.data_mapping.given = context.Given("--data-mapping");
  options_.match.cell_mapping.given = context.Given("--cell-mapping");
  options_.match.api_mapping.given = context.Given("--api-mapping");
  options_.match.layer_mapping.given = context.Given("--layer-mapping");
  if (!options_.v26 && options_.match.framework == analysis::compare::Framework::kPyTorch &&
      (options_.match.cell_mapping.given || options_.match.api_mapping.given)) {
    return UsageError("cell and api mappings translate MindSpore names; they need -f mindspore");
  }
  if (options_.output.name.find('/') != std::string::npos) {
    return UsageError("--output-name is a file name, not a path")
        .WithHint("name the folder with -o");
  }
  return watch_ ? OkStatus() : CheckPaths();
}

constexpr const char* kMergeResultNotes = R"(merge.yaml:
    api:                        # calls, by the start of their names
      - Distributed.all_reduce
    compare_index:              # metrics, one sheet each (default: all)
      - Max diff
      - L2norm diff)";

class MergeResultCommand final : public Command {
 public:
  MergeResultCommand()
      : Command("merge_result", "Merge compare results of many ranks, for chosen calls") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input -i --input_dir", "DIR", &options_.input_folder,
             "The same, instead of RESULTS", kPython811),
        Path("--config -config --config-path", "FILE", &options_.config_file,
             "YAML file with calls and metrics", kPython811, kRequired),
        Group::kOutput,
        Path("--output -o --output_dir", "DIR", &options_.output_folder,
             "Folder for the merged workbook", kPython811, kRequired),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument(
        "RESULTS", &options_.input_folder,
        "Folder with the results of several ranks (compare_result_rank<N>_<time>.xlsx or .csv)",
        OrFlag{"-i"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe merge_result output -o merged --config merge.yaml",
         "one workbook with a sheet per metric and a column per rank"},
    };
  }

  std::string notes() const override { return kMergeResultNotes; }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const analysis::compare::merge::Summary run,
                         analysis::compare::merge::Run(options_));
    return EmitReport(analysis::compare::merge::MakeDocument(run), answer_, context);
  }

 private:
  analysis::compare::merge::Options options_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeCompare() { return std::make_unique<CompareCommand>(); }
std::unique_ptr<Command> MakeMergeResult() { return std::make_unique<MergeResultCommand>(); }

}  // namespace msprobe::commands
