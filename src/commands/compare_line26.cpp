// The command line of the 26.x line, `compare -tp TARGET -gp GOLDEN`: its flags and their checks.
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/log.h"
#include "src/commands/compare_command.h"

namespace msprobe::commands {
namespace {

constexpr const char* kGroup = "With -tp and -gp (the 26.x command line)";
constexpr std::array<const char*, 5> kModes = {"auto", "atb", "torchair", "offline_data",
                                               "offline_model"};
// Flags that mean something to mode auto alone.
constexpr std::array<const char*, 15> kAutoFlags = {
    "--xlsx",         "--diff_analyze",   "--is_print_compare_log",
    "--rank",         "--step",           "--consistent_check",
    "--backend",      "--module-mapping", "--strict",
    "--postprocess",  "--valid-rows",     "--fuzzy_match",
    "--data_mapping", "--cell_mapping",   "--api_mapping"};
// Of those, the ones that the older command line does not have.
constexpr size_t kNewFlagCount = 11;

constexpr const char* kCalibrationFile = "right_matmul.yaml";

}  // namespace

void CompareCommand::ConfigureLine26(CLI::App& app) {
  const auto option = [&](const std::string& flag, auto& variable, const std::string& text) {
    return app.add_option(flag, variable, text)->group(kGroup);
  };
  const auto flag = [&](const std::string& name, bool& variable, const std::string& text) {
    app.add_flag(name, variable, text)->group(kGroup);
  };
  option("--target_path", target_path_, "The dump under test (also -tp)")->type_name("PATH");
  option("--golden_path", golden_path_, "The dump that is right (also -gp)")->type_name("PATH");
  option("-m,--mode", mode_, "Kind of dumps: auto (default), atb; others are refused with a reason")
      ->type_name("MODE")
      ->check(CLI::IsMember(std::vector<std::string>(kModes.begin(), kModes.end())));
  flag("--xlsx", write_xlsx_, "A workbook instead of csv");
  flag("--diff_analyze", line26_.first_difference,
       "The first call that differs over all ranks, as JSON (also -da)");
  flag("--is_print_compare_log", line26_.log_rows, "Two log lines per row (also -tensor_log)");
  option("--rank", rank_ids_, "MindSpore static-graph kernel dumps: these ranks")
      ->type_name("N,N")
      ->delimiter(',');
  option("--step", step_ids_, "MindSpore static-graph kernel dumps: these steps")
      ->type_name("N,N")
      ->delimiter(',');
  flag("--consistent_check", consistent_check_,
       "Training against inference: fused projections and renamed modules pair");
  option("--backend", backend_, "The trainer of --consistent_check: fsdp or megatron")
      ->type_name("NAME")
      ->check(CLI::IsMember({"fsdp", "megatron"}));
  option("--module-mapping", line26_.module_mapping,
         "With --consistent_check: YAML of training module: inference module, besides the built-in "
         "names")
      ->type_name("FILE");
  flag("--strict", line26_.strict,
       "Judge and pair more carefully than the Python tool: see docs/compare.md");
  option("--postprocess", line26_.postprocess,
         "YAML of calibration matrices to multiply tensors with before comparing")
      ->type_name("FILE");
  option("--valid-rows", valid_rows_,
         "Outputs of calls named so are valid in their first rows only; KEYWORD is the argument "
         "whose sum counts them")
      ->type_name("NAME=KEYWORD");
}

Status CompareCommand::RefuseLine26Flags() const {
  if (mode_ != "auto") {
    return UsageError(fmt::format("-m {} needs -tp and -gp", mode_));
  }
  for (const char* flag : std::span(kAutoFlags).first(kNewFlagCount)) {
    if (app_->count(flag) > 0) {
      return UsageError(fmt::format("{} needs the dumps as -tp and -gp", flag))
          .WithHint("msprobe compare -tp TARGET -gp GOLDEN");
    }
  }
  return {};
}

Status CompareCommand::FillLine26() {
  if (mode_ == "torchair" || mode_ == "offline_data" || mode_ == "offline_model") {
    return UnsupportedError(fmt::format("-m {} is not built into this program", mode_))
        .WithHint(mode_ == "offline_model"
                      ? "it runs models with CANN and ONNX Runtime; use the Python tool for it"
                      : "parse the kernel dumps to .npy, then compare the folders");
  }
  if (mode_ == "atb") {
    for (const char* flag : kAutoFlags) {
      if (app_->count(flag) > 0) {
        return UsageError(fmt::format("{} does not belong to -m atb", flag));
      }
    }
  }
  if (app_->count("-s") > 0 || app_->count("-c") > 0) {
    return UsageError("-s and -c belong to the older command line, without -tp and -gp")
        .WithHint("call stacks are shown whenever stack.json lies beside the target's dump.json");
  }
  if (consistent_check_) {
    if (backend_.empty()) {
      return UsageError("--consistent_check needs --backend fsdp or --backend megatron");
    }
    line26_.backend = backend_ == "fsdp" ? analysis::TrainingBackend::kFsdp
                                         : analysis::TrainingBackend::kMegatron;
  }
  for (const std::string& text : valid_rows_) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return UsageError(fmt::format("--valid-rows \"{}\": expected NAME=KEYWORD", text))
          .WithHint("for example --valid-rows npu_grouped_matmul=group_list");
    }
    line26_.valid_rows.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
  if (app_->count("--rank") > 0) {
    options_.rank_ids = rank_ids_;
    options_.step_ids = step_ids_;
  }
  std::error_code error;
  line26_.statistics_only =
      line26_.first_difference && std::filesystem::is_directory(target_path_, error);
  if (line26_.postprocess.empty() && std::filesystem::exists(kCalibrationFile, error)) {
    // The Python tool reads a file of this name from its own installation.
    line26_.postprocess = kCalibrationFile;
    base::LogInfo(fmt::format("{} of this folder is used; --postprocess none leaves it out",
                              kCalibrationFile));
  } else if (line26_.postprocess == "none") {
    line26_.postprocess.clear();
  }
  line26_.atb = mode_ == "atb";
  options_.line26 = line26_;
  options_.write_xlsx = write_xlsx_ || line26_.atb;
  options_.write_csv = !options_.write_xlsx;
  return {};
}

}  // namespace msprobe::commands
