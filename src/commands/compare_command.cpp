#include "src/commands/compare_command.h"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/analysis/compare/answer.h"
#include "src/analysis/compare/run_compare.h"
#include "src/base/log.h"
#include "src/commands/common_flags.h"
#include "src/commands/compare_config.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe compare npu/step0/rank0/dump.json gpu/step0/rank0/dump.json
      one rank against one rank; the table goes to ./output
  msprobe compare npu_dump gpu_dump -o result --format xlsx,csv
      whole dumps: steps and ranks are paired by number
  msprobe compare npu_dump gpu_dump --format xlsx,html
      the table, and a page for any browser: where it starts, modules, curve of the error, every tensor
  msprobe compare npu_dump gpu_dump --fail-on error --junit compare.xml
      in CI: exit code 1 when a row is red or fails its threshold
  msprobe -f pytorch compare -i compare.json -o out -s -c
      the Python tool's command line

What the screen says first is where the runs part: the first call, in execution order, whose inputs agree and
whose outputs do not, apart from differences that enter with weights or data. "Agree" means equal up to the noise
of the dtype; --rtol and --atol raise that floor.

)";

}  // namespace

void CompareCommand::AddMappingFlag(CLI::App& app, const std::string& flag,
                                    const std::string& description, bool needs_file,
                                    MappingArgument& argument) {
  argument.app = &app;
  argument.flag = flag;
  app.add_option(flag, argument.file, description)
      ->type_name("FILE")
      ->expected(needs_file ? 1 : 0, 1);
}

void CompareCommand::Configure(CLI::App& app) {
  app_ = &app;
  app.add_option("NPU_PATH", npu_path_,
                 "The dump under test: a dump.json, a rank, a step or a whole dump folder")
      ->type_name("");
  app.add_option("BENCH_PATH", bench_path_, "The dump that is right, of the same kind")
      ->type_name("");
  app.add_option("-i,--input_path", config_file_,
                 "compare.json naming npu_path and bench_path, instead of two paths")
      ->type_name("FILE");
  AddOutputFlag(app, output_folder_, "Folder for the result files");
  AddFormatFlag(app, formats_, {"xlsx", "csv", "json", "html"});
  app.add_option("--output-name", options_.output_name,
                 "Result file names start with this instead of compare_result")
      ->type_name("NAME");
  app.add_flag("-s,--stack_mode", options_.stack_mode,
               "Show call stacks when compare.json names a stack_path");
  app.add_flag("-c,--compare_only", compare_only_, "Do not write the advisor's text file");
  app.add_flag("-f,--fuzzy_match", options_.fuzzy, "Match rows whatever their call numbers");
  AddMappingFlag(app, "--data_mapping", "YAML of NPU row name: bench row name (also -dm)", true,
                 data_mapping_);
  AddMappingFlag(app, "--cell_mapping",
                 "MindSpore cells to PyTorch modules, YAML or bare (also -cm)", false,
                 cell_mapping_);
  AddMappingFlag(app, "--api_mapping", "MindSpore APIs to PyTorch APIs, YAML or bare (also -am)",
                 false, api_mapping_);
  AddMappingFlag(app, "--layer_mapping",
                 "MindSpore layers to PyTorch layers, YAML or bare (also -lm)", false,
                 layer_mapping_);
  app.add_flag("--layer-frames", options_.layer_mapping_frames,
               "With --layer_mapping: call stacks of the grouped stack.json tell calls apart, too");
  app.add_option("--filter", options_.name_filter,
                 "Only NPU rows whose name matches, e.g. 'Module.*.output.*'")
      ->type_name("GLOB");
  app.add_flag("--only-diff", options_.only_different,
               "Leave rows that agree out of the result files");
  app.add_option(
         "--rtol", options_.relative_tolerance,
         "Relative difference that still counts as agreeing (default: the noise of each dtype)")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--atol", options_.absolute_tolerance,
                 "Absolute difference that still counts as agreeing")
      ->type_name("A")
      ->check(CLI::NonNegativeNumber);
  AddAnswerFlags(app, answer_, analysis::kCompareLevels);
  AddForceFlag(app);
  app.add_flag("--allow-truncated", options_.allow_truncated,
               "Compare the complete entries of a file that ends early");
  AddThreadsFlag(app, options_.threads);
  ConfigureLine26(app);
  app.footer(kExamples + FailOnHelp(analysis::kCompareLevels) +
             "\nEvery level also fails where less than half of a side could be compared.");
}

analysis::MappingFlag CompareCommand::ToMappingFlag(const MappingArgument& argument) {
  return {argument.app->count(argument.flag) > 0, argument.file};
}

Status CompareCommand::FillOptions(const Context& context) {
  options_.quiet = context.quiet;
  options_.framework = context.framework == "pytorch"     ? analysis::Framework::kPyTorch
                       : context.framework == "mindspore" ? analysis::Framework::kMindSpore
                                                          : analysis::Framework::kUnknown;
  const size_t ways = (config_file_.empty() ? 0U : 1U) + (npu_path_.empty() ? 0U : 1U) +
                      (target_path_.empty() && golden_path_.empty() ? 0U : 1U);
  if (ways != 1) {
    return UsageError(ways == 0 ? "nothing to compare" : "the dumps are named in more than one way")
        .WithHint("msprobe compare NPU_PATH BENCH_PATH, or -i compare.json");
  }
  if (!config_file_.empty()) {
    MSP_RETURN_IF_ERROR(ReadCompareConfig(config_file_, options_));
  } else if (!npu_path_.empty()) {
    if (bench_path_.empty()) {
      return UsageError(fmt::format("only one dump is named: {}", npu_path_.string()))
          .WithHint("msprobe compare NPU_PATH BENCH_PATH");
    }
    options_.npu_path = npu_path_;
    options_.bench_path = bench_path_;
  } else {
    if (target_path_.empty() || golden_path_.empty()) {
      return UsageError("--target_path and --golden_path go together");
    }
    options_.npu_path = target_path_;
    options_.bench_path = golden_path_;
    MSP_RETURN_IF_ERROR(FillLine26());
  }
  if (!options_.line26) {
    MSP_RETURN_IF_ERROR(RefuseLine26Flags());
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
  options_.data_mapping = ToMappingFlag(data_mapping_);
  options_.cell_mapping = ToMappingFlag(cell_mapping_);
  options_.api_mapping = ToMappingFlag(api_mapping_);
  options_.layer_mapping = ToMappingFlag(layer_mapping_);
  if (!options_.line26 && options_.framework == analysis::Framework::kPyTorch &&
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
  std::error_code error;
  for (const std::filesystem::path* path : {&options_.npu_path, &options_.bench_path}) {
    if (!std::filesystem::exists(*path, error)) {
      return NotFoundError(fmt::format("{} does not exist", path->string()));
    }
  }
  if (std::filesystem::exists(options_.output_folder, error) &&
      !std::filesystem::is_directory(options_.output_folder, error)) {
    return UsageError(
        fmt::format("the output folder {} is a file", options_.output_folder.string()));
  }
  return {};
}

Result<ExitCode> CompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(FillOptions(context));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_ASSIGN_OR_RETURN(const analysis::CompareRun run, analysis::RunCompare(options_));
  for (const std::string& line : run.log_lines) {
    base::LogInfo(line);
  }
  report::Document document = analysis::MakeDocument(options_, run);
  const ExitCode code = ExitCodeOf(document, answer_);
  MSP_ASSIGN_OR_RETURN(std::filesystem::path summary,
                       analysis::WriteSummary(options_, run, static_cast<int>(code)));
  document.files.push_back({std::move(summary), "summary"});
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace msprobe::commands
