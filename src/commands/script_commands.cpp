// Commands that run an unmodified training script with the capture or the monitor in it, and report
// its results at the end: free_benchmark, isolate and monitor run. dump, which does more, is in
// dump_command.cpp.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/inspect/dump_contents.h"
#include "src/analysis/inspect/inspect.h"
#include "src/analysis/isolate/isolate.h"
#include "src/analysis/monitor/common/anomaly_reader.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/laws/laws.h"
#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/capture/settings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/launcher.h"
#include "src/json/writer.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/settings.h"

namespace msprobe::commands {
namespace {

constexpr int kExampleIndent = 2;
constexpr const char* kNoConfiguration = "no configuration (--example prints one)";

// A command that is given neither a script nor --example, or both.
Status CheckTask(std::string_view command, bool example, const std::vector<std::string>& program) {
  if (example != program.empty()) {
    return example ? UsageError("give only one of --example and a script")
                   : MissingArgument(fmt::format("msprobe {}", command), "PROGRAM")
                         .WithHint(fmt::format("msprobe {} -- python3 train.py; --example prints a "
                                               "configuration",
                                               command));
  }
  return {};
}

Flag ExampleFlag(bool& example) {
  return Switch("--example", &example,
                "Print the configuration that holds without --config, to start from");
}

using UnstableFiles = std::vector<std::filesystem::path>;

UnstableFiles TablesOfUnstableCalls(const std::filesystem::path& folder) {
  auto files = analysis::inspect::UnstableCallsFilesIn(folder);
  return files.ok() ? std::move(*files) : UnstableFiles();
}

// What the tables say that the run has added to `before`. Without a verdict where there are none:
// each process has told itself how many calls it checked.
report::Document SummaryOfUnstable(const std::filesystem::path& folder,
                                   const UnstableFiles& before) {
  UnstableFiles files = TablesOfUnstableCalls(folder);
  std::erase_if(files, [&before](const auto& file) {
    return std::find(before.begin(), before.end(), file) != before.end();
  });
  report::Document document;
  if (files.empty()) {
    return document;
  }
  analysis::inspect::Options options;
  options.path = folder;
  const auto ranking = analysis::inspect::RankUnstableCalls(options, files);
  if (!ranking.ok() || ranking->table.row_count() == 0) {
    return document;
  }
  const std::string most(ranking->table.row(0)[0].text());
  document.verdict.Say(
      "UNSTABLE",
      fmt::format("{}, most of all {}", base::Plural(ranking->table.row_count(), "function"), most),
      report::Tone::kCaution);
  document.verdict.number = static_cast<double>(ranking->table.row_count());
  document.verdict.unit = "functions";
  document.Add("",
               report::List{report::ListKind::kFacts,
                            {{"tables", fmt::format("{} below {}", base::FormatCount(files.size()),
                                                    base::Printable(folder.string()))}}});
  document.Advise(report::Advice("free_benchmark.show", {base::Printable(folder.string())}));
  return document;
}

constexpr const char* kNotes =
    R"(Rows go to <output>/step<N>/rank<R>/free_benchmark.csv. The exit code is that of the script; messages of msprobe go to stderr.
A script can also control it itself: from msprobe.pytorch (or msprobe.mindspore) import PrecisionDebugger.)";

// msprobe free_benchmark: a training as it is, its selected calls made twice.
class FreeBenchmarkCommand final : public Command {
 public:
  FreeBenchmarkCommand()
      : Command(
            "free_benchmark",
            "Run an unmodified script and find operators that are unstable, without a second run") {
  }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--config -c", "FILE", &config_file_, "Configuration with a section free_benchmark",
             Default{"noise on every call"}),
        ExampleFlag(example_),
        Group::kOutput,
        Path("--output -o", "DIR", &dump_path_, "Overrides dump_path in the config file",
             Default{"that of the config file, or ./msprobe_free_benchmark"},
             FromProject{"output", ProjectScope::kOwnTable}),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override { return {ProgramArgument(program_)}; }

  std::vector<Example> examples() const override {
    return {
        {"msprobe free_benchmark -- python3 train.py --epochs 1",
         "every call with noise on its inputs; the outermost model and its steps are found while "
         "the script runs"},
        {"msprobe free_benchmark --example > config.json", "a configuration to start from"},
        {"msprobe free_benchmark -c config.json -o unstable -- torchrun --nproc-per-node 8 "
         "train.py",
         "every process of a distributed run"},
        {"msprobe -f mindspore free_benchmark -c config.json -- python3 train.py",
         "a script of MindSpore in dynamic-graph mode"},
    };
  }

  std::string notes() const override { return kNotes; }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(CheckTask(name(), example_, program_));
    capture::FreeBenchmarkSettings defaults = capture::FreeBenchmarkToStartWith();
    if (example_) {
      fmt::print("{}\n", capture::FreeBenchmarkConfig(defaults, kExampleIndent));
      return ExitCode::kDone;
    }
    std::error_code ignored;
    if (!config_file_.empty() && !std::filesystem::is_regular_file(config_file_, ignored)) {
      return NotFoundError(fmt::format("{} is not a file", config_file_.string()))
          .WithHint("--config takes a JSON file with dump_path and a section free_benchmark");
    }
    const capture::Framework framework = context.framework == "mindspore"
                                             ? capture::Framework::kMindSpore
                                             : capture::Framework::kPyTorch;
    LaunchOptions options = LaunchOf(program_, capture::FrameworkName(framework), answer_, context);
    if (config_file_.empty()) {
      const std::filesystem::path folder =
          dump_path_.empty() ? UnusedFolder(defaults.dump_path) : std::filesystem::path(dump_path_);
      defaults.dump_path = std::filesystem::absolute(folder, ignored).lexically_normal().string();
      options.overrides_json = capture::FreeBenchmarkConfig(defaults, -1);
      base::LogInfo(fmt::format("{}: every call is made twice, the second time with {}; {}",
                                kNoConfiguration, defaults.pert_mode,
                                base::Printable((folder / "step<N>").string())));
    } else {
      json::Writer overrides(options.overrides_json, -1);
      overrides.BeginObject();
      overrides.Member("task", "free_benchmark");
      if (!dump_path_.empty()) {
        overrides.Member("dump_path", std::filesystem::absolute(dump_path_, ignored).string());
      }
      overrides.EndObject();
    }
    // Mistakes in the configuration are reported here, once, and not by every process of a run.
    MSP_ASSIGN_OR_RETURN(const capture::FreeBenchmarkSettings settings,
                         capture::LoadFreeBenchmarkSettings(config_file_, options.overrides_json,
                                                            framework, "the flags"));
    options.config_file = config_file_;
    options.output_folder = settings.dump_path;
    const UnstableFiles before = TablesOfUnstableCalls(options.output_folder);
    MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
    report::Document summary;
    if (end.progress == LaunchProgress::kFramework && end.signal == 0 && end.exit_code == 0 &&
        settings.handler_type == "check") {
      summary = SummaryOfUnstable(options.output_folder, before);
    }
    return ReportEnd(end, "free_benchmark", "nothing was checked", options.framework, answer_,
                     context, std::move(summary));
  }

 private:
  std::filesystem::path config_file_;
  bool example_ = false;
  std::string dump_path_;
  std::vector<std::string> program_;
  AnswerFlags answer_;
};

namespace isolate = analysis::isolate;

constexpr const char* kIsolateNotes =
    R"(The reference is a dump of the good run, of the same model, data and seed: msprobe dump --task tensor --level L0 -o good -- python3 train.py.
One step is run so; afterwards parameters, buffers and random state are as before it, and the script goes on.
The exit code is that of the script where it fails; messages of msprobe go to stderr.

)";

// msprobe isolate: every module of a training on the values of a good run, judged alone.
class IsolateCommand final : public Command {
 public:
  IsolateCommand()
      : Command("isolate",
                "Run an unmodified script on a good run's values and name the modules that are "
                "wrong themselves") {}

  std::vector<Positional> positionals() override { return {ProgramArgument(program_, kRequired)}; }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--reference -r", "DUMP", &reference_,
             "The dump of the good run, with the tensors of its modules", kRequired,
             FromProject{"reference", ProjectScope::kOwnTable}),
        Group::kSelection,
        Number("--step", "N", &step_, "The step to run on the reference's values",
               Default{"the first of the reference"}),
        Group::kOutput,
        Path("--output -o", "DIR", &output_, "Folder of the tables, step<N>/rank<M>/isolate.csv",
             Default{"./isolated"}),
        ForceFlag(),
        AnswerRows(answer_, isolate::kGateLevels),
    };
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe isolate --reference good -- python3 train.py",
         "all modules that are wrong by themselves, forward and backward"},
        {"msprobe isolate -r good -o isolated --fail-on guilty -- torchrun --nproc-per-node 8 "
         "train.py",
         "every process of a distributed run; exit code 1 if a module is guilty"},
    };
  }

  std::string notes() const override { return kIsolateNotes + FailOnHelp(isolate::kGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    if (context.framework == "mindspore") {
      return UsageError("isolate runs scripts of PyTorch only")
          .WithHint("msprobe isolate --reference good -- python3 train.py");
    }
    MSP_RETURN_IF_ERROR(isolate::CheckReference(reference_).AddContext("--reference"));
    MSP_RETURN_IF_ERROR(ClearOutput());
    LaunchOptions options = LaunchOf(program_, "pytorch", answer_, context);
    options.overrides_json = OverridesJson();
    options.output_folder = output_;
    MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
    MSP_ASSIGN_OR_RETURN(const isolate::Verdicts verdicts, isolate::Run({.output = output_}));
    report::Document document = isolate::MakeDocument(verdicts);
    const bool failed = end.signal != 0 || end.exit_code != 0;
    if (failed) {
      document.warnings.push_back(
          end.signal != 0 ? fmt::format("the script was ended by signal {}", end.signal)
                          : fmt::format("the script failed with exit code {}", end.exit_code));
    } else if (verdicts.comparisons == 0) {
      document.warnings.push_back("nothing was judged: " +
                                  WhyNothing(end.progress, options.framework));
    }
    return EmitAndEnd(std::move(document), answer_, context, end,
                      failed ? std::optional(end.exit_code) : std::nullopt);
  }

 private:
  // Tables of an earlier run would be taken for this one's.
  Status ClearOutput() const {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(output_).AddContext("--output"));
    for (const bool unfinished : {false, true}) {
      MSP_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> tables,
                           isolate::TablesIn(output_, unfinished));
      for (const std::filesystem::path& table : tables) {
        MSP_RETURN_IF_ERROR(base::CheckOutputFile(table));
        std::error_code error;
        std::filesystem::remove(table, error);
        if (error) {
          return IoError(fmt::format("cannot remove {}: {}", table.string(), error.message()));
        }
      }
    }
    return {};
  }

  std::string OverridesJson() const {
    std::error_code ignored;
    std::string text;
    json::Writer writer(text, -1);
    writer.BeginObject();
    writer.Member("task", "isolate");
    writer.Member("reference", std::filesystem::absolute(reference_, ignored).string());
    writer.Member("dump_path", std::filesystem::absolute(output_, ignored).string());
    if (step_) {
      writer.Member("step", *step_);
    }
    writer.EndObject();
    return text;
  }

  std::vector<std::string> program_;
  std::filesystem::path reference_;
  std::filesystem::path output_ = "./isolated";
  std::optional<int64_t> step_;
  AnswerFlags answer_;
};

constexpr const char* kMonitorRunNotes =
    R"(Tables go to <output>/<time>-rank<R>-<id>/. The exit code is that of the script; messages of msprobe go to stderr.
The times in names of folders are of Asia/Shanghai, as in the Python tool; messages show the local time beside them.
A script can also start the monitor itself: from msprobe.pytorch import TrainerMon.)";

using analysis::monitor::RankFolder;
using analysis::monitor::TableFile;
using MonitorFiles = std::map<std::filesystem::path, FileStamp>;

constexpr std::string_view kAlertFolder = "anomaly_detected";

// What settings record, in a sentence.
std::string WatchedText(const monitor::Settings& settings) {
  constexpr std::array<std::pair<bool monitor::Settings::*, std::string_view>, 5> kParts = {
      {{&monitor::Settings::xy_distribution, "activations"},
       {&monitor::Settings::wg_distribution, "gradients"},
       {&monitor::Settings::mv_distribution, "optimizer moments"},
       {&monitor::Settings::param_distribution, "parameters"},
       {&monitor::Settings::ur_distribution, "update directions"}}};
  std::vector<std::string> parts;
  for (const auto& [member, name] : kParts) {
    if (settings.*member) {
      parts.emplace_back(name);
    }
  }
  std::vector<std::string> ops;
  std::transform(settings.ops.begin(), settings.ops.end(), std::back_inserter(ops),
                 [](monitor::Statistic op) { return std::string(StatisticName(op)); });
  return fmt::format("{} of every module, step_interval {} ({})", base::Join(parts, ", "),
                     settings.step_interval, base::Join(ops, ", "));
}

std::vector<RankFolder> RankFoldersOf(const std::filesystem::path& root) {
  auto found = analysis::monitor::FindRankFolders(root);  // an error: there is none yet
  return found.ok() ? *std::move(found) : std::vector<RankFolder>();
}

// All files below the folders of ranks and of alerts.
MonitorFiles FilesOf(const std::filesystem::path& root) {
  MonitorFiles files;
  std::vector<std::filesystem::path> folders;
  for (const RankFolder& folder : RankFoldersOf(root)) {
    folders.push_back(folder.path);
  }
  for (const std::string& rank : base::NamesIn(root / kAlertFolder)) {
    folders.push_back(root / kAlertFolder / rank);
  }
  for (const std::filesystem::path& folder : folders) {
    for (const std::string& name : base::NamesIn(folder)) {
      files[folder / name] = StampOf(folder / name);
    }
  }
  return files;
}

// What a run has added to the tables of all ranks.
struct MonitorTotals {
  size_t files = 0;
  uint64_t bytes = 0;
  uint64_t rows = 0;
  bool rows_are_known = true;  // false: of other forms than CSV, or too much to count
  std::optional<int64_t> first_step;
  std::optional<int64_t> last_step;
};

std::optional<int64_t> NumberInColumn(std::string_view row, size_t column) {
  base::CsvTokenizer line(row);
  return line.Next() == base::CsvTokenizer::Row::kFields && line.fields().size() > column
             ? base::ParseInt(line.fields()[column])
             : std::nullopt;
}

// The rows behind `seen_bytes`, which was the size of the file before, and their first and last
// step.
void AddRows(const std::filesystem::path& file, uint64_t seen_bytes, MonitorTotals& totals) {
  const Result<base::FileBytes> bytes = base::FileBytes::Open(file);
  if (!bytes.ok()) {
    totals.rows_are_known = false;
    return;
  }
  const std::string_view text = bytes->text();
  const std::string_view header = text.substr(0, text.find('\n'));
  base::CsvTokenizer names(header);
  if (names.Next() != base::CsvTokenizer::Row::kFields) {
    return;
  }
  const auto step = std::find(names.fields().begin(), names.fields().end(), "step");
  const auto column = static_cast<size_t>(step - names.fields().begin());
  const size_t begin =
      std::min<size_t>(std::max<size_t>(header.size() + 1, seen_bytes), text.size());
  // Whole rows: a run that was killed may have left half of one.
  const size_t end = std::max(begin, text.rfind('\n') + 1);
  const std::string_view rows = text.substr(begin, end - begin);
  if (rows.empty()) {
    return;
  }
  totals.rows += static_cast<uint64_t>(std::count(rows.begin(), rows.end(), '\n'));
  const std::string_view first = rows.substr(0, rows.find('\n'));
  const size_t before_last = rows.rfind('\n', rows.size() - 2);
  const std::string_view last =
      rows.substr(before_last == std::string_view::npos ? 0 : before_last + 1);
  if (const std::optional<int64_t> number = NumberInColumn(first, column)) {
    totals.first_step = std::min(totals.first_step.value_or(*number), *number);
  }
  if (const std::optional<int64_t> number =
          NumberInColumn(last.substr(0, last.size() - 1), column)) {
    totals.last_step = std::max(totals.last_step.value_or(*number), *number);
  }
}

MonitorTotals TotalsOf(const MonitorFiles& added, const MonitorFiles& before) {
  constexpr uint64_t kMostCounted = uint64_t{4} << 30U;  // some seconds from memory
  MonitorTotals totals;
  for (const auto& [file, stamp] : added) {
    totals.bytes += stamp.size_bytes;
    ++totals.files;
  }
  totals.rows_are_known = totals.bytes <= kMostCounted;
  for (const auto& [file, stamp] : added) {
    if (file.extension() != ".csv") {
      totals.rows_are_known = false;
    } else if (totals.rows_are_known) {
      const auto old = before.find(file);
      AddRows(file, old == before.end() ? 0 : old->second.size_bytes, totals);
    }
  }
  return totals;
}

// Files of this run, of all ranks: a run empties the files of the one before.
uint64_t AlertsIn(const std::filesystem::path& root, const MonitorFiles& added) {
  const auto found = analysis::monitor::ReadAllAnomalies(root / kAlertFolder);
  uint64_t alerts = 0;
  for (const auto& rank : found.ok() ? *found : std::vector<analysis::monitor::RankAnomalies>()) {
    alerts += added.contains(rank.path) ? rank.file.entries.size() : 0;
  }
  return alerts;
}

// What --laws says wins over the configuration.
std::string LawsJson(const std::vector<std::string>& laws) {
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  writer.Member("laws", laws);
  writer.EndObject();
  return text;
}

// The folders and tables that the run has added to `before`, and what to do next. Without a verdict
// where there are none.
report::Document SummaryOfMonitor(const std::filesystem::path& root, const MonitorFiles& before,
                                  const monitor::Settings& settings) {
  constexpr size_t kMostNamed = 4;
  MonitorFiles tables;
  MonitorFiles alert_files;
  for (const auto& [file, stamp] : FilesOf(root)) {
    const auto old = before.find(file);
    if (old == before.end() || !(old->second == stamp)) {
      const bool of_alerts = file.parent_path().parent_path().filename() == kAlertFolder;
      (of_alerts ? alert_files : tables).emplace(file, stamp);
    }
  }
  report::Document document;
  report::List folders{report::ListKind::kFacts, {}};
  std::set<int64_t> ranks;
  std::set<std::string> table_names;
  for (const RankFolder& folder : RankFoldersOf(root)) {
    const auto in_folder = [&folder](const auto& file) {
      return file.first.parent_path() == folder.path;
    };
    if (std::none_of(tables.begin(), tables.end(), in_folder)) {
      continue;
    }
    for (const TableFile& file : analysis::monitor::FindTableFiles(folder.path)) {
      if (tables.contains(file.path)) {
        table_names.insert(file.table);
      }
    }
    ranks.insert(folder.rank);
    folders.items.push_back(
        {fmt::format("rank {}", folder.rank),
         fmt::format("{}, begun {} local time", base::Printable(folder.path.string()),
                     monitor::LocalTimeOf(folder.stamp, std::time(nullptr)))});
  }
  if (ranks.empty()) {
    return document;
  }
  std::erase_if(tables, [](const auto& file) {
    const std::string name = file.first.filename().string();
    return name == monitor::kTopologyFileName || name.starts_with("laws");
  });
  const MonitorTotals totals = TotalsOf(tables, before);
  std::string text = base::Plural(ranks.size(), "rank");
  if (totals.first_step && totals.last_step) {
    text += *totals.first_step == *totals.last_step
                ? fmt::format(", step {}", *totals.first_step)
                : fmt::format(", steps {} to {}", *totals.first_step, *totals.last_step);
  }
  if (!table_names.empty()) {
    text += ", " + base::Plural(table_names.size(), "table");
  }
  const uint64_t alerts = AlertsIn(root, alert_files);
  analysis::monitor::LawsOfRun laws;
  if (!settings.laws.empty()) {
    if (Result<analysis::monitor::LawsOfRun> found = analysis::monitor::ReadLaws(root);
        found.ok()) {
      laws = *std::move(found);
    }
  }
  const bool is_broken = !laws.broken.empty();
  document.verdict.Say("MONITORED", text,
                       alerts > 0 || is_broken ? report::Tone::kCaution : report::Tone::kGood);
  document.verdict.number = static_cast<double>(ranks.size());
  document.verdict.unit = "ranks";
  report::List facts{report::ListKind::kFacts, {}};
  const auto add = [&facts](std::string_view label, std::string what, uint64_t number) {
    facts.items.push_back(
        {std::string(label), std::move(what), report::Tone::kPlain, static_cast<double>(number)});
  };
  if (totals.rows_are_known && totals.rows > 0) {
    add("rows", base::FormatCount(totals.rows), totals.rows);
  }
  if (totals.files > 0) {
    add("files",
        fmt::format("{}, {}", base::FormatCount(totals.files), base::FormatBytes(totals.bytes)),
        totals.files);
  }
  if (!settings.alert.rules.empty() && settings.alert.dump) {
    add("alerts", alerts == 0 ? "none" : base::FormatCount(alerts), alerts);
    facts.items.back().tone = alerts == 0 ? report::Tone::kPlain : report::Tone::kCaution;
  }
  if (laws.were_checked) {
    facts.items.push_back({"laws", is_broken ? laws.broken.front().Sentence() : "none is broken",
                           is_broken ? report::Tone::kCaution : report::Tone::kPlain,
                           static_cast<double>(laws.broken.size())});
  }
  document.Add("", std::move(facts));
  if (folders.items.size() > kMostNamed) {
    const size_t more = folders.items.size() - kMostNamed;
    folders.items.resize(kMostNamed);
    folders.items.push_back({"and", base::Plural(more, "further folder")});
  }
  document.sections.back().blocks.emplace_back(std::move(folders));
  const std::string shown = base::Printable(root.string());
  if (alerts > 0) {
    document.Advise(report::Advice("monitor.alerts", {shown}));
  }
  if (is_broken) {
    document.Advise(report::Advice("monitor.laws", {shown}));
  }
  if (!table_names.empty()) {
    document.Advise(report::Advice("monitor.show", {shown}));
  }
  return document;
}

// msprobe monitor run: a training as it is, watched.
class MonitorRunCommand : public Command {
 public:
  MonitorRunCommand()
      : Command("run", "Run an unmodified training script and record statistics of its steps") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--config -c", "FILE", &config_file_, "Configuration of the monitor",
             Default{"activations, gradients, moments and parameters of every step"}),
        ExampleFlag(example_),
        Group::kMethod,
        Number("--grad-acc-steps", "N", &micro_steps_,
               "Forward and backward passes per optimizer step", Between(1, 1e6)),
        Text("--laws", "LIST", &laws_,
             "Check what holds in every correct training: all, or " +
                 AnyOf({monitor::kLawNames.begin(), monitor::kLawNames.end()}),
             kSeparatedByCommas, kOneOrNone, Default{"none; all, if it is given without a name"}),
        Group::kOutput,
        Path("--output -o", "DIR", &output_folder_, "Folder for the tables",
             Default{"MONITOR_OUTPUT_DIR, or monitor_output"},
             FromProject{"output", ProjectScope::kOwnTable}),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override { return {ProgramArgument(program_)}; }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor run -- python3 train.py --epochs 1",
         "the outermost model and its optimizers are found while the script runs"},
        {"msprobe monitor run --example > monitor.json", "a configuration to start from"},
        {"msprobe monitor run -c monitor.json -o watched --grad-acc-steps 4 -- torchrun "
         "--nproc-per-node 8 train.py",
         "every process of a distributed run; four micro steps per optimizer step"},
    };
  }

  std::string notes() const override { return kMonitorRunNotes; }

  Result<ExitCode> Run(const Context& context) override {
    if (context.framework == "mindspore") {
      return UsageError("monitor run finds models of PyTorch only")
          .WithHint("in a MindSpore script: from msprobe.mindspore import TrainerMon");
    }
    MSP_RETURN_IF_ERROR(CheckTask("monitor run", example_, program_));
    if (example_) {
      fmt::print("{}\n", SettingsJson(monitor::SettingsToStartWith(), kExampleIndent));
      return ExitCode::kDone;
    }
    const std::vector<std::string> laws =
        context.Given("--laws") && laws_.empty() ? std::vector<std::string>{"all"} : laws_;
    std::error_code ignored;
    LaunchOptions options = LaunchOf(program_, "pytorch", answer_, context);
    options.purpose = "MONITOR";
    options.config_file = config_file_;
    options.output_folder = output_folder_.empty() ? monitor::OutputRoot() : output_folder_;
    if (config_file_.empty()) {
      // Without a folder of its own a run gets a new one: it does not mix with the one before.
      if (output_folder_.empty() && std::getenv("MONITOR_OUTPUT_DIR") == nullptr) {
        output_folder_ = UnusedFolder(options.output_folder.string());
        options.output_folder = std::filesystem::absolute(output_folder_, ignored);
      }
      // Laws alone: they cost little, the tables of every step do not.
      monitor::Settings defaults =
          laws.empty() ? monitor::SettingsToStartWith() : monitor::Settings();
      defaults.laws = laws;
      options.overrides_json = SettingsJson(defaults);
      base::LogInfo(laws.empty()
                        ? fmt::format("{}: {}; {}", kNoConfiguration, WatchedText(defaults),
                                      base::Printable(options.output_folder.string()))
                        : fmt::format("laws only: {}; {}", base::Join(laws, ", "),
                                      base::Printable(options.output_folder.string())));
    }
    if (!laws.empty() && !config_file_.empty()) {
      options.overrides_json = LawsJson(laws);
    }
    // Mistakes in the configuration are reported here, once, and not by every process of a run.
    MSP_ASSIGN_OR_RETURN(const monitor::Settings settings,
                         monitor::LoadSettings(config_file_, options.overrides_json));
    for (const std::string& warning : settings.warnings) {
      base::LogWarning(warning);
    }
    options.variables.emplace_back("MSPROBE_MONITOR_MICRO_STEPS", fmt::format("{}", micro_steps_));
    if (!output_folder_.empty()) {
      options.variables.emplace_back("MONITOR_OUTPUT_DIR",
                                     std::filesystem::absolute(output_folder_, ignored).string());
    }
    const MonitorFiles before = FilesOf(options.output_folder);
    MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
    report::Document summary = SummaryOfMonitor(options.output_folder, before, settings);
    if (end.progress == LaunchProgress::kFramework && end.signal == 0 && end.exit_code == 0 &&
        summary.verdict.word.empty()) {
      base::LogWarning(
          "nothing was watched: PyTorch was imported, but no model was called with gradients "
          "enabled after an optimizer of its parameters had been made");
    }
    return ReportEnd(end, "monitor run", "nothing was watched", options.framework, answer_, context,
                     std::move(summary));
  }

 private:
  std::filesystem::path config_file_;
  bool example_ = false;
  std::filesystem::path output_folder_;
  int64_t micro_steps_ = 1;
  std::vector<std::string> laws_;
  std::vector<std::string> program_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeFreeBenchmark() { return std::make_unique<FreeBenchmarkCommand>(); }
std::unique_ptr<Command> MakeIsolate() { return std::make_unique<IsolateCommand>(); }
std::unique_ptr<Command> MakeMonitorRun() { return std::make_unique<MonitorRunCommand>(); }

}  // namespace msprobe::commands
