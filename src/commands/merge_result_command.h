// msprobe merge_result: one workbook over the comparison results of many ranks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/compare/merge/merge_result.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MergeResultCommand final : public Command {
 public:
  std::string_view name() const override { return "merge_result"; }
  std::string_view summary() const override {
    return "Merge compare results of many ranks, for chosen calls";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path results_;
  analysis::compare::merge::Options options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
