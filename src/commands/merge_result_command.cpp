#include "src/commands/merge_result_command.h"

#include "src/analysis/compare/merge/merge_result.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kMergeResultNotes = R"(merge.yaml:
    api:                        # calls, by the start of their names
      - Distributed.all_reduce
    compare_index:              # metrics, one sheet each (default: all)
      - Max diff
      - L2norm diff)";

}  // namespace

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

}  // namespace msprobe::commands
