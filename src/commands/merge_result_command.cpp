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

constexpr const char* kMergeResultNotes = R"(merge.yaml:
    api:                        # calls, by the start of their names
      - Distributed.all_reduce
    compare_index:              # metrics, one sheet each (default: all)
      - Max diff
      - L2norm diff)";

std::vector<Positional> MergeResultCommand::positionals() {
  return {{.name = "RESULTS",
           .fills = &results_,
           .help =
               "Folder with the results of several ranks (compare_result_rank<N>_<time>.xlsx or "
               ".csv)"}};
}

std::vector<Flag> MergeResultCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--input",
       .letter = "-i",
       .aliases = {"--input_dir"},
       .type = "DIR",
       .fills = &options_.input_folder,
       .group = Group::kInput,
       .help = "The same, instead of RESULTS",
       .since = kPython811},
      {.name = "--config",
       .aliases = {"-config", "--config-path"},
       .type = "FILE",
       .fills = &options_.config_file,
       .group = Group::kInput,
       .help = "YAML file with calls and metrics",
       .since = kPython811,
       .required = true},
      {.name = "--output",
       .letter = "-o",
       .aliases = {"--output_dir"},
       .type = "DIR",
       .fills = &options_.output_folder,
       .group = Group::kOutput,
       .help = "Folder for the merged workbook",
       .since = kPython811,
       .required = true},
      ForceFlag(),
      ThreadsFlag(options_.threads),
  };
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> MergeResultCommand::examples() const {
  return {
      {"msprobe merge_result output -o merged --config merge.yaml",
       "one workbook with a sheet per metric and a column per rank"},
  };
}

std::string MergeResultCommand::notes() const { return kMergeResultNotes; }

Result<ExitCode> MergeResultCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(TakePath(results_, "RESULTS", "-i", options_.input_folder));
  MSP_ASSIGN_OR_RETURN(const analysis::compare::merge::Summary run,
                       analysis::compare::merge::Run(options_));
  return GiveAnswer(analysis::compare::merge::MakeDocument(run), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMergeResult() { return std::make_unique<MergeResultCommand>(); }

}  // namespace msprobe::commands
