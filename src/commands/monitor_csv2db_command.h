// msprobe monitor csv2db: a monitored run or a dump as one SQLite file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/monitor/store/store.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorCsv2dbCommand : public Command {
 public:
  std::string_view name() const override { return "csv2db"; }
  std::string_view alias() const override { return name() == "csv2db" ? "data2db" : ""; }
  std::string_view summary() const override {
    return "Convert a monitored run or a dump to one SQLite file, a trend store";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::monitor::StoreOptions options_;
  std::filesystem::path run_;
  std::string kind_ = "auto";
  std::filesystem::path mapping_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
