// The command line of the 26.x line, `compare -tp TARGET -gp GOLDEN`: its flags and their checks.
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_document.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/commands/compare_command.h"

namespace msprobe::commands {
namespace {

// Flags that mean something to mode auto alone.
constexpr std::array<std::string_view, 15> kAutoFlags = {
    "--xlsx",         "--diff-analyze",   "--is-print-compare-log",
    "--rank",         "--step",           "--consistent-check",
    "--backend",      "--module-mapping", "--strict",
    "--postprocess",  "--valid-rows",     "--fuzzy-match",
    "--data-mapping", "--cell-mapping",   "--api-mapping"};
// Of those, the ones that the older command line does not have.
constexpr size_t kNewFlagCount = 11;

constexpr const char* kCalibrationFile = "right_matmul.yaml";

}  // namespace

void CompareCommand::AddLine26Flags(std::vector<Flag>& flags) {
  const std::vector<Flag> rows = {
      {.name = "--target-path",
       .aliases = {"-tp"},
       .type = "PATH",
       .fills = &target_path_,
       .group = Group::kLine26,
       .help = "The dump under test",
       .since = kPython26},
      {.name = "--golden-path",
       .aliases = {"-gp"},
       .type = "PATH",
       .fills = &golden_path_,
       .group = Group::kLine26,
       .help = "Reference dump",
       .since = kPython26},
      {.name = "--mode",
       .letter = "-m",
       .type = "MODE",
       .fills = &mode_,
       .values = {"auto", "atb", "torchair", "offline_data", "offline_model"},
       .group = Group::kLine26,
       .help = "Kind of dumps; offline_model, which runs models, is not supported",
       .since = kPython26},
      {.name = "--xlsx",
       .fills = &write_xlsx_,
       .group = Group::kLine26,
       .help = "Write a workbook instead of csv",
       .since = kPython26},
      {.name = "--diff-analyze",
       .aliases = {"-da"},
       .fills = &line26_.first_difference,
       .group = Group::kLine26,
       .help = "Find the first differing call over all ranks; written as JSON",
       .since = kPython26},
      {.name = "--is-print-compare-log",
       .aliases = {"-tensor_log"},
       .fills = &line26_.log_rows,
       .group = Group::kLine26,
       .help = "Write two log lines per row",
       .since = kPython26},
      {.name = "--rank",
       .type = "N,N",
       .fills = &rank_ids_,
       .separator = ',',
       .group = Group::kLine26,
       .help = "MindSpore static-graph kernel dumps: these ranks; with -m torchair: this one",
       .since = kPython26},
      {.name = "--step",
       .type = "N,N",
       .fills = &step_ids_,
       .separator = ',',
       .group = Group::kLine26,
       .help = "MindSpore static-graph kernel dumps: these steps",
       .since = kPython26},
      {.name = "--consistent-check",
       .fills = &consistent_check_,
       .group = Group::kLine26,
       .help = "Compare training with inference: match fused projections and renamed modules",
       .since = kPython26},
      {.name = "--backend",
       .type = "NAME",
       .fills = &backend_,
       .values = {"fsdp", "megatron"},
       .group = Group::kLine26,
       .help = "The trainer of --consistent-check",
       .since = kPython26},
      {.name = "--module-mapping",
       .type = "FILE",
       .fills = &line26_.module_mapping,
       .group = Group::kLine26,
       .help = "With --consistent-check: YAML file with further lines `training module: inference "
               "module`"},
      {.name = "--strict",
       .fills = &line26_.strict,
       .group = Group::kLine26,
       .help = "Match and judge more strictly than the Python tool: see docs/commands/compare.md"},
      {.name = "--postprocess",
       .type = "FILE",
       .fills = &line26_.postprocess,
       .group = Group::kLine26,
       .help =
           "YAML file with calibration matrices that tensors are multiplied with before comparing"},
      {.name = "--valid-rows",
       .type = "NAME=KEYWORD",
       .fills = &valid_rows_,
       .group = Group::kLine26,
       .help = "Only the first rows of the outputs of calls with this name are valid; KEYWORD is "
               "the argument whose sum is their number"},
  };
  flags.insert(flags.end(), rows.begin(), rows.end());
  struct RuleFlag {
    std::string_view name;
    const char* alias;
    std::filesystem::path* fills;
    const char* help;
  };
  const std::array<RuleFlag, 3> rules = {
      {{"--fusion-rule-file", "-fr", &fusion_rules_.network,
        "With -m offline_data: graph of the compiled model as JSON, which names what its "
        "operators were fused from"},
       {"--quant-fusion-rule-file", "-qfr", &fusion_rules_.quantised,
        "The same of the quantised model"},
       {"--close-fusion-rule-file", "-cfr", &fusion_rules_.reference,
        "The same of the golden model, if it is compiled"}}};
  for (const RuleFlag& rule : rules) {
    flags.push_back({.name = rule.name,
                     .aliases = {rule.alias},
                     .type = "FILE",
                     .fills = rule.fills,
                     .group = Group::kLine26,
                     .help = rule.help,
                     .since = kPython26});
  }
}

Status CompareCommand::RefuseLine26Flags(const Context& context) const {
  if (mode_ != "auto") {
    return UsageError(fmt::format("-m {} needs -tp and -gp", mode_));
  }
  for (const std::string_view flag : std::span(kAutoFlags).first(kNewFlagCount)) {
    if (const auto typed = context.typed.find(flag); typed != context.typed.end()) {
      return UsageError(fmt::format("{} needs the dumps as -tp and -gp", typed->second))
          .WithHint("msprobe compare -tp TARGET -gp GOLDEN");
    }
  }
  return {};
}

Status CompareCommand::FillLine26(const Context& context) {
  if (mode_ == "offline_model") {
    return UnsupportedError("-m offline_model is not built into this program")
        .WithHint(
            "it runs models with CANN and ONNX Runtime; of dumps that exist: -m offline_data");
  }
  if (mode_ != "offline_data" && fusion_rules_.any()) {
    return UsageError("-fr, -qfr and -cfr need -m offline_data");
  }
  if (mode_ != "auto") {
    for (const std::string_view flag : kAutoFlags) {
      const auto typed = context.typed.find(flag);
      if (typed != context.typed.end() && !(mode_ == "torchair" && flag == "--rank")) {
        return UsageError(fmt::format("{} cannot be used with -m {}", typed->second, mode_));
      }
    }
  }
  if (context.Given("--stack-mode") || context.Given("--compare-only")) {
    return UsageError("-s and -c cannot be used with -tp and -gp")
        .WithHint("call stacks are shown whenever stack.json is beside the target's dump.json");
  }
  if (consistent_check_) {
    if (backend_.empty()) {
      return UsageError("--consistent_check needs --backend fsdp or --backend megatron");
    }
    line26_.backend = backend_ == "fsdp" ? analysis::compare::TrainingBackend::kFsdp
                                         : analysis::compare::TrainingBackend::kMegatron;
  }
  for (const std::string& text : valid_rows_) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return UsageError(fmt::format("--valid-rows \"{}\": expected NAME=KEYWORD", text))
          .WithHint("for example --valid-rows npu_grouped_matmul=group_list");
    }
    line26_.valid_rows.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
  if (mode_ == "torchair" && context.Given("--rank")) {
    if (rank_ids_.size() != 1) {
      return UsageError("--rank with -m torchair is one number");
    }
    line26_.torchair_rank = rank_ids_.front();
  } else if (context.Given("--rank")) {
    options_.rank_ids = rank_ids_;
    options_.step_ids = step_ids_;
  }
  line26_.statistics_only = line26_.first_difference && base::IsFolder(target_path_);
  if (line26_.postprocess.empty() && base::Exists(kCalibrationFile)) {
    // The Python tool reads a file of this name from its own installation.
    line26_.postprocess = kCalibrationFile;
    base::LogInfo(
        fmt::format("using {} of this folder; --postprocess none ignores it", kCalibrationFile));
  } else if (line26_.postprocess == "none") {
    line26_.postprocess.clear();
  }
  line26_.atb = mode_ == "atb";
  line26_.torchair = mode_ == "torchair";
  options_.line26 = line26_;
  options_.write_xlsx = write_xlsx_ || line26_.atb;
  options_.write_csv = !options_.write_xlsx;
  return {};
}

Result<ExitCode> CompareCommand::CompareOfflineData(const Context& context) {
  namespace dumps = analysis::kernel_dump;
  dumps::VectorOptions options;
  options.mine = options_.npu_path;
  options.golden = options_.bench_path;
  options.output = options_.output_folder;
  options.fusion_rules = fusion_rules_;
  options.threads = options_.threads;
  const base::Stopwatch watch;
  MSP_ASSIGN_OR_RETURN(const dumps::VectorFindings findings, dumps::CompareVectors(options));
  report::Document document = dumps::MakeDocument(findings);
  document.command = "compare";
  document.levels = {};
  for (const std::string& word : answer_.fail_on) {
    // Any of compare's levels asks for at least this.
    document.levels.push_back(
        {.word = word, .found = findings.FirstBad() != nullptr || findings.failed() > 0});
  }
  document.seconds = watch.seconds();
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace msprobe::commands
