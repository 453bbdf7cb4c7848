// The accuracy check of operators: run_ut and its other names, run_overflow_check, and
// api_precision_compare, which judges the results of two devices.
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
#include <nlohmann/json.hpp>
#include <stdlib.h>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/check.h"
#include "src/analysis/accuracy/check/document.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/analysis/accuracy/online/online.h"
#include "src/analysis/accuracy/precision_compare/precision_compare.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/launcher.h"
#include "src/dump/layout.h"
#include "src/json/config.h"
#include "src/online/endpoint.h"
#include "src/online/secret.h"

namespace msprobe::commands {
namespace {

namespace accuracy = analysis::accuracy;

// The dumps of all steps and ranks of a folder: one of them is `options.dump`, several are `dumps`.
Status TakeFolder(accuracy::CheckOptions& options) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(options.dump));
  for (const dump::RankFolder& rank : layout.ranks) {
    if (rank.has_dump) {
      std::string name = rank.step ? fmt::format("step {}", *rank.step) : std::string();
      name += rank.rank      ? fmt::format(" rank {}", *rank.rank)
              : rank.process ? fmt::format(" process {}", *rank.process)
                             : std::string();
      options.dumps.push_back({rank.folder / dump::kDumpFileName,
                               rank.folder.lexically_relative(layout.root),
                               std::string(base::Trim(name))});
    }
  }
  if (options.dumps.empty()) {
    return NotFoundError(
        fmt::format("{} holds no {}", base::Printable(options.dump.string()), dump::kDumpFileName));
  }
  if (options.dumps.size() == 1) {
    options.dump = options.dumps.front().dump;
    options.dumps.clear();
  } else if (!options.resumed_file.empty()) {
    return UsageError(fmt::format("-csv_path goes on with one dump, and {} holds {}",
                                  base::Printable(options.dump.string()), options.dumps.size()))
        .WithHint("name the dump.json that the result file is of");
  }
  return {};
}

Flag StandardVersionFlag(accuracy::StandardVersion& version) {
  return Choice(
      "--standard-version", "NAME", &version,
      {{"8.1.1", accuracy::StandardVersion::k811}, {"26", accuracy::StandardVersion::k26}},
      "Version of the Python tool whose rules and limits hold");
}

Flag StandardsFileFlag(std::filesystem::path& file) {
  return Path("--standards", "FILE", &file,
              "JSON with limits and operators that replace built-in ones", Default{"built in"});
}

Flag LanguageFlag(bool& english) {
  return Choice("--lang", "NAME", &english, {{"zh", false}, {"en", true}},
                "Language of column names and messages in the files", FromProject{"lang"},
                Group::kOutput);
}

std::vector<Flag> WorkerFlags(accuracy::CheckOptions& options) {
  return {
      Number("--device -d", "ID", &options.device_ids, "Numbers of the devices", kNotNegative,
             Arguments{1, kUnlimited}, kPython811),
      Choice("--device-type", "NAME", &options.device, {"auto", "npu", "cuda", "cpu"},
             "Kind of the devices; auto: the first of NPU, GPU and CPU that is there"),
      Path("--python", "FILE", &options.pythons,
           "Python that runs the operators: the first interpreter in the list that has PyTorch",
           Default{"python3, or else /usr/bin/python3"}),
      Path("--reference", "FILE", &options.reference_file,
           "Python file with references of custom operators"),
      Number("--time-limit", "SECONDS", &options.time_limit_s,
             "For one call; a slower one loses only that operator's row, and its worker is started "
             "again",
             Between(0.01, 1e6)),
  };
}

Status PrepareChecks(const Context& context, accuracy::CheckOptions& options) {
  options.mindspore = context.framework == "mindspore";
  if (std::set<int64_t>(options.device_ids.begin(), options.device_ids.end()).size() !=
      options.device_ids.size()) {
    return UsageError("-d names a device twice");
  }
  std::error_code failure;
  if (!options.dump.empty() && !base::Exists(options.dump)) {
    return NotFoundError(fmt::format("{} does not exist", base::Printable(options.dump.string())));
  }
  if (base::IsFolder(options.dump)) {
    MSP_RETURN_IF_ERROR(TakeFolder(options));
  }
  if (!options.dump.empty() && options.dumps.empty() && options.dump.extension() != ".json") {
    return UsageError(fmt::format("{} is not a .json file", base::Printable(options.dump.string())))
        .WithHint("give the dump.json of a rank");
  }
  for (std::filesystem::path* path : {&options.reference_file, &options.error_data_folder}) {
    if (!path->empty() && !base::Exists(*path)) {
      return NotFoundError(fmt::format("{} does not exist", base::Printable(path->string())));
    }
  }
  if (!options.reference_file.empty()) {
    options.reference_file = std::filesystem::absolute(options.reference_file, failure);
  }
  // Where no operator can be run nothing is lost without it.
  const Result<std::filesystem::path> folder = FindPythonFolder();
  if (folder.ok()) {
    options.worker_script = *folder / "msprobe" / "_accuracy" / "worker.py";
  } else {
    options.no_worker_script = folder.status().message();
  }
  return {};
}

// Where the operators of a running training come from.
struct OnlineConfig {
  online::Endpoint endpoint;
  std::vector<int64_t> ranks;
};

std::atomic<bool> stop_wanted{false};
struct sigaction earlier_interrupt = {};
struct sigaction earlier_terminate = {};

void RememberStop(int signal) {
  stop_wanted.store(true);
  ::sigaction(signal, signal == SIGINT ? &earlier_interrupt : &earlier_terminate, nullptr);
}

// While it lives, the first SIGINT or SIGTERM asks the check to end with an answer; the second one
// ends the process as always.
class StopSignals {
 public:
  StopSignals() {
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

  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    ::sigaction(SIGINT, &earlier_interrupt, nullptr);
    ::sigaction(SIGTERM, &earlier_terminate, nullptr);
  }

  static bool HaveCome() { return stop_wanted.load(); }
};

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

Status ReadSection(const json::Config& config, const json::Json& object, std::string_view section,
                   bool is_yaml, accuracy::CheckOptions& options,
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
    return ReadSection(config, config.root(), "", true, options, online);
  }
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  if (const json::Json* object = json::Find(config.root(), section); object != nullptr) {
    if (!object->is_object()) {
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

// Warns of access that the configuration allows, perhaps by mistake.
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

class RunUtCommand final : public Command {
 public:
  // The names that versions of the Python tool gave it; they choose rules and defaults.
  explicit RunUtCommand(std::string_view name)
      : Command(name, name.starts_with("multi_")
                          ? "Check every operator of a dump against the CPU, with several workers"
                          : "Check every operator of a dump against the CPU"),
        is_multi_(name.starts_with("multi_")),
        is_26_(name.ends_with("acc_check")) {
    options_.version = is_26_ ? accuracy::StandardVersion::k26 : accuracy::StandardVersion::k811;
  }

  FlagTable flags() override {
    std::vector<Flag> of_several;
    if (is_multi_) {
      of_several = {Number("--num-splits -n", "N", &splits_,
                           "Number of workers, which take the devices of -d in turn",
                           Between(1, 64), kPython811)};
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
        StandardVersionFlag(options_.version),
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
        LanguageFlag(options_.english),
        Number("--top", "N", &options_.worst,
               "Number of operators to name, those that differ most first", Between(0, 1000)),
        ForceFlag(),
        AnswerRows(answer_, accuracy::kCheckGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &options_.dump,
                     "A dump: all its steps and ranks, a step, a rank, or a dump.json",
                     OrFlag{"-api_info"}, kOrNeither)};
  }

  std::vector<Example> examples() const override {
    const std::string command = fmt::format("msprobe {}", name());
    std::vector<Example> examples = {
        {command + " dump -o result",
         "which operators of this device differ from the CPU, in every step and rank of the dump"},
        {command + " dump/step0/rank/dump.json -o result", "of one rank"},
        {fmt::format("msprobe {}{} -api_info dump.json -o result", is_26_ ? "" : "-f pytorch ",
                     name()),
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

  std::string notes() const override {
    return kRunUtNotes + FailOnHelp(accuracy::kCheckGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    std::optional<OnlineConfig> online;
    if (!config_.empty()) {
      MSP_RETURN_IF_ERROR(
          ReadRunUtConfig(config_, is_26_ ? "acc_check" : "run_ut", options_, online));
    }
    if (online) {
      return RunOnline(*online, context);
    }
    if (options_.dump.empty()) {
      return MissingArgument(fmt::format("msprobe {}", name()), "DUMP")
          .WithHint(
              fmt::format("msprobe {0} DUMP, or msprobe {0} -config FILE with is_online", name()));
    }
    MSP_RETURN_IF_ERROR(PrepareChecks(context, options_));
    if (options_.resumed_file.empty()) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    }
    TakeFlags(context);
    options_.workers = is_multi_ ? splits_ : 1;
    MSP_ASSIGN_OR_RETURN(const accuracy::Check check, accuracy::Run(options_));
    return EmitReport(accuracy::MakeDocument(check, name()), answer_, context);
  }

 private:
  void TakeFlags(const Context& context) { options_.quiet = context.quiet || answer_.json; }

  // Operators of a training while it runs, until it ends or Ctrl-C.
  Result<ExitCode> RunOnline(const OnlineConfig& online, const Context& context) {
    for (const auto& [given, flag] :
         {std::pair{!options_.dump.empty(), "a dump"},
          std::pair{!options_.resumed_file.empty(), "-csv_path"}, std::pair{options_.filter, "-f"},
          std::pair{options_.save_error_data, "-save_error_data"}}) {
      if (given) {
        return UsageError(
            fmt::format("{} is given, and is_online in {}: calls come from a training", flag,
                        config_.string()));
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
    return EmitReport(accuracy::MakeDocument(check, name()), answer_, context);
  }

  const bool is_multi_;
  const bool is_26_;
  accuracy::CheckOptions options_;
  std::filesystem::path config_;
  uint64_t splits_ = 8;
  AnswerFlags answer_;
};

constexpr const char* kOverflowNotes =
    R"(Every recorded call is run forward on the device and on the CPU, in the recorded dtypes. An overflow on both sides is normal: the
inputs make it.

)";

// msprobe run_overflow_check: does the CPU overflow where the device did?
class RunOverflowCheckCommand final : public Command {
 public:
  RunOverflowCheckCommand()
      : Command("run_overflow_check",
                "Check whether operators overflow on the CPU as they do on the device") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--api-info-file -api_info", "FILE", &options_.dump, "dump.json, instead of DUMP",
             kPython811),
        Group::kMethod,
        Text("--jit-compile -j", "BOOL", &jit_compile_, "Compile operators of NPUs while running",
             kOneOrNone, Default{"off"}, kPython811),
        WorkerFlags(options_),
        AnswerRows(answer_, accuracy::kOverflowGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &options_.dump,
                     "A dump: all its steps and ranks, a step, a rank, or a dump.json",
                     OrFlag{"-api_info"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe run_overflow_check dump", "which operators overflow on one side only"},
        {"msprobe -f pytorch run_overflow_check -api_info dump.json", "the Python tool's line"}};
  }

  std::string notes() const override {
    return kOverflowNotes + FailOnHelp(accuracy::kOverflowGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(PrepareChecks(context, options_));
    const std::string jit = base::AsciiLower(jit_compile_);
    options_.jit_compile = context.Given("--jit-compile") && jit != "false" && jit != "0";
    options_.quiet = context.quiet || answer_.json;
    MSP_ASSIGN_OR_RETURN(const accuracy::OverflowCheck check, accuracy::RunOverflowCheck(options_));
    return EmitReport(accuracy::MakeDocument(check), answer_, context);
  }

 private:
  accuracy::CheckOptions options_;
  std::string jit_compile_;
  AnswerFlags answer_;
};

constexpr const char* kPrecisionNotes =
    R"(NPU and GPU are accuracy_checking_details_*.csv of `msprobe run_ut` or `acc_check` of the same dump on both devices. An NPU passes
where its errors against the CPU are no larger than those of the GPU, or within the fixed limits of the operator.

)";

// msprobe api_precision_compare: is the NPU as accurate as the GPU, operator by operator?
class ApiPrecisionCompareCommand final : public Command {
 public:
  ApiPrecisionCompareCommand()
      : Command("api_precision_compare",
                "Judge the accuracy of an NPU's operators by that of a GPU's") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--npu-csv-path -npu", "FILE", &options_.npu_file,
             "Details file of the NPU, instead of NPU", kPython811),
        Path("--gpu-csv-path -gpu", "FILE", &options_.gpu_file,
             "Details file of the GPU, instead of GPU", kPython811),
        Group::kMethod,
        StandardVersionFlag(options_.version),
        StandardsFileFlag(options_.standards_file),
        Switch("--strict", &options_.strict,
               "Also judge, and put into the files, what the Python tool leaves out: outputs that "
               "the GPU's file lacks, empty tensors of any shape, cells without a number"),
        OutputFolderFlag(options_.output, "Folder for both result files", {"--out_path"}),
        LanguageFlag(options_.english),
        Group::kOutput,
        Number("--top", "N", &options_.worst,
               "Number of outputs to name, those furthest beyond their limits first",
               Between(0, 1000)),
        ForceFlag(),
        AnswerRows(answer_, accuracy::kPrecisionGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("NPU", &options_.npu_file, "Details file of the NPU", OrFlag{"-npu"}),
            Argument("GPU", &options_.gpu_file, "Details file of the GPU", OrFlag{"-gpu"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe api_precision_compare npu_details.csv gpu_details.csv -o result",
         "which operators of the NPU are less accurate than those of the GPU"},
        {"msprobe -f pytorch api_precision_compare -npu npu_details.csv -gpu gpu_details.csv -o "
         "result",
         "the Python tool's command line"},
        {"msprobe api_precision_compare npu_details.csv gpu_details.csv --standard-version 26 "
         "--fail-on error",
         "by the limits of 26.x; exit code 1 if an operator misses them"},
    };
  }

  std::string notes() const override {
    return kPrecisionNotes + FailOnHelp(accuracy::kPrecisionGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    MSP_ASSIGN_OR_RETURN(const accuracy::PrecisionComparison comparison, accuracy::Run(options_));
    return EmitReport(accuracy::MakeDocument(comparison), answer_, context);
  }

 private:
  accuracy::PrecisionOptions options_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeRunUt(std::string_view name) {
  return std::make_unique<RunUtCommand>(name);
}
std::unique_ptr<Command> MakeRunOverflowCheck() {
  return std::make_unique<RunOverflowCheckCommand>();
}
std::unique_ptr<Command> MakeApiPrecisionCompare() {
  return std::make_unique<ApiPrecisionCompareCommand>();
}

}  // namespace msprobe::commands
