#include "src/analysis/repro/op_generate.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/analysis/recheck/step_ranks.h"
#include "src/analysis/repro/entry_json.h"
#include "src/analysis/repro/script.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/names.h"
#include "src/json/config.h"
#include "src/json/document.h"

namespace msprobe::resources {
extern const std::string_view kOpScript;           // op_script.py.in
extern const std::string_view kOpMindSporeScript;  // op_script_mindspore.py.in
}  // namespace msprobe::resources

namespace msprobe::analysis::repro {
namespace {

constexpr uint64_t kLargestExtract = uint64_t{1} << 26U;
constexpr int64_t kDefaultSeed = 1234;
constexpr int64_t kMostTimes = 1000;

struct Asked {
  std::filesystem::path dump;  // empty: the API is extracted already
  std::string api;
  std::filesystem::path extracted;
  std::string propagation;
  std::string data_mode;
  int64_t seed = kDefaultSeed;
  int64_t times = 1;
};

Result<int64_t> Integer(const json::Config& config, std::string_view key, int64_t fallback,
                        int64_t least, int64_t most) {
  const json::Json* const value = json::Find(config.root(), key);
  if (value == nullptr || value->is_null()) {
    return fallback;
  }
  if (!value->is_number_integer() || json::IntOf(*value) < least || json::IntOf(*value) > most) {
    return config.ErrorAt(*value, key, fmt::format("must be an integer, {} to {}", least, most));
  }
  return json::IntOf(*value);
}

Result<std::string> OneOf(const json::Config& config, std::string_view key, const char* fallback,
                          const std::array<std::string_view, 2>& words) {
  MSP_ASSIGN_OR_RETURN(std::string word, config.Text(config.root(), key, fallback));
  if (word != words[0] && word != words[1]) {
    const json::Json* const value = json::Find(config.root(), key);
    return config.ErrorAt(value != nullptr ? *value : config.root(), key,
                          fmt::format("must be \"{}\" or \"{}\"", words[0], words[1]));
  }
  return word;
}

Status CheckKind(const json::Config& config, std::string_view api, bool for_mindspore) {
  static constexpr std::array<std::string_view, 3> kPyTorch = {"Functional", "Tensor", "Torch"};
  static constexpr std::array<std::string_view, 4> kMindSpore = {"Functional", "Mint",
                                                                 "MintFunctional", "Tensor"};
  const std::string name = std::string(api) + ".forward";
  const std::string_view kind = dump::ParseEntryName(name).kind;
  if (for_mindspore ? base::IsOneOf(kind, kMindSpore) : base::IsOneOf(kind, kPyTorch)) {
    return OkStatus();
  }
  return config.ErrorAt(*json::Find(config.root(), "api_name"), "api_name",
                        fmt::format("type {} of API is not supported: {}", base::Printable(kind),
                                    for_mindspore ? "Functional, Mint, MintFunctional or Tensor"
                                                  : "Functional, Tensor or Torch"));
}

Result<Asked> ReadConfig(const std::filesystem::path& path, bool for_mindspore) {
  static const std::vector<std::string> kKeys = {"dump_json_path", "api_name",  "extract_api_path",
                                                 "propagation",    "data_mode", "random_seed",
                                                 "iter_times"};
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "the file must hold an object with api_name");
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(config.root(), kKeys));
  Asked asked;
  MSP_ASSIGN_OR_RETURN(const std::string dump, config.Text(config.root(), "dump_json_path", ""));
  asked.dump = dump;
  MSP_ASSIGN_OR_RETURN(asked.api, config.RequiredText(config.root(), "api_name"));
  MSP_ASSIGN_OR_RETURN(const std::string extracted,
                       config.RequiredText(config.root(), "extract_api_path"));
  asked.extracted = extracted;
  MSP_ASSIGN_OR_RETURN(asked.propagation,
                       OneOf(config, "propagation", "forward", {"forward", "backward"}));
  MSP_ASSIGN_OR_RETURN(asked.data_mode,
                       OneOf(config, "data_mode", "random_data", {"random_data", "real_data"}));
  MSP_ASSIGN_OR_RETURN(asked.seed, Integer(config, "random_seed", kDefaultSeed, 0, UINT32_MAX));
  MSP_ASSIGN_OR_RETURN(asked.times, Integer(config, "iter_times", 1, 1, kMostTimes));
  if (asked.data_mode == "real_data") {
    asked.times = 1;  // every one of them would do the same
  }
  MSP_RETURN_IF_ERROR(CheckKind(config, asked.api, for_mindspore));
  return asked;
}

constexpr const char* kNoFile = "-1";

// data_name becomes a path.
void NameFiles(Json& value, const std::filesystem::path& folder) {
  if (!value.is_structured()) {
    return;
  }
  if (IsTensorRecord(value) && value.contains("data_name") && value["data_name"].is_string()) {
    const std::string name = value["data_name"].get<std::string>();
    const bool is_plain = dump::CheckDataName(name).ok();
    value["data_name"] = is_plain ? (folder / name).string() : std::string(kNoFile);
    return;
  }
  for (auto& item : value) {
    NameFiles(item, folder);
  }
}

Result<Json> Extract(const Asked& asked) {
  MSP_ASSIGN_OR_RETURN(const recheck::DumpEntries dump, recheck::DumpEntries::Open(asked.dump));
  Json entries = Json::object();
  for (const char* direction : {".forward", ".backward"}) {
    const std::string name = asked.api + direction;
    if (dump.Has(name)) {
      MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, dump.Read(name), name);
      MSP_ASSIGN_OR_RETURN(entries[name], EntryJson(tree), name);
      NameFiles(entries[name], dump.tensor_folder());
    }
  }
  if (entries.empty()) {
    return NotFoundError(fmt::format("{} has no API {}", asked.dump.string(), asked.api))
        .WithHint("api_name is the name of a call without .forward and .backward; " +
                  dump::NamesLikeHint(asked.api, dump.calls(), asked.dump.string()));
  }
  if (!asked.extracted.parent_path().empty()) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(asked.extracted.parent_path()));
  }
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
      asked.extracted, json::DocumentText(entries, 4, json::Writer::NonFinite::kPython)));
  return entries;
}

Result<Json> ReadExtracted(const Asked& asked) {
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(asked.extracted, kLargestExtract));
  MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, dump::ParseEntry(text),
                       asked.extracted.string());
  MSP_ASSIGN_OR_RETURN(Json entries, EntryJson(tree), asked.extracted.string());
  if (!entries.is_object()) {
    return BadFormatError(fmt::format("{} holds no object", asked.extracted.string()));
  }
  return entries;
}

// An entry with this name that is an object; kNotFound.
Result<Json> EntryOf(const Json& entries, const std::string& name,
                     const std::filesystem::path& where) {
  if (!entries.contains(name) || !entries[name].is_object()) {
    return NotFoundError(fmt::format("{} has no {}", where.string(), name))
        .WithHint("a backward script needs the forward and the backward entry");
  }
  return entries[name];
}

std::string_view StandardName(accuracy::Standard standard) {
  switch (standard) {
    case accuracy::Standard::kAbsolute:
    case accuracy::Standard::kAccumulative:
      return "Absolute Threshold";
    case accuracy::Standard::kBinary:
      return "Binary Consistency";
    case accuracy::Standard::kUlp:
      return "ULP";
    case accuracy::Standard::kThousandth:
      return "Thousandth";
    case accuracy::Standard::kBenchmark:
      break;
  }
  return "Benchmark";
}

Json PerDType(const accuracy::DTypeLimit& limit) {
  return {{"torch.float16", limit.half},
          {"torch.bfloat16", limit.bfloat16},
          {"torch.float32", limit.single}};
}

Json LimitsOf(const accuracy::Limits& limits) {
  return {{"small_value", PerDType(limits.small_value)},
          {"rtol", PerDType(limits.absolute_rtol)},
          {"atol", PerDType(limits.absolute_atol)},
          {"benchmark_atol", PerDType(limits.benchmark_atol)},
          {"ulp", PerDType(limits.ulp_large)},
          {"cosine", limits.status_cosine},
          {"max_abs", limits.status_max_abs},
          {"hundredth", 1 - limits.status_hundredth},
          {"thousandth", 1 - limits.status_thousandth},
          {"ten_thousandth", 1 - limits.status_ten_thousandth}};
}

Json Member(const Json& entry, const char* key, Json otherwise) {
  return entry.contains(key) && entry[key].is_structured() ? entry[key] : std::move(otherwise);
}

}  // namespace

Result<OpGenerateAnswer> OpGenerate(const OpGenerateOptions& options) {
  MSP_ASSIGN_OR_RETURN(const Asked asked, ReadConfig(options.config, options.for_mindspore));
  if (!base::IsFolder(options.output)) {
    return UsageError(fmt::format("the output folder {} does not exist", options.output.string()))
        .WithHint("make it, or name another one with -o");
  }
  const std::string forward_name = asked.api + ".forward";
  const dump::EntryName name = dump::ParseEntryName(forward_name);
  std::string function;
  if (!options.for_mindspore) {
    MSP_ASSIGN_OR_RETURN(function, FunctionOf(forward_name));
  } else if (!name.class_name.empty() || !accuracy::IsKnownMindSporeApi(name.kind, name.subject)) {
    return UnsupportedError(
        fmt::format("{} is none of MindSpore's functions", base::Printable(asked.api)));
  }
  const bool has_dump = !asked.dump.empty();
  const std::filesystem::path script_path =
      options.output / fmt::format("{}.{}.py", asked.api, asked.propagation);
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(script_path));
  MSP_ASSIGN_OR_RETURN(const Json entries, has_dump ? Extract(asked) : ReadExtracted(asked));
  MSP_ASSIGN_OR_RETURN(const Json forward, EntryOf(entries, forward_name, asked.extracted));
  Json gradients = Json::array();
  if (asked.propagation == "backward") {
    MSP_ASSIGN_OR_RETURN(const Json backward,
                         EntryOf(entries, asked.api + ".backward", asked.extracted));
    gradients = Member(backward, "input", Json::array());
  }
  const accuracy::Standards& standards = accuracy::Standards::BuiltIn();
  const std::string api(name.subject);
  std::string script(options.for_mindspore ? resources::kOpMindSporeScript : resources::kOpScript);
  script = base::ReplaceFirst(script, "@CLOSED@", ClosedWorld());
  for (const auto& [mark, text] : {
           std::pair<std::string_view, std::string>("@API@", asked.api),
           {"@API_TEXT@", PythonText(asked.api)},
           {"@KIND_TEXT@", PythonText(name.kind)},
           {"@NAME_TEXT@", PythonText(name.subject)},
           {"@PROPAGATION@", asked.propagation},
           {"@PROPAGATION_TEXT@", PythonText(asked.propagation)},
           {"@DATA_MODE@", PythonText(asked.data_mode)},
           {"@SEED@", std::to_string(asked.seed)},
           {"@TIMES@", std::to_string(asked.times)},
           {"@FUNCTION@", function},
           {"@STANDARD@", PythonText(StandardName(standards.Of(api, "")))},
           {"@LIMITS@", PythonValue(LimitsOf(standards.limits()))},
       }) {
    script = base::ReplaceAll(script, mark, text);
  }
  // Values of the dump come last, the rear ones first: nothing in them is taken for a mark.
  for (const auto& [mark, value] : {
           std::pair<std::string_view, Json>("@GRADIENTS@", gradients),
           {"@KWARGS@", Member(forward, "input_kwargs", Json::object())},
           {"@ARGS@", Member(forward, "input_args", Json::array())},
       }) {
    script = base::ReplaceFirst(script, mark, PythonValue(value));
  }
  OpGenerateAnswer answer;
  answer.api = asked.api;
  answer.propagation = asked.propagation;
  answer.was_extracted = has_dump;
  answer.extracted = asked.extracted;
  answer.script = script_path;
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(answer.script, script));
  return answer;
}

}  // namespace msprobe::analysis::repro
