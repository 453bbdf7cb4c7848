// Commands that run an unmodified training script with the capture or the monitor in it, and report
// its results at the end: free_benchmark, isolate and monitor run. dump, which does more, is in
// dump_command.cpp.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/isolate/isolate.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/log.h"
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

constexpr const char* kNotes =
    R"(Rows go to <output>/step<N>/rank<R>/free_benchmark.csv. The exit code is that of the script; messages of msprobe go to stderr.
A script can also control it itself: from msprobe.pytorch (or msprobe.mindspore) import PrecisionDebugger.

A configuration to start with:

  {"task": "free_benchmark", "dump_path": "unstable", "free_benchmark": {"pert_mode": "add_noise"}})";

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
             kRequired),
        Group::kOutput,
        Path("--output -o", "DIR", &dump_path_, "Overrides dump_path in the config file",
             Default{"that of the config file"}),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override { return {ProgramArgument(program_)}; }

  std::vector<Example> examples() const override {
    return {
        {"msprobe free_benchmark -c config.json -- python3 train.py --epochs 1",
         "the outermost model and its steps are found while the script runs"},
        {"msprobe free_benchmark -c config.json -o unstable -- torchrun --nproc-per-node 8 "
         "train.py",
         "every process of a distributed run"},
        {"msprobe -f mindspore free_benchmark -c config.json -- python3 train.py",
         "a script of MindSpore in dynamic-graph mode"},
    };
  }

  std::string notes() const override { return kNotes; }

  Result<ExitCode> Run(const Context& context) override {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(config_file_, ignored)) {
      return NotFoundError(fmt::format("{} is not a file", config_file_.string()))
          .WithHint("--config takes a JSON file with dump_path and a section free_benchmark");
    }
    const capture::Framework framework = context.framework == "mindspore"
                                             ? capture::Framework::kMindSpore
                                             : capture::Framework::kPyTorch;
    LaunchOptions options = LaunchOf(program_, capture::FrameworkName(framework), answer_, context);
    json::Writer overrides(options.overrides_json, -1);
    overrides.BeginObject();
    overrides.Member("task", "free_benchmark");
    if (!dump_path_.empty()) {
      overrides.Member("dump_path", std::filesystem::absolute(dump_path_, ignored).string());
    }
    overrides.EndObject();
    // Mistakes in the configuration are reported here, once, and not by every process of a run.
    MSP_ASSIGN_OR_RETURN(const capture::FreeBenchmarkSettings settings,
                         capture::LoadFreeBenchmarkSettings(config_file_, options.overrides_json,
                                                            framework, "the flags"));
    options.config_file = config_file_;
    options.output_folder = settings.dump_path;
    MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
    return ReportEnd(end, "free_benchmark", "nothing was checked", options.framework, answer_,
                     context);
  }

 private:
  std::filesystem::path config_file_;
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

  std::vector<Positional> positionals() override { return {ProgramArgument(program_)}; }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--reference -r", "DUMP", &reference_,
             "The dump of the good run, with the tensors of its modules", kRequired),
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
A script can also start the monitor itself: from msprobe.pytorch import TrainerMon.

A configuration to start with:

  {"targets": {}, "xy_distribution": true, "wg_distribution": true, "mv_distribution": true,
   "ops": ["norm", "min", "max", "nans"], "step_interval": 10})";

using analysis::monitor::RankFolder;
using analysis::monitor::TableFile;

std::vector<RankFolder> RankFoldersOf(const std::filesystem::path& root) {
  auto found = analysis::monitor::FindRankFolders(root);  // an error: there is none yet
  return found.ok() ? *std::move(found) : std::vector<RankFolder>();
}

// The folders and tables of the run, which `before` does not hold, and what to do next.
report::Document TellTables(const std::filesystem::path& root,
                            const std::set<std::filesystem::path>& before) {
  constexpr size_t kMostNamed = 4;
  report::Document document;
  report::List folders{report::ListKind::kFacts, {}};
  std::set<int64_t> ranks;
  size_t tables = 0;
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const RankFolder& folder : RankFoldersOf(root)) {
    std::set<std::string> names;
    for (const TableFile& file : analysis::monitor::FindTableFiles(folder.path)) {
      if (before.contains(file.path)) {
        continue;
      }
      names.insert(file.table);
      first = std::min(first, file.first_step);
      last = std::max(last, file.last_step);
    }
    if (names.empty() && before.contains(folder.path)) {
      continue;
    }
    tables = std::max(tables, names.size());
    ranks.insert(folder.rank);
    folders.items.push_back(
        {fmt::format("rank {}", folder.rank),
         fmt::format("{}, begun {} local time", base::Printable(folder.path.string()),
                     monitor::LocalTimeOf(folder.stamp, std::time(nullptr)))});
  }
  if (ranks.empty()) {
    return document;
  }
  document.verdict.Say("MONITORED",
                       fmt::format("{}{}", base::Plural(ranks.size(), "rank"),
                                   tables == 0 ? std::string()
                                               : fmt::format(", steps {} to {}, {} each", first,
                                                             last, base::Plural(tables, "table"))),
                       report::Tone::kGood);
  document.verdict.number = static_cast<double>(ranks.size());
  document.verdict.unit = "ranks";
  if (folders.items.size() > kMostNamed) {
    const size_t more = folders.items.size() - kMostNamed;
    folders.items.resize(kMostNamed);
    folders.items.push_back({"and", base::Plural(more, "further folder")});
  }
  document.Add("", std::move(folders));
  const std::string shown = base::Printable(root.string());
  if (tables > 0) {
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
        Path("--config -c", "FILE", &config_file_, "Configuration of the monitor", kRequired),
        Group::kMethod,
        Number("--grad-acc-steps", "N", &micro_steps_,
               "Forward and backward passes per optimizer step", Between(1, 1e6)),
        Group::kOutput,
        Path("--output -o", "DIR", &output_folder_, "Folder for the tables",
             Default{"MONITOR_OUTPUT_DIR, or monitor_output"}),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override { return {ProgramArgument(program_)}; }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor run -c monitor.json -- python3 train.py --epochs 1",
         "the outermost model and its optimizers are found while the script runs"},
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
    // Mistakes in the configuration are reported here, once, and not by every process of a run.
    MSP_ASSIGN_OR_RETURN(const monitor::Settings settings, monitor::LoadSettings(config_file_, ""));
    for (const std::string& warning : settings.warnings) {
      base::LogWarning(warning);
    }
    std::error_code ignored;
    LaunchOptions options = LaunchOf(program_, "pytorch", answer_, context);
    options.purpose = "MONITOR";
    options.config_file = config_file_;
    options.output_folder = output_folder_.empty() ? monitor::OutputRoot() : output_folder_;
    options.variables.emplace_back("MSPROBE_MONITOR_MICRO_STEPS", fmt::format("{}", micro_steps_));
    if (!output_folder_.empty()) {
      options.variables.emplace_back("MONITOR_OUTPUT_DIR",
                                     std::filesystem::absolute(output_folder_, ignored).string());
    }
    std::set<std::filesystem::path> before;
    for (const RankFolder& folder : RankFoldersOf(options.output_folder)) {
      before.insert(folder.path);
      for (const TableFile& file : analysis::monitor::FindTableFiles(folder.path)) {
        before.insert(file.path);
      }
    }
    MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
    return ReportEnd(end, "monitor run", "nothing was watched", options.framework, answer_, context,
                     TellTables(options.output_folder, before));
  }

 private:
  std::filesystem::path config_file_;
  std::filesystem::path output_folder_;
  int64_t micro_steps_ = 1;
  std::vector<std::string> program_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeFreeBenchmark() { return std::make_unique<FreeBenchmarkCommand>(); }
std::unique_ptr<Command> MakeIsolate() { return std::make_unique<IsolateCommand>(); }
std::unique_ptr<Command> MakeMonitorRun() { return std::make_unique<MonitorRunCommand>(); }

}  // namespace msprobe::commands
