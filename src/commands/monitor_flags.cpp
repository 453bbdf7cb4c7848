#include "src/commands/monitor_flags.h"

#include "src/commands/common_flags.h"

namespace msprobe::commands {

Flag TablesFlag(std::vector<std::string>& tables) {
  return {.name = "--tables",
          .aliases = {"--data_type_list"},
          .type = "LIST",
          .fills = &tables,
          .separator = ',',
          .group = Group::kSelection,
          .help = "Only these tables, such as actv,grad_reduced",
          .default_text = "all"};
}

Flag StatisticsFlag(std::vector<std::string>& statistics) {
  return {.name = "--statistics",
          .aliases = {"--ops"},
          .type = "LIST",
          .fills = &statistics,
          .separator = ',',
          .group = Group::kSelection,
          .help = "Only these statistics, such as norm,max",
          .default_text = "all"};
}

Flag TimeStartFlag(std::string& stamp) {
  return {.name = "--time-start",
          .type = "STAMP",
          .fills = &stamp,
          .group = Group::kSelection,
          .help = "Only folders with this stamp or a later one, such as Nov21_09-58-35",
          .since = kPython811};
}

Flag TimeEndFlag(std::string& stamp) {
  return {.name = "--time-end",
          .type = "STAMP",
          .fills = &stamp,
          .group = Group::kSelection,
          .help = "Only folders with this stamp or an earlier one",
          .since = kPython811};
}

Flag MonitorThreadsFlag(uint64_t& threads) {
  Flag flag = ThreadsFlag(threads);
  flag.aliases = {"--process_num"};
  return flag;
}

}  // namespace msprobe::commands
