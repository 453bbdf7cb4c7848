// msprobe monitor csv2db: a monitored run or a dump as one SQLite file.
#pragma once

#include <filesystem>
#include <string>

#include "src/analysis/monitor/store_file.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorCsv2dbCommand : public Command {
 public:
  std::string_view name() const override { return "csv2db"; }
  std::string_view summary() const override {
    return "Make a trend store, one SQLite file, of the tables or of a dump";
  }
  void Configure(CLI::App& app) override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  monitor::StoreOptions options_;
  std::string format_ = "auto";
  std::filesystem::path mapping_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
