// msprobe monitor: what is done with the tables that the training monitor wrote. The commands that
// run or follow a training are in script_commands.cpp and monitor_top_command.cpp.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/monitor/analyse/analyse.h"
#include "src/analysis/monitor/csv2tb/csv2tb.h"
#include "src/analysis/monitor/diff/diff.h"
#include "src/analysis/monitor/report/report.h"
#include "src/analysis/monitor/store/store.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/flag.h"
#include "src/monitor/replay.h"

namespace msprobe::commands {
namespace {

Flag TablesFlag(std::vector<std::string>& tables) {
  return Text("--tables --data_type_list", "LIST", &tables,
              "Only these tables, such as actv,grad_reduced", kSeparatedByCommas, Default{"all"},
              Group::kSelection);
}

Flag StatisticsFlag(std::vector<std::string>& statistics) {
  return Text("--statistics --ops", "LIST", &statistics, "Only these statistics, such as norm,max",
              kSeparatedByCommas, Default{"all"}, Group::kSelection);
}

Flag TimeStartFlag(std::string& stamp) {
  return Text("--time-start", "STAMP", &stamp,
              "Only folders with this stamp or a later one, such as Nov21_09-58-35", kPython811,
              Group::kSelection);
}

Flag TimeEndFlag(std::string& stamp) {
  return Text("--time-end", "STAMP", &stamp, "Only folders with this stamp or an earlier one",
              kPython811, Group::kSelection);
}

Flag MonitorThreadsFlag(uint64_t& threads) {
  Flag flag = ThreadsFlag(threads);
  flag.aliases = {"--process_num"};
  return flag;
}

constexpr const char* kMonitorAnalyseNotes =
    R"(Alerts are sorted by step, micro step, phase (forward, backward, optimizer), pipeline stage and call.

)";

// msprobe monitor analyse: alerts of all ranks, nearest to the cause first.
class MonitorAnalyseCommand final : public Command {
 public:
  MonitorAnalyseCommand()
      : Command("analyse", "Sort the alerts of all ranks: which tensor went wrong first?") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--data-path -d", "DIR", &options_.data, "The folder anomaly_detected, instead of RUN",
             kPython811),
        Group::kSelection,
        Text("--step -s --step_list", "LIST", &steps_, "Only alerts of these steps: '[1,3]' or 1,3",
             Default{"all"}, kPython811),
        Number("--top -k --topk", "N", &top_, "Number of alerts to show", kPython811),
        Group::kMethod,
        Choice("--order", "NAME", &options_.order,
               {{"python", analysis::monitor::AnomalyOrder::kPython},
                {"causal", analysis::monitor::AnomalyOrder::kCausal}},
               "Order of parameters and communication; python: before everything else, causal: "
               "where they happen in a step"),
        Group::kOutput,
        Path("--output -o --out_path", "DIR", &options_.output, "Folder for anomaly_analyse.json",
             Default{"the folder of the alerts"}, kPython811),
        ForceFlag(),
        ShareRows(answer_),
        AnswerRows(answer_, analysis::monitor::kAnalyseLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument(
        "RUN", &options_.data,
        "Output folder of the monitor, or its folder anomaly_detected (rank<R>/anomaly.json)",
        OrFlag{"-d"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor analyse monitor_output",
         "the first eight alerts, also written to anomaly_analyse.json in that folder"},
        {"msprobe monitor analyse monitor_output -o result -k 20 -s '[100,101]'",
         "twenty alerts, of these steps only"},
        {"msprobe monitor analyse monitor_output --order causal",
         "with parameters and communication where they happen in a step"},
        {"msprobe monitor analyse monitor_output --fail-on alert --junit alerts.xml -q",
         "in CI: exit code 1 if there is an alert"},
    };
  }

  std::string notes() const override { return kMonitorAnalyseNotes; }

  Result<ExitCode> Run(const Context& context) override {
    if (base::IsFolder(options_.data / "anomaly_detected")) {
      options_.data /= "anomaly_detected";
    }
    options_.top = top_ > 0 ? static_cast<size_t>(top_) : 0;
    MSP_ASSIGN_OR_RETURN(options_.steps, analysis::monitor::ParseStepList(steps_));
    MSP_ASSIGN_OR_RETURN(const analysis::monitor::AnalyseResult result,
                         analysis::monitor::RunAnalyse(options_));
    if (!result.reports) {
      return ExitCode::kDone;
    }
    return EmitReport(MakeDocument(result), answer_, context);
  }

 private:
  analysis::monitor::AnalyseOptions options_;
  int64_t top_ = 8;
  std::string steps_;
  AnswerFlags answer_;
};

constexpr const char* kMonitorCsv2dbNotes =
    R"(sqlite3 store/monitor_data.trend.db 'select step, norm from trend_data where rank = 0 and target_id = 1')";

// msprobe monitor csv2db, also data2db: a monitored run or a dump as one SQLite file.
class MonitorCsv2dbCommand final : public Command {
 public:
  using Command::Command;

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--data --monitor_path", "DIR", &options_.data, "The same, instead of RUN",
             kPython811),
        Choice("--kind --format", "NAME", &kind_, {"auto", "monitor", "dump"},
               "Kind of the input; auto: detect it", kPython26),
        Group::kMethod,
        Path("--mapping", "FILE", &mapping_,
             "JSON object that maps parts of names to their replacements", kPython26),
        Text("--micro-step", "BOOL", &options_.number_micro_steps,
             "true: each micro step is a step of its own; false: it stays part of the name",
             kPython26),
        Group::kOutput,
        Path("--output -o --db", "DIR", &options_.output,
             "Folder for monitor_data.trend.db and dump_data.trend.db", kPython811, kRequired),
        ForceFlag(),
        MonitorThreadsFlag(options_.threads),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("RUN", &options_.data,
                     "Output folder of the monitor (<stamp>-rank<R>-<id>/), or a dump "
                     "(step<N>/rank<M>/dump.json)",
                     OrFlag{"--data"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor csv2db monitor_output -o store",
         "store/monitor_data.trend.db: all ranks, tables and statistics"},
        {"msprobe monitor csv2db monitor_output -o store --micro-step false",
         "keep the step numbers; micro steps are part of the names"},
        {"msprobe monitor csv2db monitor_output -o store --mapping names.json",
         "names.json: {\"module.module.\": \"\", \"encoder\": \"decoder\"}, replaced in this "
         "order"},
        {"msprobe monitor csv2db dump_path -o store --kind dump",
         "store/dump_data.trend.db: statistics of the tensors in step<N>/rank<M>/dump.json"},
    };
  }

  std::string notes() const override { return kMonitorCsv2dbNotes; }

  Result<ExitCode> Run(const Context& context) override {
    if (!mapping_.empty()) {
      MSP_ASSIGN_OR_RETURN(options_.mapping, analysis::monitor::ReadMapping(mapping_));
    }
    std::vector<Status> absent;
    std::vector<analysis::monitor::StoreResult> stores;
    for (const auto& [name, convert] : {std::pair("monitor", &analysis::monitor::RunCsv2Db),
                                        std::pair("dump", &analysis::monitor::RunDump2Db)}) {
      if (kind_ != "auto" && kind_ != name) {
        continue;
      }
      Result<analysis::monitor::StoreResult> result = convert(options_);
      if (!result.ok() && kind_ == "auto" && result.status().code() == StatusCode::kNotFound) {
        absent.push_back(std::move(result).status());
        continue;
      }
      if (!result.ok()) {
        return std::move(result).status();
      }
      stores.push_back(*std::move(result));
    }
    if (stores.empty()) {
      const std::string& hint = absent[1].hint().empty() ? absent[0].hint() : absent[1].hint();
      return NotFoundError(absent[0].message() + ", and " + absent[1].message()).WithHint(hint);
    }
    report::Document document = analysis::monitor::MakeDocument(stores);
    document.command = name() == "csv2db" ? "monitor csv2db" : std::string(name());
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  analysis::monitor::StoreOptions options_;
  std::string kind_ = "auto";
  std::filesystem::path mapping_;
  AnswerFlags answer_;
};

// msprobe monitor csv2tb: tables of a monitored run for TensorBoard.
class MonitorCsv2tbCommand final : public Command {
 public:
  MonitorCsv2tbCommand()
      : Command("csv2tb", "Convert a monitored run to TensorBoard event files") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--monitor-path", "DIR", &options_.run, "The same, instead of RUN", kPython811),
        TimeStartFlag(options_.find.time_start),
        TimeEndFlag(options_.find.time_end),
        Group::kSelection,
        Text("--tables --data_type_list", "LIST", &options_.tables,
             "Only these tables: " + AnyOf(analysis::monitor::KnownTables()), kSeparatedByCommas,
             Default{"all but the last two"}, kPython811),
        Group::kOutput,
        Path("--output -o --output_dirpath", "DIR", &options_.output, "Folder for the event files",
             Default{"RUN/<now>-csv2tensorboard_by_step"}, kPython811),
        ForceFlag(),
        MonitorThreadsFlag(options_.threads),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("RUN", &options_.run, "Output folder of the monitor (<stamp>-rank<R>-<id>/)",
                     OrFlag{"--monitor-path"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor csv2tb monitor_output",
         "all ranks and tables, into monitor_output/<now>-csv2tensorboard_by_step"},
        {"msprobe monitor csv2tb monitor_output --tables actv,grad_reduced -o events",
         "two tables, into events/rank<R>/<table>; then: tensorboard --logdir events"},
        {"msprobe monitor csv2tb monitor_output --time-start Dec03_21-34-40 --time-end "
         "Dec03_22-00-00",
         "only runs started between these times"},
    };
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const analysis::monitor::Csv2TbResult result,
                         analysis::monitor::RunCsv2Tb(options_));
    return EmitReport(MakeDocument(result), answer_, context);
  }

 private:
  analysis::monitor::Csv2TbOptions options_;
  AnswerFlags answer_;
};

constexpr const char* kMonitorDiffNotes =
    R"(Two values differ when |A - B| > atol + rtol * max(|A|, |B|). NaN equals only NaN.

)";

// msprobe monitor diff: the first step and module where two runs diverge.
class MonitorDiffCommand final : public Command {
 public:
  MonitorDiffCommand() : Command("diff", "Find the first step and module where two runs diverge") {}

  FlagTable flags() override {
    return {
        TablesFlag(options_.tables),
        StatisticsFlag(options_.ops),
        Number("--rtol", "R", &options_.rtol, "Allowed relative difference", kNotNegative),
        Number("--atol", "A", &options_.atol, "Allowed absolute difference", kNotNegative),
        Switch("--reduce", &options_.reduce,
               "Combine the values of all ranks even if both runs have the same ranks"),
        Group::kOutput,
        Choice("--format", "NAME", &format_, {"table", "json"}, "What to print"),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_, analysis::monitor::kDiffLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("RUN", &options_.a,
                     "The test run: folders <stamp>-rank<R>-<id>, or one of them", kRequired),
            Argument("REFERENCE", &options_.b, "The run to compare it with", kRequired,
                     FromProject{"reference", ProjectScope::kOwnTable})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor diff after/monitor_output before/monitor_output",
         "one line per table and statistic, and the first divergence"},
        {"msprobe monitor diff npu gpu --rtol 0.05 --tables actv,grad_reduced --statistics norm",
         "norms only, up to 5 percent apart"},
        {"msprobe monitor diff eight_ranks one_rank --format json",
         "different numbers of ranks: norms of shards are combined; JSON output"},
        {"msprobe monitor diff after before --fail-on different -q",
         "in CI: exit code 1 if the runs diverge"},
    };
  }

  std::string notes() const override {
    return kMonitorDiffNotes + FailOnHelp(analysis::monitor::kDiffLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const analysis::monitor::DiffResult result,
                         analysis::monitor::RunDiff(options_));
    OwnForms own;
    if (format_ == "json") {
      own.instead = DiffJson(options_, result);
    }
    return EmitReport(MakeDocument(result), answer_, context, own);
  }

 private:
  analysis::monitor::DiffOptions options_;
  std::string format_ = "table";
  AnswerFlags answer_;
};

constexpr const char* kMonitorReplayNotes =
    R"(FEED contains feed.jsonl (one event per line) and feed.bin (the bytes of the tensors).)";

// msprobe monitor replay: recorded tensors through the monitor's statistics and CSV writer.
class MonitorReplayCommand final : public Command {
 public:
  MonitorReplayCommand()
      : Command("replay", "Compute the monitor's tables from recorded tensors") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--feed", "DIR", &options_.feed, "The same, instead of FEED"),
        Path("--config -c", "FILE", &options_.config, "Configuration of the monitor", kRequired),
        Group::kMethod,
        Switch("--compat", &options_.compat,
               "Reproduce the Python tool's output exactly, including its bugs"),
        Group::kOutput,
        Path("--output -o", "DIR", &options_.output, "Folder for the tables", kRequired),
        ForceFlag(),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {
        Argument("FEED", &options_.feed, "Folder with feed.jsonl and feed.bin", OrFlag{"--feed"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor replay case/feed -c case/config.json -o tables",
         "<table>_<first>-<last>.csv for every table of the feed"},
        {"msprobe monitor replay case/feed -c case/config.json -o tables --compat",
         "numbers and cells exactly as the Python tool writes them"},
    };
  }

  std::string notes() const override { return kMonitorReplayNotes; }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const monitor::ReplayTotals totals, monitor::Replay(options_));
    report::Document document;
    document.command = "monitor replay";
    document.verdict.word = "WRITTEN";
    document.verdict.tone = report::Tone::kStrong;
    document.verdict.text = fmt::format("{} of {}", base::Plural(totals.rows, "row"),
                                        base::Plural(totals.tensors, "tensor"));
    document.verdict.number = static_cast<double>(totals.rows);
    document.verdict.unit = "rows";
    document.files.push_back({options_.output / "", "tables"});
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  monitor::ReplayOptions options_;
  AnswerFlags answer_;
};

constexpr const char* kMonitorReportNotes = R"(The same run always gives the same bytes.

)";

// msprobe monitor report: a monitored run as a page for browsers.
class MonitorReportCommand final : public Command {
 public:
  MonitorReportCommand()
      : Command("report", "Write one monitored run, or two for comparison, as an HTML file") {}

  FlagTable flags() override {
    return {
        TablesFlag(options_.read.tables),
        StatisticsFlag(options_.read.ops),
        TimeStartFlag(options_.read.find.time_start),
        TimeEndFlag(options_.read.find.time_end),
        Group::kOutput,
        Path("--output -o", "FILE", &options_.output, "HTML file to write"),
        OpenFlag(answer_),
        ForceFlag(),
        AnswerRows(answer_, analysis::monitor::kReportLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("RUN", &options_.run,
                     "The run: the folder that contains <stamp>-rank<R>-<id>/", kRequired),
            Argument("REFERENCE", &options_.other, "A second run for comparison")};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor report monitor_output -o report.html",
         "curves, heat maps over ranks and modules, alerts; for any current browser, without "
         "network"},
        {"msprobe monitor report npu_output gpu_output -o both.html",
         "two runs of the same model, overlaid"},
        {"msprobe monitor report monitor_output -o grads.html --tables grad_reduced,exp_avg "
         "--statistics norm,max",
         "a smaller file: only these tables and statistics"},
        {"msprobe monitor report monitor_output --fail-on not_finite",
         "in CI: exit code 1 if a table contains NaN or infinity"},
    };
  }

  std::string notes() const override { return kMonitorReportNotes; }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const analysis::monitor::ReportResult outcome,
                         analysis::monitor::RunReport(options_));
    return EmitReport(MakeDocument(outcome, options_.output), answer_, context);
  }

 private:
  analysis::monitor::ReportOptions options_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeData2db() {
  return std::make_unique<MonitorCsv2dbCommand>("data2db", "Alias of monitor csv2db");
}

std::unique_ptr<Command> MakeMonitor() {
  monitor::UseSqlite(&analysis::monitor::LinkedSqlite());
  auto group = std::make_unique<CommandGroup>(
      "monitor", "Watch a training run; analyse, compare, convert and show what was recorded");
  group->Add(std::make_unique<MonitorAnalyseCommand>());
  group->Add(std::make_unique<MonitorCsv2dbCommand>(
      "csv2db", "Convert a monitored run or a dump to one SQLite file, a trend store", "data2db"));
  group->Add(std::make_unique<MonitorCsv2tbCommand>());
  group->Add(std::make_unique<MonitorDiffCommand>());
  group->Add(std::make_unique<MonitorReplayCommand>());
  group->Add(std::make_unique<MonitorReportCommand>());
  group->Add(MakeMonitorRun());
  group->Add(MakeMonitorTop());
  return group;
}

}  // namespace msprobe::commands
