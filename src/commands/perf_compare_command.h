// msprobe perf_compare: two profiles of the same training, and why one is slower or uses more
// memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/perf/options.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class PerfCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "perf_compare"; }
  std::string_view summary() const override {
    return "Compare two profiles and name what got slower or uses more memory";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  void AddSelectionFlags(std::vector<Flag>& flags);
  void AddMatchingFlags(std::vector<Flag>& flags);
  void AddOutputFlags(std::vector<Flag>& flags);
  Status TakeSides();
  Status CheckFlags();
  Status CheckSteps();
  Status CheckGates();
  void ChooseComparisons();

  analysis::perf::Options options_;
  std::string profile_;
  std::string reference_;
  // As typed; the Python tool lets values begin with '='.
  std::string comparison_path_;
  std::string base_path_;
  std::filesystem::path output_path_ = "./";
  bool enable_profiling_ = false;
  bool enable_operators_ = false;
  bool enable_memory_ = false;
  bool enable_communication_ = false;
  bool enable_api_ = false;
  bool enable_kernels_ = false;
  bool disable_details_ = false;
  bool disable_modules_ = false;
  std::string name_map_;
  std::string step_;
  std::string base_step_;
  std::string comparison_step_;
  std::string algorithm_ = "legacy";
  std::string collectives_ = "kind";
  std::optional<int64_t> rank_;
  std::vector<std::string> formats_;
  int64_t patience_s_ = 0;
  AnswerFlags answer_;
  size_t top_ = 10;
  double min_difference_us_ = 0;
  bool wants_page_ = false;
  bool debug_ = false;
};

}  // namespace msprobe::commands
