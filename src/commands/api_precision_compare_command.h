// msprobe api_precision_compare: is the NPU as accurate as the GPU, operator by operator?
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/accuracy/precision_compare/precision_compare.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class ApiPrecisionCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "api_precision_compare"; }
  std::string_view summary() const override {
    return "Judge the accuracy of an NPU's operators by that of a GPU's";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::accuracy::PrecisionOptions options_;
  std::filesystem::path npu_;
  std::filesystem::path gpu_;
  std::string version_ = "8.1.1";
  std::string language_ = "zh";
  uint64_t worst_ = 10;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
