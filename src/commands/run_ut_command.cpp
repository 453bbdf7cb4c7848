#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <stdlib.h>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/check.h"
#include "src/analysis/accuracy/check/document.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/online/online.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/commands/accuracy_flags.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/json/config.h"
#include "src/online/endpoint.h"
#include "src/online/secret.h"

namespace msprobe::commands {
namespace {

// Ctrl-C and termination as a wish to end with an answer, for commands that run until somebody says
// so.

// While it lives, the first SIGINT or SIGTERM is remembered; the second one ends the process as
// always.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  static bool HaveCome();
};

// The configuration file of the accuracy checks.

// Where the operators of a running training come from.
struct OnlineConfig {
  online::Endpoint endpoint;
  std::vector<int64_t> ranks;
};

// msprobe run_ut, acc_check and, with several workers, multi_run_ut and multi_acc_check: every
// operator of a dump on a device and on the CPU.

class RunUtCommand final : public Command {
 public:
  // The names that versions of the Python tool gave it; they choose rules and defaults.
  explicit RunUtCommand(std::string_view name)
      : name_(name), is_multi_(name.starts_with("multi_")), is_26_(name.ends_with("acc_check")) {
    version_ = is_26_ ? "26" : "8.1.1";
  }

  std::string_view name() const override { return name_; }
  std::string_view summary() const override;
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  void TakeFlags(const Context& context);
  // Operators of a training while it runs, until it ends or Ctrl-C.
  Result<ExitCode> RunOnline(const OnlineConfig& online, const Context& context);

  const std::string_view name_;
  const bool is_multi_;
  const bool is_26_;
  analysis::accuracy::CheckOptions options_;
  std::filesystem::path config_;
  std::string version_;
  std::string language_ = "zh";
  uint64_t splits_ = 8;
  uint64_t worst_ = 10;
  AnswerFlags answer_;
};

std::atomic<bool> stop_wanted{false};
struct sigaction earlier_interrupt = {};
struct sigaction earlier_terminate = {};

void RememberStop(int signal) {
  stop_wanted.store(true);
  ::sigaction(signal, signal == SIGINT ? &earlier_interrupt : &earlier_terminate, nullptr);
}

StopSignals::StopSignals() {
  stop_wanted.store(false);
  struct sigaction action = {};
  action.sa_handler = RememberStop;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const auto& [signal, earlier] :
       {std::pair(SIGINT, &earlier_interrupt), std::pair(SIGTERM, &earlier_terminate)}) {
    ::sigaction(signal, nullptr, earlier);
    if (earlier->sa_handler != SIG_IGN) {  // of a job in the background of a script
      ::sigaction(signal, &action, nullptr);
    }
  }
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &earlier_interrupt, nullptr);
  ::sigaction(SIGTERM, &earlier_terminate, nullptr);
}

bool StopSignals::HaveCome() { return stop_wanted.load(); }

namespace accuracy = analysis::accuracy;

constexpr int64_t kMostDecimals = 20;
constexpr int64_t kMostCheckerPort = 65535;

// The keys count only where is_online is true.
Status ReadOnline(const json::Config& config, const json::SettingsReader& settings, bool is_yaml,
                  std::optional<OnlineConfig>& online) {
  bool wanted = false;
  MSP_RETURN_IF_ERROR(settings.Bool("is_online", wanted));
  if (!wanted) {
    return {};
  }
  OnlineConfig& found = online.emplace();
  std::string folder;
  std::string tls_folder = "./";
  std::string secret_file;
  MSP_RETURN_IF_ERROR(settings.Text("nfs_path", folder));
  MSP_RETURN_IF_ERROR(settings.Text("tls_path", tls_folder));
  MSP_RETURN_IF_ERROR(settings.Bool("plaintext", found.endpoint.plaintext));
  MSP_RETURN_IF_ERROR(settings.Text("secret_path", secret_file));
  MSP_RETURN_IF_ERROR(settings.Text("host", found.endpoint.host));
  MSP_RETURN_IF_ERROR(settings.Int("port", -1, kMostCheckerPort, found.endpoint.port));
  if (is_yaml) {
    found.ranks = {0};
  }
  MSP_RETURN_IF_ERROR(settings.NumberSet("rank_list", found.ranks));
  found.endpoint.folder = folder;
  found.endpoint.tls_folder = tls_folder;
  found.endpoint.secret_file = secret_file;
  return online::CheckEndpoint(found.endpoint, online::Side::kChecker).AddContext(config.file);
}

Status ReadSection(const json::Config& config, const json::ConfigValue& object,
                   std::string_view section, bool is_yaml, accuracy::CheckOptions& options,
                   std::optional<OnlineConfig>& online) {
  std::vector<std::string> keys = {
      "white_list", "black_list", "error_data_path", "is_online", "nfs_path",   "host",
      "port",       "rank_list",  "tls_path",        "plaintext", "secret_path"};
  if (is_yaml) {
    keys.insert(keys.end(), {"precision", "quantization_api_list"});
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(object, keys));
  const json::SettingsReader settings(config, object, section);
  MSP_RETURN_IF_ERROR(settings.TextList("white_list", options.white_list));
  MSP_RETURN_IF_ERROR(settings.TextList("black_list", options.black_list));
  std::string folder = options.error_data_folder.string();
  MSP_RETURN_IF_ERROR(settings.Text("error_data_path", folder));
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return UsageError(fmt::format("{}: error_data_path names no folder: {}", config.file,
                                  base::Printable(folder)));
  }
  options.error_data_folder = folder;
  int64_t decimals = options.decimals;
  MSP_RETURN_IF_ERROR(settings.Int("precision", 0, kMostDecimals, decimals));
  options.decimals = static_cast<int>(decimals);
  if (settings.Find("quantization_api_list") != nullptr) {
    MSP_RETURN_IF_ERROR(settings.TextList("quantization_api_list", options.quantised.emplace()));
  }
  return ReadOnline(config, settings, is_yaml, online);
}

// A JSON file with the section `section` ("run_ut", "acc_check"), or a YAML file with the same keys
// at its top. What it sets replaces `options`.
// `online`: with is_online.
Status ReadRunUtConfig(const std::filesystem::path& path, std::string_view section,
                       accuracy::CheckOptions& options, std::optional<OnlineConfig>& online) {
  const std::string ending = base::AsciiLower(path.extension().string());
  if (ending == ".yaml" || ending == ".yml") {
    MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(path));
    return ReadSection(config, config.root, "", true, options, online);
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  if (const json::ConfigValue* object = config.root.Find(section); object != nullptr) {
    if (object->kind != json::ConfigKind::kObject) {
      return config.ErrorAt(*object, section, "must be an object");
    }
    return ReadSection(config, *object, section, false, options, online);
  }
  return {};
}

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

std::string_view RunUtCommand::summary() const {
  return is_multi_ ? "Check every operator of a dump against the CPU, with several workers"
                   : "Check every operator of a dump against the CPU";
}

std::vector<Positional> RunUtCommand::positionals() {
  return {Argument("DUMP", &options_.dump, "dump.json of a rank, or its folder",
                   OrFlag{"-api_info"}, kOrNeither)};
}

FlagTable RunUtCommand::flags() {
  std::vector<Flag> of_several;
  if (is_multi_) {
    of_several = {Number("--num-splits -n", "N", &splits_,
                         "Number of workers, which take the devices of -d in turn", Between(1, 64),
                         kPython811)};
  }
  return {
      Group::kInput,
      Path("--api-info-file -api_info", "FILE", &options_.dump, "dump.json, instead of DUMP",
           kPython811),
      Path("--config-path -config", "FILE", &config_,
           "Configuration: white_list, black_list, error_data_path; is_online and where the "
           "calls of a running training come from",
           kPython811),
      Path("--result-csv-path -csv_path", "FILE", &options_.resumed_file,
           "Result file of a run that was interrupted: go on with it", kPython811),
      Group::kSelection,
      Switch("--filter-api -f", &options_.filter,
             "Leave out calls that are like an earlier one of the same operator", kPython811),
      Group::kMethod,
      WorkerFlags(options_),
      Switch("--jit-compile -j", &options_.jit_compile, "Compile operators of NPUs while running",
             kPython811),
      of_several,
      StandardVersionFlag(version_),
      StandardsFileFlag(options_.standards_file),
      Switch("--strict", &options_.strict,
             "Also judge what the Python tool cannot: nested outputs, all integer and complex "
             "dtypes, gradients of all outputs and keywords, equal inf and NaN"),
      Switch("--seed-per-operator", &options_.seed_per_operator,
             "Draw the inputs of a call from its name alone, so that lists, filters and resumed "
             "runs do not change them"),
      Group::kOutput,
      OutputFolderFlag(options_.output, "Folder for both result files", {"--out_path"}),
      Switch("--save-error-data -save_error_data", &options_.save_error_data,
             "Save all tensors of operators that do not pass, as .pt", kPython811),
      LanguageFlag(language_),
      Number("--top", "N", &worst_, "Number of operators to name, those that differ most first",
             Between(0, 1000)),
      ForceFlag(),
      AnswerRows(answer_, accuracy::kCheckGateLevels),
  };
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
  if (options_.dump.empty()) {
    return UsageError("Please provide api_info_file for offline run ut.")
        .WithHint(fmt::format("msprobe {} dump.json", name_));
  }
  MSP_RETURN_IF_ERROR(PrepareChecks(context, options_));
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
       {std::pair{!options_.dump.empty(), "a dump"},
        std::pair{!options_.resumed_file.empty(), "-csv_path"}, std::pair{options_.filter, "-f"},
        std::pair{options_.save_error_data, "-save_error_data"}}) {
    if (given) {
      return UsageError(fmt::format("{} is given, and is_online in {}: calls come from a training",
                                    flag, config_.string()));
    }
  }
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

}  // namespace

std::unique_ptr<Command> MakeRunUt(std::string_view name) {
  return std::make_unique<RunUtCommand>(name);
}

}  // namespace msprobe::commands
