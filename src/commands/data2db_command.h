// msprobe data2db: monitor csv2db under the name that the Python tool gives it.
#pragma once

#include "src/commands/monitor_csv2db_command.h"

namespace msprobe::commands {

class Data2dbCommand final : public MonitorCsv2dbCommand {
 public:
  std::string_view name() const override { return "data2db"; }
  std::string_view summary() const override { return "Another name of monitor csv2db"; }
  Result<ExitCode> Run(const Context& context) override;
};

}  // namespace msprobe::commands
