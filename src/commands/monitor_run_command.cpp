#include <algorithm>
#include <ctime>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/dump_launcher.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/settings.h"

namespace msprobe::commands {
namespace {

// msprobe monitor run: a training as it is, watched.

class MonitorRunCommand : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override {
    return "Run an unmodified training script and record statistics of its steps";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path config_file_;
  std::filesystem::path output_folder_;
  int64_t micro_steps_ = 1;
  std::vector<std::string> program_;
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

// What the run wrote, which are folders and tables that `before` did not hold, and what comes next.
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

std::vector<Positional> MonitorRunCommand::positionals() {
  return {Argument("PROGRAM", &program_, "The script to run and its arguments, after --", kRequired,
                   kRest)};
}

FlagTable MonitorRunCommand::flags() {
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

std::vector<Example> MonitorRunCommand::examples() const {
  return {
      {"msprobe monitor run -c monitor.json -- python3 train.py --epochs 1",
       "the outermost model and its optimizers are found while the script runs"},
      {"msprobe monitor run -c monitor.json -o watched --grad-acc-steps 4 -- torchrun "
       "--nproc-per-node 8 train.py",
       "every process of a distributed run; four micro steps per optimizer step"},
  };
}

std::string MonitorRunCommand::notes() const { return kMonitorRunNotes; }

Result<ExitCode> MonitorRunCommand::Run(const Context& context) {
  if (context.framework == "mindspore") {
    return UsageError("monitor run finds models of PyTorch only")
        .WithHint("in a MindSpore script: from msprobe.mindspore import TrainerMon");
  }
  // What is wrong with the configuration is said here, once, and not by every process of a run.
  MSP_ASSIGN_OR_RETURN(const monitor::Settings settings, monitor::LoadSettings(config_file_, ""));
  for (const std::string& warning : settings.warnings) {
    base::LogWarning(warning);
  }
  std::error_code ignored;
  LaunchOptions options;
  options.program = program_;
  options.purpose = "MONITOR";
  options.config_file = config_file_;
  options.framework = "pytorch";
  options.quiet = context.quiet;
  options.output_to_stderr = answer_.json;
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
  return TellEnd(end, "monitor run", "nothing was watched", options.framework, answer_, context,
                 TellTables(options.output_folder, before));
}

}  // namespace

std::unique_ptr<Command> MakeMonitorRun() { return std::make_unique<MonitorRunCommand>(); }

}  // namespace msprobe::commands
