// msprobe run_ut, acc_check and, with several workers, multi_run_ut and multi_acc_check: every
// operator of a dump on a device and on the CPU.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/accuracy/check/options.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/run_ut_config.h"

namespace msprobe::commands {

class RunUtCommand final : public Command {
 public:
  // The names that versions of the Python tool gave it; they choose rules and defaults.
  explicit RunUtCommand(std::string_view name)
      : name_(name), is_multi_(name.starts_with("multi_")), is_26_(name.ends_with("acc_check")) {
    version_ = is_26_ ? "26" : "8.1.1";
  }

  std::string_view name() const override { return name_; }
  std::string_view summary() const override;
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  void TakeFlags(const Context& context);
  // Operators of a training while it runs, until it ends or Ctrl-C.
  Result<ExitCode> RunOnline(const OnlineConfig& online, const Context& context);

  const std::string_view name_;
  const bool is_multi_;
  const bool is_26_;
  analysis::accuracy::CheckOptions options_;
  std::filesystem::path dump_;
  std::filesystem::path config_;
  std::string version_;
  std::string language_ = "zh";
  uint64_t splits_ = 8;
  uint64_t worst_ = 10;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
