// msprobe merge_result: one workbook over the comparison results of many ranks.
#pragma once

#include "src/analysis/compare/merge_result.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MergeResultCommand final : public Command {
 public:
  std::string_view name() const override { return "merge_result"; }
  std::string_view summary() const override {
    return "Put the results of many ranks for chosen calls side by side";
  }
  void Configure(CLI::App& app) override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::MergeOptions options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
