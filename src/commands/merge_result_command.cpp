#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/compare/merge/merge_result.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe merge_result: one workbook over the comparison results of many ranks.

class MergeResultCommand final : public Command {
 public:
  std::string_view name() const override { return "merge_result"; }
  std::string_view summary() const override {
    return "Merge compare results of many ranks, for chosen calls";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::compare::merge::Options options_;
  AnswerFlags answer_;
};

constexpr const char* kMergeResultNotes = R"(merge.yaml:
    api:                        # calls, by the start of their names
      - Distributed.all_reduce
    compare_index:              # metrics, one sheet each (default: all)
      - Max diff
      - L2norm diff)";

std::vector<Positional> MergeResultCommand::positionals() {
  return {
      Argument("RESULTS", &options_.input_folder,
               "Folder with the results of several ranks (compare_result_rank<N>_<time>.xlsx or "
               ".csv)",
               OrFlag{"-i"})};
}

FlagTable MergeResultCommand::flags() {
  return {
      Group::kInput,
      Path("--input -i --input_dir", "DIR", &options_.input_folder, "The same, instead of RESULTS",
           kPython811),
      Path("--config -config --config-path", "FILE", &options_.config_file,
           "YAML file with calls and metrics", kPython811, kRequired),
      Group::kOutput,
      Path("--output -o --output_dir", "DIR", &options_.output_folder,
           "Folder for the merged workbook", kPython811, kRequired),
      ForceFlag(),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_),
  };
}

std::vector<Example> MergeResultCommand::examples() const {
  return {
      {"msprobe merge_result output -o merged --config merge.yaml",
       "one workbook with a sheet per metric and a column per rank"},
  };
}

std::string MergeResultCommand::notes() const { return kMergeResultNotes; }

Result<ExitCode> MergeResultCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::compare::merge::Summary run,
                       analysis::compare::merge::Run(options_));
  return GiveAnswer(analysis::compare::merge::MakeDocument(run), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMergeResult() { return std::make_unique<MergeResultCommand>(); }

}  // namespace msprobe::commands
