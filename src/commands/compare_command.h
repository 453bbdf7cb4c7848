// msprobe compare: two dumps of the same model, and where they part.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/compare/options.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class CompareCommand final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Compare two dumps and name the first call where they part";
  }
  void Configure(CLI::App& app) override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  // A mapping flag as typed: absent, bare, or with a file.
  struct MappingArgument {
    CLI::App* app = nullptr;
    std::string flag;
    std::filesystem::path file;
  };
  void AddMappingFlag(CLI::App& app, const std::string& flag, const std::string& description,
                      bool needs_file, MappingArgument& argument);
  static analysis::MappingFlag ToMappingFlag(const MappingArgument& argument);
  Status FillOptions(const Context& context);
  // The command line of the 26.x line: -tp and -gp.
  void ConfigureLine26(CLI::App& app);
  Status FillLine26();
  // Flags of that command line next to another way of naming the dumps.
  Status RefuseLine26Flags() const;
  Status CheckPaths() const;

  analysis::CompareOptions options_;
  std::filesystem::path config_file_;  // -i
  std::filesystem::path npu_path_;
  std::filesystem::path bench_path_;
  std::filesystem::path target_path_;  // -tp
  std::filesystem::path golden_path_;  // -gp
  std::filesystem::path output_folder_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
  bool compare_only_ = false;
  CLI::App* app_ = nullptr;
  std::string mode_ = "auto";  // -m
  analysis::Line26Options line26_;
  bool write_xlsx_ = false;  // --xlsx
  bool consistent_check_ = false;
  std::string backend_;
  std::vector<std::string> valid_rows_;  // NAME=keyword
  std::vector<int64_t> rank_ids_;
  std::vector<int64_t> step_ids_;
  MappingArgument data_mapping_;
  MappingArgument cell_mapping_;
  MappingArgument api_mapping_;
  MappingArgument layer_mapping_;
};

}  // namespace msprobe::commands
