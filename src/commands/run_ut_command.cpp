#include "src/commands/run_ut_command.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <stdlib.h>

#include "src/analysis/accuracy/check/document.h"
#include "src/analysis/accuracy/check/check.h"
#include "src/analysis/accuracy/online/online.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/commands/accuracy_flags.h"
#include "src/commands/common_flags.h"
#include "src/commands/run_ut_config.h"
#include "src/commands/stop_signals.h"
#include "src/online/secret.h"

namespace msprobe::commands {
namespace {

namespace accuracy = analysis::accuracy;

constexpr const char* kRunUtNotes =
    R"(Needs a Python with PyTorch (--python); it runs the operators and nothing else. DUMP has level L1 or mix. With task tensor the recorded
inputs are used, with statistics they are drawn between the recorded minima and maxima.

)";

// What the configuration allows, and those who wrote it may not have thought of.
void WarnOfOpenDoors(const online::Endpoint& endpoint) {
  if (endpoint.is_folder()) {
    return;
  }
  if (endpoint.host == "0.0.0.0") {
    base::LogWarning(
        "host is 0.0.0.0: calls are taken on every network of this host; give the one address that "
        "the trainings use");
  }
  if (endpoint.tls_folder.empty()) {
    base::LogWarning(fmt::format(
        "plaintext is allowed: what goes to {} is not encrypted{}", endpoint.text(),
        endpoint.secret == nullptr ? ", and every user of this host can send calls" : ""));
  }
}

}  // namespace

std::string_view RunUtCommand::summary() const {
  return is_multi_ ? "Check every operator of a dump against the CPU, with several workers"
                   : "Check every operator of a dump against the CPU";
}

std::vector<Positional> RunUtCommand::positionals() {
  return {{.name = "DUMP", .fills = &dump_, .help = "dump.json of a rank, or its folder"}};
}

std::vector<Flag> RunUtCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--api-info-file",
       .aliases = {"-api_info"},
       .type = "FILE",
       .fills = &options_.dump,
       .group = Group::kInput,
       .help = "dump.json, instead of DUMP",
       .since = kPython811},
      {.name = "--config-path",
       .aliases = {"-config"},
       .type = "FILE",
       .fills = &config_,
       .group = Group::kInput,
       .help = "Configuration: white_list, black_list, error_data_path; is_online and where the "
               "calls of a running training come from",
       .since = kPython811},
      {.name = "--result-csv-path",
       .aliases = {"-csv_path"},
       .type = "FILE",
       .fills = &options_.resumed_file,
       .group = Group::kInput,
       .help = "Result file of a run that was interrupted: go on with it",
       .since = kPython811},
      {.name = "--filter-api",
       .letter = "-f",
       .fills = &options_.filter,
       .group = Group::kSelection,
       .help = "Leave out calls that are like an earlier one of the same operator",
       .since = kPython811},
  };
  for (Flag& flag : WorkerFlags(options_)) {
    flags.push_back(std::move(flag));
  }
  flags.push_back({.name = "--jit-compile",
                   .letter = "-j",
                   .fills = &options_.jit_compile,
                   .help = "Compile operators of NPUs while running",
                   .since = kPython811});
  if (is_multi_) {
    flags.push_back({.name = "--num-splits",
                     .letter = "-n",
                     .type = "N",
                     .fills = &splits_,
                     .bounds = {.least = 1, .most = 64},
                     .help = "Number of workers, which take the devices of -d in turn",
                     .since = kPython811});
  }
  flags.push_back(StandardVersionFlag(version_));
  flags.push_back(StandardsFileFlag(options_.standards_file));
  flags.push_back({.name = "--strict",
                   .fills = &options_.strict,
                   .help =
                       "Also judge what the Python tool cannot: nested outputs, all integer and "
                       "complex dtypes, gradients of all outputs and keywords, equal inf and NaN"});
  flags.push_back({.name = "--seed-per-operator",
                   .fills = &options_.seed_per_operator,
                   .help =
                       "Draw the inputs of a call from its name alone, so that lists, filters and "
                       "resumed runs do not change them"});
  flags.push_back(
      OutputFolderFlag(options_.output, "Folder for both result files", {"--out_path"}));
  flags.push_back({.name = "--save-error-data",
                   .aliases = {"-save_error_data"},
                   .fills = &options_.save_error_data,
                   .group = Group::kOutput,
                   .help = "Save all tensors of operators that do not pass, as .pt",
                   .since = kPython811});
  flags.push_back(LanguageFlag(language_));
  flags.push_back({.name = "--top",
                   .type = "N",
                   .fills = &worst_,
                   .bounds = {.least = 0, .most = 1000},
                   .group = Group::kOutput,
                   .help = "Number of operators to name, those that differ most first"});
  flags.push_back(ForceFlag());
  AddAnswerFlags(flags, answer_, accuracy::kCheckGateLevels);
  return flags;
}

std::vector<Example> RunUtCommand::examples() const {
  const std::string command = fmt::format("msprobe {}", name_);
  std::vector<Example> examples = {
      {command + " dump/step0/rank/dump.json -o result",
       "which operators of this device differ from the CPU"},
      {fmt::format("msprobe {}{} -api_info dump.json -o result", is_26_ ? "" : "-f pytorch ",
                   name_),
       "the Python tool's command line"},
      {command + " dump.json -csv_path result/accuracy_checking_result_20250101093000.csv",
       "go on with a run that was interrupted"},
      {command + " dump.json --reference my_refs.py --fail-on error",
       "with references for custom operators; exit code 1 if an operator differs"},
      {command + " -config checker.json -d 0 1 -o result",
       "with is_online: check a training while it runs, on two devices"}};
  if (is_multi_) {
    examples.push_back({command + " dump.json -n 8 -d 0 1 2 3", "8 workers on 4 devices"});
  }
  return examples;
}

std::string RunUtCommand::notes() const {
  return kRunUtNotes + FailOnHelp(accuracy::kCheckGateLevels);
}

Result<ExitCode> RunUtCommand::Run(const Context& context) {
  std::optional<OnlineConfig> online;
  if (!config_.empty()) {
    MSP_RETURN_IF_ERROR(
        ReadRunUtConfig(config_, is_26_ ? "acc_check" : "run_ut", options_, online));
  }
  if (online) {
    return RunOnline(*online, context);
  }
  if (dump_.empty() && options_.dump.empty()) {
    return UsageError("Please provide api_info_file for offline run ut.")
        .WithHint(fmt::format("msprobe {} dump.json", name_));
  }
  MSP_RETURN_IF_ERROR(TakePath(dump_, "DUMP", "-api_info", options_.dump));
  MSP_RETURN_IF_ERROR(PrepareChecks(context, options_));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  if (options_.resumed_file.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  }
  TakeFlags(context);
  options_.workers = is_multi_ ? splits_ : 1;
  MSP_ASSIGN_OR_RETURN(const accuracy::Check check, accuracy::Run(options_));
  return GiveAnswer(accuracy::MakeDocument(check, name_), answer_, context);
}

void RunUtCommand::TakeFlags(const Context& context) {
  options_.version = StandardVersionOf(version_);
  options_.english = language_ == "en";
  options_.worst = worst_;
  options_.quiet = context.quiet || answer_.json;
}

Result<ExitCode> RunUtCommand::RunOnline(const OnlineConfig& online, const Context& context) {
  for (const auto& [given, flag] :
       {std::pair{!dump_.empty() || !options_.dump.empty(), "a dump"},
        std::pair{!options_.resumed_file.empty(), "-csv_path"}, std::pair{options_.filter, "-f"},
        std::pair{options_.save_error_data, "-save_error_data"}}) {
    if (given) {
      return UsageError(fmt::format("{} is given, and is_online in {}: calls come from a training",
                                    flag, config_.string()));
    }
  }
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  MSP_RETURN_IF_ERROR(PrepareChecks(context, options_));
  TakeFlags(context);
  WarnOfOpenDoors(online.endpoint);
  ::unsetenv(online::Secret::kVariable);  // read; the workers do not need it
  const StopSignals signals;
  accuracy::OnlineOptions wanted;
  // A worker for each device, or as many as are asked for.
  options_.workers = is_multi_ ? splits_ : options_.device_ids.size();
  wanted.check = options_;
  wanted.endpoint = online.endpoint;
  wanted.ranks = online.ranks;
  wanted.is_stopped = &StopSignals::HaveCome;
  MSP_ASSIGN_OR_RETURN(const accuracy::OnlineCheck check, accuracy::Run(wanted));
  return GiveAnswer(accuracy::MakeDocument(check, name_), answer_, context);
}

}  // namespace msprobe::commands
