// msprobe compare: two dumps of the same model, and where they diverge.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/compare/options.h"
#include "src/analysis/kernel_dump/fusion_rules.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class CompareCommand final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Compare two dumps and name the first call that diverges";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status FillOptions(const Context& context);
  // The command line of the 26.x line: -tp and -gp.
  void AddLine26Flags(std::vector<Flag>& flags);
  Status FillLine26(const Context& context);
  // Flags of that command line next to another way of naming the dumps.
  Status RefuseLine26Flags(const Context& context) const;
  Status CheckPaths() const;
  // -m offline_data: kernel dumps by the vendor's measures.
  Result<ExitCode> CompareOfflineData(const Context& context);

  analysis::compare::Options options_;
  std::filesystem::path config_file_;  // -i
  std::filesystem::path npu_path_;
  std::filesystem::path bench_path_;
  std::filesystem::path target_path_;  // -tp
  std::filesystem::path golden_path_;  // -gp
  std::filesystem::path output_folder_ = "./output";
  std::filesystem::path repro_folder_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
  bool compare_only_ = false;
  std::string mode_ = "auto";  // -m
  analysis::compare::Line26Options line26_;
  bool write_xlsx_ = false;  // --xlsx
  bool consistent_check_ = false;
  std::string backend_;
  std::vector<std::string> valid_rows_;  // NAME=keyword
  std::vector<int64_t> rank_ids_;
  std::vector<int64_t> step_ids_;
  analysis::kernel_dump::FusionRuleFiles fusion_rules_;  // of --mode offline_data
};

}  // namespace msprobe::commands
