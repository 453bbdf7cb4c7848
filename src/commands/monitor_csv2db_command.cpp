#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/monitor/store/store.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/commands/monitor_flags.h"

namespace msprobe::commands {
namespace {

// msprobe monitor csv2db: a monitored run or a dump as one SQLite file.

class MonitorCsv2dbCommand : public Command {
 public:
  std::string_view name() const override { return "csv2db"; }
  std::string_view alias() const override { return name() == "csv2db" ? "data2db" : ""; }
  std::string_view summary() const override {
    return "Convert a monitored run or a dump to one SQLite file, a trend store";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::StoreOptions options_;
  std::string kind_ = "auto";
  std::filesystem::path mapping_;
  AnswerFlags answer_;
};

// msprobe data2db: monitor csv2db under the name that the Python tool gives it.

class Data2dbCommand final : public MonitorCsv2dbCommand {
 public:
  std::string_view name() const override { return "data2db"; }
  std::string_view summary() const override { return "Another name of monitor csv2db"; }
  Result<ExitCode> Run(const Context& context) override;
};

constexpr const char* kMonitorCsv2dbNotes =
    R"(sqlite3 store/monitor_data.trend.db 'select step, norm from trend_data where rank = 0 and target_id = 1')";

std::vector<Positional> MonitorCsv2dbCommand::positionals() {
  return {Argument("RUN", &options_.data,
                   "Output folder of the monitor (<stamp>-rank<R>-<id>/), or a dump "
                   "(step<N>/rank<M>/dump.json)",
                   OrFlag{"--data"})};
}

FlagTable MonitorCsv2dbCommand::flags() {
  return {
      Group::kInput,
      Path("--data --monitor_path", "DIR", &options_.data, "The same, instead of RUN", kPython811),
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

std::vector<Example> MonitorCsv2dbCommand::examples() const {
  return {
      {"msprobe monitor csv2db monitor_output -o store",
       "store/monitor_data.trend.db: all ranks, tables and statistics"},
      {"msprobe monitor csv2db monitor_output -o store --micro-step false",
       "keep the step numbers; micro steps are part of the names"},
      {"msprobe monitor csv2db monitor_output -o store --mapping names.json",
       "names.json: {\"module.module.\": \"\", \"encoder\": \"decoder\"}, replaced in this order"},
      {"msprobe monitor csv2db dump_path -o store --kind dump",
       "store/dump_data.trend.db: statistics of the tensors in step<N>/rank<M>/dump.json"},
  };
}

std::string MonitorCsv2dbCommand::notes() const { return kMonitorCsv2dbNotes; }

Result<ExitCode> MonitorCsv2dbCommand::Run(const Context& context) {
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
  return GiveAnswer(std::move(document), answer_, context);
}

Result<ExitCode> Data2dbCommand::Run(const Context& context) {
  monitor::UseSqlite(&analysis::monitor::LinkedSqlite());
  return MonitorCsv2dbCommand::Run(context);
}

}  // namespace

std::unique_ptr<Command> MakeData2db() { return std::make_unique<Data2dbCommand>(); }
std::unique_ptr<Command> MakeMonitorCsv2db() { return std::make_unique<MonitorCsv2dbCommand>(); }

}  // namespace msprobe::commands
