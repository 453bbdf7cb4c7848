// msprobe parse: what an Ascend device dumps below the framework, as arrays.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class ParseCommand final : public Command {
 public:
  ParseCommand();
  std::string_view name() const override { return "parse"; }
  std::string_view summary() const override {
    return "Convert kernel dumps, overflow records and ATB dumps of Ascend to .npy or .pt";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  std::vector<Command*> subcommands() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path dump_;
  std::filesystem::path dump_by_flag_;
  std::string kind_ = "pt";
  std::vector<int64_t> shape_;
  analysis::kernel_dump::Options options_;
  AnswerFlags answer_;
  std::vector<std::unique_ptr<Command>> tools_;
};

}  // namespace msprobe::commands
