// msprobe dump: captures from an unmodified script; checks, shows and repairs what belongs to it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class DumpCommand final : public Command {
 public:
  std::string_view name() const override { return "dump"; }
  std::string_view summary() const override {
    return "Capture what a training or inference script computes";
  }
  void Configure(CLI::App& app) override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Result<ExitCode> Check(const Context& context) const;
  Result<ExitCode> Recover(const Context& context) const;
  Result<ExitCode> Launch(const Context& context) const;
  // The flags that win over the file, as one JSON object; empty when none is given.
  std::string OverridesJson() const;

  std::filesystem::path config_file_;
  std::filesystem::path checked_file_;
  std::filesystem::path recovered_folder_;
  std::string task_;
  std::string level_;
  std::string dump_path_;
  bool replaces_ = false;
  std::vector<std::string> program_;
  bool example_ = false;
  const CLI::App* recover_ = nullptr;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
