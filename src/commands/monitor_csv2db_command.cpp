#include "src/commands/monitor_csv2db_command.h"

#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "src/analysis/monitor/answers.h"
#include "src/analysis/monitor/csv2db.h"
#include "src/analysis/monitor/dump2db.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor csv2db --data monitor_output --db store
      store/monitor_data.trend.db: all ranks, tables and statistics
  msprobe monitor csv2db --data monitor_output --db store --micro_step false
      steps as they were, micro steps with the names
  msprobe monitor csv2db --data monitor_output --db store --mapping names.json
      names.json: {"module.module.": "", "encoder": "decoder"}, replaced in this order
  msprobe monitor csv2db --data dump_path --db store --format dump
      store/dump_data.trend.db: statistics of the tensors in step<N>/rank<M>/dump.json

sqlite3 store/monitor_data.trend.db 'select step, norm from trend_data where rank = 0 and target_id = 1')";

}  // namespace

void MonitorCsv2dbCommand::Configure(CLI::App& app) {
  if (name() == "csv2db") {
    app.alias("data2db");
  }
  app.add_option("--data,--monitor_path", options_.data,
                 "What the monitor wrote, folders <stamp>-rank<R>-<id>; or a dump, "
                 "step<N>/rank<M>/dump.json")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--db", options_.output,
                 "Folder for monitor_data.trend.db and dump_data.trend.db")
      ->type_name("DIR")
      ->required();
  app.add_option("--format", format_,
                 "What the data are: monitor, dump, or auto: whichever is there")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "monitor", "dump"}));
  app.add_option("--mapping", mapping_, "JSON object of texts in names and their replacements")
      ->type_name("FILE");
  app.add_option("--micro_step,--micro-step", options_.number_micro_steps,
                 "true (default): every micro step gets a step of its own; false: it stays with "
                 "the name")
      ->type_name("BOOL");
  app.add_option("--process_num,--process-num", options_.threads,
                 "Threads to read with (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 128));
  AddForceFlag(app);
  AddAnswerFlags(app, answer_);
  app.footer(kExamples);
}

Result<ExitCode> MonitorCsv2dbCommand::Run(const Context& context) {
  if (!mapping_.empty()) {
    MSP_ASSIGN_OR_RETURN(options_.mapping, monitor::ReadMapping(mapping_));
  }
  std::vector<Status> absent;
  std::vector<monitor::StoreResult> stores;
  for (const auto& [name, convert] : {std::pair("monitor", &monitor::ConvertToStore),
                                      std::pair("dump", &monitor::ConvertDumpToStore)}) {
    if (format_ != "auto" && format_ != name) {
      continue;
    }
    Result<monitor::StoreResult> result = convert(options_);
    if (!result.ok() && format_ == "auto" && result.status().code() == StatusCode::kNotFound) {
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
  report::Document document = monitor::MakeDocument(stores);
  document.command = name() == "csv2db" ? "monitor csv2db" : std::string(name());
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace msprobe::commands
