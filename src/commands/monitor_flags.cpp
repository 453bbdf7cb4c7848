#include "src/commands/monitor_flags.h"

#include "src/commands/common_flags.h"

namespace msprobe::commands {

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

}  // namespace msprobe::commands
