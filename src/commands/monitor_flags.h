// Rows that several commands of the monitor have.
#pragma once

#include <string>
#include <vector>

#include "src/commands/flag.h"

namespace msprobe::commands {

Flag TablesFlag(std::vector<std::string>& tables);
Flag StatisticsFlag(std::vector<std::string>& statistics);
Flag TimeStartFlag(std::string& stamp);
Flag TimeEndFlag(std::string& stamp);

// --threads, as the Python tool calls it, too.
Flag MonitorThreadsFlag(uint64_t& threads);

}  // namespace msprobe::commands
