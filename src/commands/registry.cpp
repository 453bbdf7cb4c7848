#include "src/commands/registry.h"

#include "src/commands/ckpt_compare_command.h"
#include "src/commands/compare_command.h"
#include "src/commands/config_check_command.h"
#include "src/commands/data2db_command.h"
#include "src/commands/devices_command.h"
#include "src/commands/dump_command.h"
#include "src/commands/merge_result_command.h"
#include "src/commands/monitor_command.h"
#include "src/commands/nan_analyze_command.h"
#include "src/commands/perf_compare_command.h"
#include "src/commands/rl_compare_command.h"
#include "src/commands/show_command.h"

namespace msprobe::commands {

std::vector<std::unique_ptr<Command>> MakeCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<CkptCompareCommand>());
  commands.push_back(std::make_unique<CompareCommand>());
  commands.push_back(std::make_unique<ConfigCheckCommand>());
  commands.push_back(std::make_unique<Data2dbCommand>());
  commands.push_back(std::make_unique<DevicesCommand>());
  commands.push_back(std::make_unique<DumpCommand>());
  commands.push_back(std::make_unique<MergeResultCommand>());
  commands.push_back(std::make_unique<MonitorCommand>());
  commands.push_back(std::make_unique<NanAnalyzeCommand>("nan_analyze"));
  commands.push_back(std::make_unique<NanAnalyzeCommand>("overflow_check"));
  commands.push_back(std::make_unique<PerfCompareCommand>());
  commands.push_back(std::make_unique<RlCompareCommand>());
  commands.push_back(std::make_unique<ShowCommand>());
  return commands;
}

}  // namespace msprobe::commands
