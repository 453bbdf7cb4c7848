#include "src/commands/monitor_csv2db_command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/commands/print.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor csv2db --data monitor_output --db store
      store/monitor_data.trend.db: all ranks, tables and statistics
  msprobe monitor csv2db --data monitor_output --db store --micro_step false
      steps as they were, micro steps with the names
  msprobe monitor csv2db --data monitor_output --db store --mapping names.json
      names.json: {"module.module.": "", "encoder": "decoder"}, replaced in this order

sqlite3 store/monitor_data.trend.db 'select step, norm from trend_data where rank = 0 and target_id = 1')";

}  // namespace

void MonitorCsv2dbCommand::Configure(CLI::App& app) {
  app.alias("data2db");
  app.add_option("--data,--monitor_path", options_.run,
                 "What the monitor wrote: folders <stamp>-rank<R>-<id>")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--db", options_.output, "Folder for monitor_data.trend.db")
      ->type_name("DIR")
      ->required();
  app.add_option("--format", format_, "What the data are: auto or monitor")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "monitor"}));
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
  app.footer(kExamples);
}

Result<ExitCode> MonitorCsv2dbCommand::Run(const Context& context) {
  if (!mapping_.empty()) {
    MSP_ASSIGN_OR_RETURN(options_.mapping, monitor::ReadMapping(mapping_));
  }
  MSP_ASSIGN_OR_RETURN(const monitor::StoreResult result, monitor::ConvertToStore(options_));
  for (const std::string& warning : result.warnings) {
    base::LogWarning(warning);
  }
  if (!context.quiet) {
    MSP_RETURN_IF_ERROR(
        Print(fmt::format("{} of {} and {}: {}\n", base::Plural(result.rows, "row"),
                          base::Plural(result.names, "name"), base::Plural(result.ranks, "rank"),
                          result.file.string())));
  }
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
