#include "src/commands/config_check_command.h"

#include <algorithm>
#include <iterator>

#include <CLI/CLI.hpp>

#include "src/analysis/config_check/answer.h"
#include "src/analysis/config_check/log_settings.h"
#include "src/base/log.h"
#include "src/commands/ckpt_compare_command.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

namespace config_check = analysis::config_check;

constexpr const char* kExamples = R"(Examples:
  msprobe config_check -d train.sh model.yaml -o npu.zip
      collect this side: environment, Python packages, hyperparameters of scripts and configs
  msprobe config_check -c gpu.zip npu.zip -o result
      compare two packs; the verdict with its remedies on the screen, all rows in result/result.xlsx
  msprobe config_check -c gpu.zip npu.zip --fail-on error
      in CI: exit code 1 when a check fails
  msprobe config_check -c ckpt_gpu ckpt_npu -o similarity.json
      compare two checkpoints, as msprobe ckpt_compare does
  msprobe config_check -vc npu.log gpu.log
      compare the settings that two trainings printed (verl; also Namespace(...), argument dumps)
  msprobe config_check -vv train.log
      hold a verl log against what a comparison needs; -vv REQUIRED.yaml train.log: against yours

Data, weights and random calls are recorded inside of a training script:
  from msprobe.core.config_check import ConfigChecker

A relative difference in the workbook is |bench - cmp| / bench with the sign of bench.

)";

}  // namespace

void ConfigCheckCommand::Configure(CLI::App& app) {
  app_ = &app;
  app.add_option("-d,--dump", inputs_,
                 "Collect a pack; launch scripts (.sh) and configs (.yaml, .yml, .json) may follow")
      ->type_name("FILE ...")
      ->expected(0, CLI::detail::expected_max_vector_size);
  app.add_option("-c,--compare", pair_,
                 "Compare BENCH.zip with CMP.zip, or two checkpoints: the side that is right first")
      ->type_name("BENCH CMP")
      ->expected(2);
  app.add_option("--verl_compare,--verl-compare", logs_,
                 "Compare the settings printed in two training logs, .log or .txt (also -vc)")
      ->type_name("NPU_LOG BENCH_LOG")
      ->expected(2);
  app.add_option("--verl_verify,--verl-verify", verify_,
                 "Hold the settings printed in a training log against requirements, by default "
                 "built-in ones for verl (also -vv)")
      ->type_name("[REQUIRED.yaml] LOG")
      ->expected(1, 2);
  app.add_option("-o,--output", output_,
                 "Pack to write (default: ./config_check_pack.zip), folder of the comparison "
                 "(./config_check_result, ./verl_param_compare_result, ./verl_param_verify_result) "
                 "or json of compared checkpoints (./ckpt_similarity.json)")
      ->type_name("PATH");
  AddForceFlag(app);
  AddFormatFlag(app, formats_, {"xlsx", "json", "html"});
  AddAnswerFlags(app, answer_, config_check::kGateLevels);
  app.add_flag("--normalize-env", compare_.check.normalize_env,
               "Variables that mean the same are equal: 0, false, off and not set");
  app.add_flag("--normalize-pip", compare_.check.normalize_pip,
               "Package names in any spelling, versions with '=' inside");
  app.add_flag("--ignore-collector-env", compare_.check.ignore_collector_env,
               "Leave out the two variables that the Python tool sets while it collects");
  app.add_option("--python", collect_.python,
                 "Interpreter whose packages are collected (default: python3 on the PATH)")
      ->type_name("PATH");
  app.add_option("--dynamic", collect_.dynamic,
                 "JSON object with parameters of the running program, as ConfigChecker gives them")
      ->type_name("FILE");
  app.add_flag("--compat", compat_, "Every quirk of the Python tool, see docs/config_check.md");
  app.footer(kExamples + FailOnHelp(config_check::kGateLevels));
}

Result<ExitCode> ConfigCheckCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  const bool collects = app_->count("--dump") > 0;
  const bool compares = app_->count("--compare") > 0;
  const bool reads_logs = !logs_.empty() || !verify_.empty();
  if (!collects && !compares && !reads_logs) {
    return UsageError("nothing to do")
        .WithHint("config_check -d SCRIPT collects a pack, -c BENCH.zip CMP.zip compares two");
  }
  if (reads_logs) {
    if (collects || compares || (!logs_.empty() && !verify_.empty())) {
      return UsageError("-d, -c, -vc and -vv cannot be combined");
    }
    return RunLogSettings(context);
  }
  if (collects) {
    if (compares) {
      base::LogWarning("-d and -c are given: collecting, -c is left out");
    }
    return RunCollect(context);
  }
  // Checkpoints may be zips, too (.pt): what a pack is, its members tell.
  const bool packs = pair_[0].string().ends_with("zip") || config_check::LooksLikePack(pair_[0]);
  return packs ? RunComparePacks(context) : RunCompareCheckpoints(context);
}

Result<ExitCode> ConfigCheckCommand::RunComparePacks(const Context& context) {
  compare_.bench_pack = pair_[0];
  compare_.cmp_pack = pair_[1];
  if (!output_.empty()) {
    compare_.output_folder = output_;
  }
  if (!formats_.empty()) {
    compare_.write_xlsx = Wants("xlsx");
    compare_.write_json = Wants("json");
  }
  compare_.check.framework = context.framework;
  compare_.check.compat = compat_;
  OwnForms own;
  if (Wants("html")) {
    own.page = compare_.output_folder / "result.html";
    MSP_RETURN_IF_ERROR(CheckPage(own.page));
  }
  MSP_ASSIGN_OR_RETURN(const config_check::CompareRun run, config_check::ComparePacks(compare_));
  return GiveAnswer(config_check::MakeDocument(run), answer_, context, own);
}

Result<ExitCode> ConfigCheckCommand::RunLogSettings(const Context& context) {
  const bool compares = !logs_.empty();
  config_check::LogSettingsOptions options;
  options.second = compares ? logs_[1] : verify_.back();
  if (compares) {
    options.first = logs_[0];
  } else if (verify_.size() == 2) {
    options.first = verify_[0];
  }
  options.output_folder = !output_.empty() ? output_
                          : compares       ? "./verl_param_compare_result"
                                           : "./verl_param_verify_result";
  OwnForms own;
  if (Wants("html")) {
    own.page = options.output_folder /
               (compares ? "hyper_params_compare.html" : "hyper_params_verify.html");
    MSP_RETURN_IF_ERROR(CheckPage(own.page));
  }
  MSP_ASSIGN_OR_RETURN(const config_check::LogSettingsRun run,
                       compares ? config_check::CompareLogSettings(options)
                                : config_check::VerifyLogSettings(options));
  return GiveAnswer(config_check::MakeDocument(run), answer_, context, own);
}

bool ConfigCheckCommand::Wants(std::string_view format) const {
  return std::find(formats_.begin(), formats_.end(), format) != formats_.end();
}

Result<ExitCode> ConfigCheckCommand::RunCompareCheckpoints(const Context& context) {
  analysis::ckpt::Options options;
  options.path_a = pair_[0];
  options.path_b = pair_[1];
  if (!output_.empty()) {
    options.output = output_;
  }
  options.open.compatible_merge = compat_;
  options.float32_figures = true;
  options.open.allow_missing_ranks = true;  // scripts written for the Python tool count on it
  options.write_xlsx = Wants("xlsx");
  options.write_json = Wants("json");
  options.write_html = Wants("html");
  options.quiet = context.quiet;
  // The words of this command, in the words of that one.
  AnswerFlags flags = answer_;
  std::replace(flags.fail_on.begin(), flags.fail_on.end(), std::string("warning"),
               std::string("different"));
  return CompareCheckpoints(options, flags, context);
}

Result<ExitCode> ConfigCheckCommand::RunCollect(const Context& context) {
  // A bare -d arrives as one empty path.
  std::copy_if(inputs_.begin(), inputs_.end(), std::back_inserter(collect_.inputs),
               [](const std::filesystem::path& path) { return !path.empty(); });
  collect_.compat = compat_;
  if (!output_.empty()) {
    collect_.output = output_;
  }
  MSP_ASSIGN_OR_RETURN(const config_check::CollectSummary summary, config_check::Collect(collect_));
  return GiveAnswer(config_check::MakeDocument(summary), answer_, context);
}

}  // namespace msprobe::commands
