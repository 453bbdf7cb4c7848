// msprobe show: what is in a dump or a file of tensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/inspect/inspect.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class ShowCommand final : public Command {
 public:
  std::string_view name() const override { return "show"; }
  std::string_view summary() const override {
    return "Show what is in a dump, a checkpoint or a tensor file";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  // Rows a screen shows unless --limit says otherwise; files get all rows.
  static constexpr uint64_t kScreenRows = 200;

  Status ChooseFormat(const Context& context);

  analysis::inspect::Options options_;
  std::string format_;  // "table", "csv", "json"; empty: by the output file's name, else table
  std::filesystem::path output_file_;  // empty: stdout
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
