#include "src/commands/compare_command.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/document.h"
#include "src/analysis/compare/compare.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/commands/common_flags.h"
#include "src/commands/compare_config.h"
#include "src/commands/compare_repro.h"

namespace msprobe::commands {
namespace {

constexpr const char* kCompareNotes =
    R"(The first line of the output is the first divergence: the first call, in execution order, whose inputs agree and
whose outputs do not, or the weights or data that bring a difference in. "Agree" means equal up to the rounding
noise of the dtype; --rtol and --atol allow more.

)";

}  // namespace

std::vector<Positional> CompareCommand::positionals() {
  return {
      {.name = "NPU_PATH",
       .fills = &npu_path_,
       .help = "The dump under test: a dump.json, a rank, a step or a whole dump folder; or kernel "
               "dumps"},
      {.name = "BENCH_PATH", .fills = &bench_path_, .help = "Reference dump, of the same kind"}};
}

std::vector<Flag> CompareCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--input-path",
       .letter = "-i",
       .type = "FILE",
       .fills = &config_file_,
       .group = Group::kInput,
       .help = "compare.json with npu_path and bench_path, instead of two paths",
       .since = kPython811},
      {.name = "--allow-truncated",
       .fills = &options_.allow_truncated,
       .group = Group::kInput,
       .help = "Compare the complete entries of a truncated file"},
      {.name = "--filter",
       .type = "GLOB",
       .fills = &options_.name_filter,
       .group = Group::kSelection,
       .help = "Only NPU rows whose name matches, e.g. 'Module.*.output.*'"},
      {.name = "--call",
       .type = "NAME",
       .fills = &options_.kernel_call,
       .group = Group::kSelection,
       .help = "Kernel dumps against the dump of a call: the call, if several have such tensors"},
      {.name = "--fuzzy-match",
       .letter = "-f",
       .aliases = {"-fm"},
       .fills = &options_.fuzzy,
       .group = Group::kMethod,
       .help = "Match rows regardless of their call numbers",
       .since = kPython811},
      {.name = "--data-mapping",
       .aliases = {"-dm"},
       .type = "FILE",
       .fills = &options_.data_mapping.file,
       .group = Group::kMethod,
       .help = "YAML file with lines `NPU row name: bench row name`",
       .since = kPython811},
      {.name = "--cell-mapping",
       .aliases = {"-cm"},
       .type = "FILE",
       .fills = &options_.cell_mapping.file,
       .arguments = kOneOrNone,
       .group = Group::kMethod,
       .help = "Map MindSpore cells to PyTorch modules; the YAML file is optional",
       .since = kPython811},
      {.name = "--api-mapping",
       .aliases = {"-am"},
       .type = "FILE",
       .fills = &options_.api_mapping.file,
       .arguments = kOneOrNone,
       .group = Group::kMethod,
       .help = "Map MindSpore APIs to PyTorch APIs; the YAML file is optional",
       .since = kPython811},
      {.name = "--layer-mapping",
       .aliases = {"-lm"},
       .type = "FILE",
       .fills = &options_.layer_mapping.file,
       .arguments = kOneOrNone,
       .group = Group::kMethod,
       .help = "Map MindSpore layers to PyTorch layers; the YAML file is optional",
       .since = kPython811},
      {.name = "--layer-frames",
       .fills = &options_.layer_mapping_frames,
       .group = Group::kMethod,
       .help = "With --layer-mapping: also distinguish calls by the call stacks of a grouped "
               "stack.json"},
      {.name = "--rtol",
       .type = "R",
       .fills = &options_.relative_tolerance,
       .bounds = kNotNegative,
       .group = Group::kMethod,
       .help = "Relative difference up to which values agree",
       .default_text = "the rounding noise of each dtype"},
      {.name = "--atol",
       .type = "A",
       .fills = &options_.absolute_tolerance,
       .bounds = kNotNegative,
       .group = Group::kMethod,
       .help = "Absolute difference up to which values agree"},
      OutputFolderFlag(output_folder_, "Folder for the result files", {"--output_path"}),
      FormatsFlag(formats_, {"xlsx", "csv", "json", "html"}, "xlsx; csv with -tp and -gp"),
      {.name = "--output-name",
       .type = "NAME",
       .fills = &options_.output_name,
       .group = Group::kOutput,
       .help = "Start of the result file names, instead of compare_result"},
      {.name = "--only-diff",
       .fills = &options_.only_different,
       .group = Group::kOutput,
       .help = "Omit rows that agree from the result files"},
      {.name = "--stack-mode",
       .letter = "-s",
       .fills = &options_.stack_mode,
       .group = Group::kOutput,
       .help = "Show call stacks when compare.json names a stack_path",
       .since = kPython811},
      {.name = "--compare-only",
       .letter = "-c",
       .fills = &compare_only_,
       .group = Group::kOutput,
       .help = "Do not write the advisor's text file",
       .since = kPython811},
      {.name = "--repro",
       .type = "DIR",
       .fills = &repro_folder_,
       .group = Group::kOutput,
       .help = "Also write the first diverging call alone to this folder, as msprobe repro does"},
      ForceFlag(),
      ThreadsFlag(options_.threads),
  };
  AddAnswerFlags(flags, answer_, analysis::compare::kGateLevels);
  AddLine26Flags(flags);
  return flags;
}

std::vector<Example> CompareCommand::examples() const {
  return {
      {"msprobe compare npu/step0/rank0/dump.json gpu/step0/rank0/dump.json",
       "one rank against one rank; the table goes to ./output"},
      {"msprobe compare npu_dump gpu_dump -o result --format xlsx,csv",
       "whole dumps: steps and ranks are paired by number"},
      {"msprobe compare npu_dump gpu_dump --format xlsx,html",
       "the table, and a page for any browser: first divergence, modules, error curve, all "
       "tensors"},
      {"msprobe compare npu_dump gpu_dump --fail-on error --junit compare.xml",
       "in CI: exit code 1 if a row is red or fails its threshold"},
      {"msprobe -f pytorch compare -i compare.json -o out -s -c", "the Python tool's command line"},
  };
}

std::string CompareCommand::notes() const {
  return kCompareNotes + FailOnHelp(analysis::compare::kGateLevels) +
         "\nEvery level also fails if less than half of a side could be compared, or a tensor file "
         "could "
         "not be read.";
}

Status CompareCommand::FillOptions(const Context& context) {
  options_.quiet = context.quiet;
  options_.framework = context.framework == "pytorch"     ? analysis::compare::Framework::kPyTorch
                       : context.framework == "mindspore" ? analysis::compare::Framework::kMindSpore
                                                          : analysis::compare::Framework::kUnknown;
  const size_t ways = (config_file_.empty() ? 0U : 1U) + (npu_path_.empty() ? 0U : 1U) +
                      (target_path_.empty() && golden_path_.empty() ? 0U : 1U);
  if (ways != 1) {
    return UsageError(ways == 0 ? "nothing to compare" : "the dumps are given in more than one way")
        .WithHint("msprobe compare NPU_PATH BENCH_PATH, or -i compare.json");
  }
  if (!config_file_.empty()) {
    MSP_RETURN_IF_ERROR(ReadCompareConfig(config_file_, options_));
  } else if (!npu_path_.empty()) {
    if (bench_path_.empty()) {
      return UsageError(fmt::format("only one dump is given: {}", npu_path_.string()))
          .WithHint("msprobe compare NPU_PATH BENCH_PATH");
    }
    options_.npu_path = npu_path_;
    options_.bench_path = bench_path_;
  } else {
    if (target_path_.empty() || golden_path_.empty()) {
      return UsageError("--target_path and --golden_path must be given together");
    }
    options_.npu_path = target_path_;
    options_.bench_path = golden_path_;
    MSP_RETURN_IF_ERROR(FillLine26(context));
  }
  if (!options_.line26) {
    MSP_RETURN_IF_ERROR(RefuseLine26Flags(context));
  }
  options_.advisor = !compare_only_ && !options_.line26;
  if (!output_folder_.empty()) {
    options_.output_folder = output_folder_;
  }
  if (!formats_.empty()) {
    const auto wants = [&](const char* format) {
      return std::find(formats_.begin(), formats_.end(), format) != formats_.end();
    };
    options_.write_xlsx = wants("xlsx");
    options_.write_csv = wants("csv");
    options_.write_json = wants("json");
    options_.write_html = wants("html");
  }
  options_.data_mapping.given = context.Given("--data-mapping");
  options_.cell_mapping.given = context.Given("--cell-mapping");
  options_.api_mapping.given = context.Given("--api-mapping");
  options_.layer_mapping.given = context.Given("--layer-mapping");
  if (!options_.line26 && options_.framework == analysis::compare::Framework::kPyTorch &&
      (options_.cell_mapping.given || options_.api_mapping.given)) {
    return UsageError("cell and api mappings translate MindSpore names; they need -f mindspore");
  }
  if (options_.output_name.find('/') != std::string::npos) {
    return UsageError("--output-name is a file name, not a path")
        .WithHint("name the folder with -o");
  }
  return CheckPaths();
}

// Writing next to the inputs is fine; overwriting them is not.
Status CompareCommand::CheckPaths() const {
  for (const std::filesystem::path* path : {&options_.npu_path, &options_.bench_path}) {
    if (!base::Exists(*path)) {
      return NotFoundError(fmt::format("{} does not exist", path->string()));
    }
  }
  if (base::Exists(options_.output_folder) && !base::IsFolder(options_.output_folder)) {
    return UsageError(
        fmt::format("the output folder {} is a file", options_.output_folder.string()));
  }
  return {};
}

Result<ExitCode> CompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(FillOptions(context));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  if (mode_ == "offline_data") {
    return CompareOfflineData(context);
  }
  if (!repro_folder_.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(repro_folder_));
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(repro_folder_ / "README.md"));
  }
  MSP_ASSIGN_OR_RETURN(const analysis::compare::Comparison run, analysis::compare::Run(options_));
  for (const std::string& line : run.log_lines) {
    base::LogInfo(line);
  }
  report::Document document = analysis::compare::MakeDocument(options_, run);
  const ExitCode code = ExitCodeOf(document, answer_);
  MSP_ASSIGN_OR_RETURN(std::filesystem::path summary,
                       analysis::compare::WriteSummary(options_, run, static_cast<int>(code)));
  document.files.push_back({std::move(summary), "summary"});
  Status written;
  if (!repro_folder_.empty()) {
    written = WriteFirstDivergence(run.summary, repro_folder_, options_.threads, document);
  }
  // The comparison is told in any case, and what could not be written behind it.
  MSP_ASSIGN_OR_RETURN(const ExitCode given, GiveAnswer(std::move(document), answer_, context));
  MSP_RETURN_IF_ERROR(written);
  return given;
}

}  // namespace msprobe::commands
