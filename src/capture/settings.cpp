#include "src/capture/settings.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/capture/filters.h"
#include "src/capture/step_folder.h"
#include "src/json/config.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

using json::ConfigKind;
using json::ConfigValue;

struct ForeignKey {
  std::string_view key;
  std::string_view hint;
};
constexpr std::array<ForeignKey, 2> kForeignKeys = {
    {{"seed", "call seed_all(seed=...) in the training script"},
     {"is_deterministic", "call seed_all(mode=True) in the training script"}}};

using Keys = std::vector<std::string>;

const Keys& CommonKeys() {
  static const Keys keys = {"task",
                            "dump_path",
                            "rank",
                            "step",
                            "level",
                            "enable_dataloader",
                            "async_dump",
                            "dump_enable",
                            "risk_level",
                            "custom_op_namespaces",
                            "precision",
                            "api_backward",
                            "repeat",
                            "extra_info",
                            "extended_statistics",
                            "strict_json",
                            "deduplicate",
                            "deduplicate_from_bytes",
                            "writer_memory_bytes",
                            "writer_threads",
                            "max_overhead_ms",
                            "max_bytes_per_s"};
  return keys;
}

// Of any section; they may stand at top level too.
const Keys& TaskKeys() {
  static const Keys keys = {
      "scope",          "list",          "tensor_list",   "data_mode",
      "summary_mode",   "overflow_nums", "slice",         "request_id",
      "bench_path",     "diff_nums",     "online_run_ut", "nfs_path",
      "host",           "port",          "tls_path",      "online_run_ut_recompute",
      "online_wait_ms", "plaintext",     "secret_path"};
  return keys;
}

const Keys& SectionKeys(Task task) {
  static const Keys statistics = {"scope",  "list",      "tensor_list", "data_mode", "summary_mode",
                                  "device", "precision", "slice",       "request_id"};
  static const Keys tensor = {
      "scope",          "list",       "data_mode",  "summary_mode", "slice",
      "request_id",     "bench_path", "diff_nums",  "file_format",  "online_run_ut",
      "nfs_path",       "tls_path",   "host",       "port",         "online_run_ut_recompute",
      "online_wait_ms", "plaintext",  "secret_path"};
  static const Keys overflow = {"overflow_nums", "check_mode", "scope", "list", "data_mode"};
  static const Keys structure = {"scope", "list", "data_mode"};
  static const Keys nan_check = {"scope", "list", "tensor_list", "data_mode"};
  switch (task) {
    case Task::kStatistics:
      return statistics;
    case Task::kTensor:
      return tensor;
    case Task::kOverflowCheck:
      return overflow;
    case Task::kNanCheck:
      return nan_check;
    case Task::kStructure:
      break;
  }
  return structure;
}

Status UnknownKey(const SettingsReader& reader, const ConfigValue& value, std::string_view key,
                  const Keys& valid) {
  for (const ForeignKey& foreign : kForeignKeys) {
    if (foreign.key == key) {
      return reader.Error(value, key, "no such key").WithHint(foreign.hint);
    }
  }
  Status error = reader.Error(value, key, "no such key");
  if (const auto nearest = base::NearestMatch(key, valid)) {
    return std::move(error).WithHint(fmt::format("did you mean \"{}\"?", *nearest));
  }
  return std::move(error).WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
}

// Of the whole file, or of the arguments of a call, which hold no sections.
Status CheckTopLevelKeys(const SettingsReader& reader, const ConfigValue& root,
                         bool sections_allowed) {
  Keys valid = CommonKeys();
  valid.insert(valid.end(), TaskKeys().begin(), TaskKeys().end());
  Keys sections;
  if (sections_allowed) {
    for (const Choice<Task>& task : kTasks) {
      sections.emplace_back(task.name);
    }
    sections.insert(sections.end(), kForeignTasks.begin(), kForeignTasks.end());
  }
  for (const auto& [key, value] : root.members) {
    if (base::IsOneOf(key, sections)) {
      if (value.kind != ConfigKind::kObject && value.kind != ConfigKind::kNull) {
        return reader.Error(value, key,
                            fmt::format("is {}; allowed: an object of keys", ShownValue(value)));
      }
    } else if (!base::IsOneOf(key, valid)) {
      valid.insert(valid.end(), sections.begin(), sections.end());
      return UnknownKey(reader, value, key, valid);
    }
  }
  return {};
}

}  // namespace

Result<GivenConfigs> ReadGivenConfigs(const base::Path& config_path, std::string nameless_file,
                                      std::string_view overrides_json,
                                      std::string_view overrides_name) {
  GivenConfigs given{{std::move(nameless_file), ConfigValue()}, {}};
  given.file.root.kind = ConfigKind::kObject;
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(given.file, json::LoadJsonConfig(config_path));
  }
  MSP_ASSIGN_OR_RETURN(given.overrides,
                       json::ParseJsonConfig(overrides_json.empty() ? "{}" : overrides_json,
                                             std::string(overrides_name)));
  for (const json::Config* config : {&given.file, &given.overrides}) {
    if (config->root.kind != ConfigKind::kObject) {
      return config->ErrorAt(
          config->root, "",
          fmt::format("is {}; allowed: one object of keys", ShownValue(config->root)));
    }
  }
  MSP_RETURN_IF_ERROR(
      CheckTopLevelKeys(SettingsReader(given.file, given.file.root, ""), given.file.root, true));
  MSP_RETURN_IF_ERROR(CheckTopLevelKeys(SettingsReader(given.overrides, given.overrides.root, ""),
                                        given.overrides.root, false));
  return given;
}

Status CheckSectionKeys(const SettingsReader& reader, const ConfigValue& section,
                        const ConfigValue& root, Task task) {
  const Keys& valid = SectionKeys(task);
  for (const auto& [key, value] : section.members) {
    if (!base::IsOneOf(key, valid)) {
      if (base::IsOneOf(key, TaskKeys())) {
        return reader.Error(value, key, fmt::format("has no effect for task {}", TaskName(task)))
            .WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
      }
      if (base::IsOneOf(key, CommonKeys())) {
        return reader.Error(value, key, "no such key").WithHint("it belongs to the top level");
      }
      return UnknownKey(reader, value, key, valid);
    }
    if (const ConfigValue* twin = root.Find(key); twin != nullptr) {
      return reader.Error(value, key,
                          fmt::format("is also given at the top level, in line {}", twin->line));
    }
  }
  return {};
}

Status ReadDumpPath(const SettingsReader& reader, std::string& dump_path) {
  const ConfigValue* value = reader.Find("dump_path");
  MSP_RETURN_IF_ERROR(reader.Text("dump_path", dump_path));
  if (value == nullptr) {
    return {};
  }
  if (dump_path.empty()) {
    return {};  // told when all sources have been read
  }
  if (const Status place = CheckPlace({dump_path, 0, std::nullopt}); !place.ok()) {
    return reader.Error(*value, "dump_path", place.message()).WithHint(place.hint());
  }
  std::error_code ignored;
  if (std::filesystem::exists(dump_path, ignored) &&
      !std::filesystem::is_directory(dump_path, ignored)) {
    return reader.Error(*value, "dump_path",
                        fmt::format("is {}, which is not a directory", ShownValue(*value)));
  }
  return {};
}

namespace {

std::vector<std::string> DataModeWords(const DataMode& mode) {
  std::vector<std::string> words;
  if (mode.forward != mode.backward) {
    words.emplace_back(mode.forward ? "forward" : "backward");
  }
  if (mode.input != mode.output) {
    words.emplace_back(mode.input ? "input" : "output");
  }
  if (words.empty()) {
    words.emplace_back("all");
  }
  return words;
}

}  // namespace

void PutSlices(const std::vector<TensorSlice>& slices, json::Writer& writer) {
  writer.BeginArray();
  for (const TensorSlice& slice : slices) {
    writer.BeginObject();
    writer.Member("dim", slice.dimension);
    if (slice.size) {
      writer.Member("size", *slice.size);
    }
    writer.Member("begin", slice.begin);
    if (slice.end) {
      writer.Member("end", *slice.end);
    }
    writer.EndObject();
  }
  writer.EndArray();
}

std::string SettingsJson(const Settings& settings) {
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  writer.Member("task", TaskName(settings.task));
  writer.Member("level", LevelName(settings.level));
  writer.Member("dump_path", settings.dump_path);
  writer.Member("rank", settings.ranks);
  writer.Member("step", settings.steps);
  writer.Member("async_dump", settings.async_dump);
  writer.Member("enable_dataloader", settings.enable_dataloader);
  if (settings.dump_enable) {
    writer.Member("dump_enable", *settings.dump_enable);
  }
  writer.Member("risk_level", NameOf(kRiskLevels, settings.risk_level));
  writer.Member("custom_op_namespaces", settings.custom_op_namespaces);
  writer.Member("scope", settings.scope);
  writer.Member("list", settings.list);
  writer.Member("tensor_list", settings.tensor_list);
  writer.Member("data_mode", DataModeWords(settings.data_mode));
  writer.Member("summary_mode", NameOf(kSummaryModes, settings.summary_mode));
  writer.Member("overflow_nums", settings.overflow_nums);
  if (settings.searches_differences()) {
    writer.Member("bench_path", settings.bench_path);
    writer.Member("diff_nums", settings.diff_nums);
  }
  if (settings.online) {
    writer.Member("online_run_ut", true);
    writer.Member("nfs_path", settings.online->folder.string());
    writer.Member("host", settings.online->host);
    writer.Member("port", settings.online->port);
    writer.Member("tls_path", settings.online->tls_folder.string());
    writer.Member("plaintext", settings.online->plaintext);
    writer.Member("secret_path", settings.online->secret_file.string());
    writer.Member("online_run_ut_recompute", settings.online_recompute);
    writer.Member("online_wait_ms", settings.online_wait_ms);
  }
  writer.Key("slice");
  PutSlices(settings.slices, writer);
  writer.Member("request_id", settings.request_id);
  writer.Member("precision", NameOf(kPrecisions, settings.precision));
  writer.Member("api_backward", NameOf(kApiBackwards, settings.api_backward));
  if (settings.repeat != 0) {
    writer.Member("repeat", settings.repeat);
  }
  writer.Member("extra_info", settings.extra_info);
  writer.Member("extended_statistics", settings.extended_statistics);
  writer.Member("strict_json", settings.strict_json);
  writer.Member("deduplicate", settings.deduplicate);
  writer.Member("deduplicate_from_bytes", settings.deduplicate_from_bytes);
  writer.Member("writer_memory_bytes", settings.writer_memory_bytes);
  writer.Member("writer_threads", settings.writer_threads);
  if (settings.max_overhead_ms) {
    writer.Member("max_overhead_ms", *settings.max_overhead_ms);
  }
  if (settings.max_bytes_per_s) {
    writer.Member("max_bytes_per_s", *settings.max_bytes_per_s);
  }
  writer.EndObject();
  return text;
}

namespace {

using json::Config;

constexpr int64_t kMostPort = 65535;
constexpr int64_t kMostOnlineWaitMs = 86'400'000;  // a day
constexpr int64_t kLeastWriterMemory = int64_t{1} << 20U;
constexpr int64_t kMostWriterThreads = 64;
constexpr int64_t kMostRepeats = 64;  // as many results of a call are in memory at a time

Status ReadTask(const SettingsReader& reader, Task& task) {
  if (const ConfigValue* value = reader.Find("task")) {
    for (const std::string_view foreign : kForeignTasks) {
      if (value->kind == ConfigKind::kText && value->text == foreign) {
        Status error =
            reader.Error(*value, "task",
                         fmt::format("is \"{}\", which is not supported; allowed: statistics, "
                                     "tensor, structure, overflow_check, nan_check",
                                     foreign));
        return foreign == "free_benchmark"
                   ? std::move(error).WithHint("msprobe free_benchmark -c FILE -- PROGRAM runs it")
                   : error;
      }
    }
  }
  return reader.Choose("task", kTasks, task);
}

Status ReadDataMode(const SettingsReader& reader, DataMode& mode) {
  const ConfigValue* value = reader.Find("data_mode");
  if (value == nullptr) {
    return {};
  }
  constexpr std::string_view kRule =
      "allowed: a list out of \"forward\", \"backward\", \"input\", \"output\", or [\"all\"]";
  std::vector<std::string> words;
  if (const Status status = reader.TextList("data_mode", words); !status.ok() || words.size() > 4) {
    return reader.Error(
        *value, "data_mode",
        fmt::format("is {}; {}", words.size() > 4 ? "a list of more than four" : ShownValue(*value),
                    kRule));
  }
  const auto has = [&](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  for (const std::string& word : words) {
    const bool known = word == "forward" || word == "backward" || word == "input" ||
                       word == "output" || word == "all";
    if (!known || (word == "all" && words.size() > 1)) {
      return reader.Error(*value, "data_mode",
                          fmt::format("holds \"{}\"{}; {}", base::Printable(word),
                                      known ? " beside others" : "", kRule));
    }
  }
  // An axis that is not mentioned means both of its ends.
  const bool direction = has("forward") || has("backward");
  const bool side = has("input") || has("output");
  mode.forward = !direction || has("forward");
  mode.backward = !direction || has("backward");
  mode.input = !side || has("input");
  mode.output = !side || has("output");
  return {};
}

Status ReadScope(const SettingsReader& reader, std::vector<std::string>& scope) {
  MSP_RETURN_IF_ERROR(reader.TextList("scope", scope));
  if (const ConfigValue* value = reader.Find("scope");
      value != nullptr && !scope.empty() && scope.size() != 2) {
    return reader.Error(*value, "scope",
                        fmt::format("has {} {}; allowed: an empty list, or the first and the last "
                                    "full name",
                                    scope.size(), scope.size() == 1 ? "item" : "items"));
  }
  return {};
}

Status ReadSummaryMode(const SettingsReader& reader, SummaryMode& mode) {
  const ConfigValue* value = reader.Find("summary_mode");
  if (value != nullptr && value->kind == ConfigKind::kList) {
    return value->items.empty()
               ? Status()
               : reader.Error(
                     *value, "summary_mode",
                     "is a list, which is for MindSpore's static graphs, and those are not "
                     "captured; allowed: statistics, md5, xor");
  }
  return reader.Choose("summary_mode", kSummaryModes, mode);
}

Status ReadOverflowLimit(const SettingsReader& reader, int64_t& limit) {
  const ConfigValue* value = reader.Find("overflow_nums");
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kInt || value->integer < -1 || value->integer == 0) {
    return reader.Error(
        *value, "overflow_nums",
        fmt::format("is {}; allowed: -1 (never stop) or a number of overflows from 1",
                    ShownValue(*value)));
  }
  limit = value->integer;
  return {};
}

Status ReadSliceItem(const Config& config, const ConfigValue& item, size_t index,
                     TensorSlice& slice) {
  const std::string key = fmt::format("slice item {}", index + 1);
  constexpr std::string_view kRule =
      "allowed: an object of the integers dim and size (0 or more), begin and end";
  if (item.kind != ConfigKind::kObject) {
    return config.ErrorAt(item, key, fmt::format("is {}; {}", ShownValue(item), kRule));
  }
  for (const auto& [name, value] : item.members) {
    const bool known = name == "dim" || name == "size" || name == "begin" || name == "end";
    const bool natural = name == "dim" || name == "size";
    if (value.kind == ConfigKind::kNull && known) {
      continue;
    }
    if (!known || value.kind != ConfigKind::kInt || (natural && value.integer < 0)) {
      return config.ErrorAt(
          value, key,
          known ? fmt::format("{} is {}; {}", name, ShownValue(value), kRule)
                : fmt::format("has no key \"{}\"; {}", base::Printable(name), kRule));
    }
    if (name == "dim") {
      slice.dimension = value.integer;
    } else if (name == "size") {
      slice.size = value.integer;
    } else if (name == "begin") {
      slice.begin = value.integer;
    } else {
      slice.end = value.integer;
    }
  }
  return {};
}

Status ReadSlices(const SettingsReader& reader, const Config& config,
                  std::vector<TensorSlice>& slices) {
  const ConfigValue* value = reader.Find("slice");
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kList) {
    return reader.Error(*value, "slice",
                        fmt::format("is {}; allowed: a list of objects such as "
                                    "{{\"dim\": 0, \"begin\": 0, \"end\": 4}}",
                                    ShownValue(*value)));
  }
  slices.clear();
  for (size_t i = 0; i < value->items.size(); ++i) {
    MSP_RETURN_IF_ERROR(ReadSliceItem(config, value->items[i], i, slices.emplace_back()));
  }
  return {};
}

// How often calls are repeated: never, or often enough for a deviation.
Status ReadRepeat(const SettingsReader& reader, int64_t& repeat) {
  const ConfigValue* value = reader.Find("repeat");
  if (value == nullptr) {
    return {};
  }
  if (value->kind != ConfigKind::kInt ||
      (value->integer != 0 && (value->integer < 2 || value->integer > kMostRepeats))) {
    return reader.Error(*value, "repeat",
                        fmt::format("is {}; allowed: 0 (never), or a number of repetitions from 2 "
                                    "to {}",
                                    ShownValue(*value), kMostRepeats));
  }
  repeat = value->integer;
  return {};
}

// A program that must not wait.
Status ReadBudget(const SettingsReader& reader, Settings& settings) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (const ConfigValue* value = reader.Find("max_overhead_ms")) {
    const bool number = value->kind == ConfigKind::kInt || value->kind == ConfigKind::kFloat;
    if (!number || !(value->number > 0)) {
      return reader.Error(
          *value, "max_overhead_ms",
          fmt::format("is {}; allowed: milliseconds, more than 0", ShownValue(*value)));
    }
    settings.max_overhead_ms = value->number;
  }
  if (reader.Find("max_bytes_per_s") != nullptr) {
    MSP_RETURN_IF_ERROR(
        reader.Int("max_bytes_per_s", 1, kMost, settings.max_bytes_per_s.emplace()));
  }
  return {};
}

// The checker that calls are sent to. The keys count only where online_run_ut is true.
Status ReadOnline(const SettingsReader& reader, Settings& settings) {
  bool wanted = settings.online.has_value();
  MSP_RETURN_IF_ERROR(reader.Bool("online_run_ut", wanted));
  if (!wanted) {
    settings.online.reset();
    return {};
  }
  online::Endpoint endpoint;
  endpoint.tls_folder = "./";
  endpoint = settings.online.value_or(endpoint);
  std::string folder = endpoint.folder.string();
  std::string tls_folder = endpoint.tls_folder.string();
  std::string secret_file = endpoint.secret_file.string();
  MSP_RETURN_IF_ERROR(reader.Text("nfs_path", folder));
  MSP_RETURN_IF_ERROR(reader.Text("tls_path", tls_folder));
  MSP_RETURN_IF_ERROR(reader.Bool("plaintext", endpoint.plaintext));
  MSP_RETURN_IF_ERROR(reader.Text("secret_path", secret_file));
  MSP_RETURN_IF_ERROR(reader.Text("host", endpoint.host));
  MSP_RETURN_IF_ERROR(reader.Int("port", -1, kMostPort, endpoint.port));
  endpoint.folder = folder;
  endpoint.tls_folder = tls_folder;
  endpoint.secret_file = secret_file;
  settings.online = std::move(endpoint);
  MSP_RETURN_IF_ERROR(reader.Bool("online_run_ut_recompute", settings.online_recompute));
  return reader.Int("online_wait_ms", 0, kMostOnlineWaitMs, settings.online_wait_ms);
}

// Keys that a section and the top level share.
Status ReadTaskKeys(const SettingsReader& reader, const Config& config, Settings& settings) {
  MSP_RETURN_IF_ERROR(ReadScope(reader, settings.scope));
  MSP_RETURN_IF_ERROR(reader.TextList("list", settings.list));
  MSP_RETURN_IF_ERROR(reader.TextList("tensor_list", settings.tensor_list));
  MSP_RETURN_IF_ERROR(ReadDataMode(reader, settings.data_mode));
  MSP_RETURN_IF_ERROR(ReadSummaryMode(reader, settings.summary_mode));
  MSP_RETURN_IF_ERROR(reader.Choose("precision", kPrecisions, settings.precision));
  MSP_RETURN_IF_ERROR(ReadSlices(reader, config, settings.slices));
  MSP_RETURN_IF_ERROR(reader.Text("request_id", settings.request_id));
  MSP_RETURN_IF_ERROR(reader.Text("bench_path", settings.bench_path));
  MSP_RETURN_IF_ERROR(ReadOnline(reader, settings));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  MSP_RETURN_IF_ERROR(reader.Int("diff_nums", -1, kMost, settings.diff_nums));
  if (settings.diff_nums == 0) {
    settings.diff_nums = 1;
  }
  return ReadOverflowLimit(reader, settings.overflow_nums);
}

Status ReadTopLevel(const SettingsReader& reader, const Config& config, Settings& settings) {
  MSP_RETURN_IF_ERROR(ReadDumpPath(reader, settings.dump_path));
  MSP_RETURN_IF_ERROR(reader.NumberSet("rank", settings.ranks));
  MSP_RETURN_IF_ERROR(reader.NumberSet("step", settings.steps));
  MSP_RETURN_IF_ERROR(reader.Choose("level", kLevels, settings.level));
  MSP_RETURN_IF_ERROR(reader.Bool("enable_dataloader", settings.enable_dataloader));
  MSP_RETURN_IF_ERROR(reader.Bool("async_dump", settings.async_dump));
  MSP_RETURN_IF_ERROR(reader.Choose("api_backward", kApiBackwards, settings.api_backward));
  MSP_RETURN_IF_ERROR(ReadRepeat(reader, settings.repeat));
  MSP_RETURN_IF_ERROR(reader.Bool("extra_info", settings.extra_info));
  MSP_RETURN_IF_ERROR(reader.Bool("extended_statistics", settings.extended_statistics));
  MSP_RETURN_IF_ERROR(reader.Bool("strict_json", settings.strict_json));
  MSP_RETURN_IF_ERROR(reader.Bool("deduplicate", settings.deduplicate));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  auto from_bytes = static_cast<int64_t>(settings.deduplicate_from_bytes);
  auto memory_bytes = static_cast<int64_t>(settings.writer_memory_bytes);
  MSP_RETURN_IF_ERROR(reader.Int("deduplicate_from_bytes", 0, kMost, from_bytes));
  MSP_RETURN_IF_ERROR(reader.Int("writer_memory_bytes", kLeastWriterMemory, kMost, memory_bytes));
  settings.deduplicate_from_bytes = static_cast<uint64_t>(from_bytes);
  settings.writer_memory_bytes = static_cast<uint64_t>(memory_bytes);
  MSP_RETURN_IF_ERROR(reader.Int("writer_threads", 1, kMostWriterThreads, settings.writer_threads));
  if (reader.Find("dump_enable") != nullptr) {
    MSP_RETURN_IF_ERROR(reader.Bool("dump_enable", settings.dump_enable.emplace()));
  }
  MSP_RETURN_IF_ERROR(reader.Choose("risk_level", kRiskLevels, settings.risk_level));
  MSP_RETURN_IF_ERROR(reader.TextList("custom_op_namespaces", settings.custom_op_namespaces));
  MSP_RETURN_IF_ERROR(ReadBudget(reader, settings));
  return ReadTaskKeys(reader, config, settings);
}

// Keys that only older programs act upon: checked, and named when they ask for something.
Status ReadIdleKeys(const SettingsReader& reader, Settings& settings) {
  constexpr std::array<std::string_view, 2> kDevices = {"host", "device"};
  constexpr std::array<std::string_view, 2> kFormats = {"npy", "bin"};
  constexpr std::array<std::string_view, 3> kCheckModes = {"all", "aicore", "atomic"};
  std::string_view device;
  std::string_view format;
  std::string_view check_mode;
  MSP_RETURN_IF_ERROR(reader.OneOf("device", kDevices, device));
  MSP_RETURN_IF_ERROR(reader.OneOf("file_format", kFormats, format));
  MSP_RETURN_IF_ERROR(reader.OneOf("check_mode", kCheckModes, check_mode));
  const std::initializer_list<std::pair<std::string_view, bool>> given = {
      {"device", device == "device"},
      {"file_format", !format.empty()},
      {"check_mode", !check_mode.empty()}};
  for (const auto& [key, asks] : given) {
    if (asks) {
      settings.warnings.push_back(fmt::format(
          "{}.{} is for MindSpore's static graphs, which are not captured: it has no effect",
          TaskName(settings.task), key));
    }
  }
  return {};
}

Status ReadSection(const Config& file, Settings& settings) {
  const std::string_view name = TaskName(settings.task);
  const ConfigValue* section = file.root.Find(name);
  if (section == nullptr || section->kind == ConfigKind::kNull) {
    return {};
  }
  const SettingsReader reader(file, *section, name);
  MSP_RETURN_IF_ERROR(CheckSectionKeys(reader, *section, file.root, settings.task));
  MSP_RETURN_IF_ERROR(ReadTaskKeys(reader, file, settings));
  return ReadIdleKeys(reader, settings);
}

// L2 captures the kernels of one call. "X.backward" needs "X.forward" too, and is remembered with
// it.
Status CheckKernelLevel(Settings& settings) {
  if (settings.task != Task::kTensor) {
    return UsageError(
        fmt::format("level L2 with task {}; allowed: task tensor", TaskName(settings.task)));
  }
  if (!settings.scope.empty()) {
    return UsageError("level L2 with a scope; allowed: an empty scope, and one name in list");
  }
  constexpr std::string_view kBackward = "backward";
  const auto forward_of = [kBackward](const std::string& name) {
    return name.substr(0, name.size() - kBackward.size()) + "forward";
  };
  const bool pair = settings.list.size() == 2 && settings.list[0].ends_with(kBackward) &&
                    settings.list[1] == forward_of(settings.list[0]);
  if (settings.list.size() != 1 && !pair) {
    return UsageError(
        fmt::format("level L2 with {} names in list; allowed: exactly one", settings.list.size()));
  }
  if (!pair && settings.list[0].ends_with(kBackward)) {
    settings.list.push_back(forward_of(settings.list[0]));
  }
  return {};
}

// Outputs are looked at, as calls are recorded.
Status CheckNanCheck(Settings& settings) {
  if (settings.level == Level::kL2 || settings.level == Level::kDebug) {
    return UsageError(fmt::format("task nan_check at level {}; allowed: level L0, L1 or mix",
                                  LevelName(settings.level)));
  }
  if (!settings.data_mode.output) {
    return UsageError(
        "task nan_check without outputs, which are what it looks at; allowed: a data_mode that "
        "holds \"output\", or neither \"input\" nor \"output\"");
  }
  if (settings.summary_mode != SummaryMode::kStatistics) {
    settings.warnings.emplace_back(
        "summary_mode is ignored: task nan_check records neither statistics nor checksums");
    settings.summary_mode = SummaryMode::kStatistics;
  }
  return {};
}

// A search for differences from an earlier dump.
Status CheckBench(const Settings& settings) {
  constexpr std::string_view kKey = "key \"bench_path\": ";
  if (settings.task != Task::kTensor || settings.summary_mode != SummaryMode::kMd5 ||
      settings.level == Level::kL2 || settings.level == Level::kDebug) {
    return UsageError(
        fmt::format("{}belongs to task tensor with summary_mode md5 at the levels "
                    "L0, L1 and mix, not to task {} with summary_mode {} at level {}",
                    kKey, TaskName(settings.task), NameOf(kSummaryModes, settings.summary_mode),
                    LevelName(settings.level)));
  }
  if (settings.async_dump || settings.has_budget()) {
    return UsageError(
        fmt::format("{}is given beside {}; each call is compared before the next one", kKey,
                    settings.async_dump ? "async_dump" : "max_overhead_ms or max_bytes_per_s"));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(settings.bench_path, error)) {
    return UsageError(fmt::format("{}{} is no folder; allowed: the dump_path of an earlier run",
                                  kKey, settings.bench_path));
  }
  if (std::filesystem::equivalent(settings.bench_path, settings.dump_path, error)) {
    return UsageError(fmt::format("{}is {}, which this run writes to", kKey, settings.bench_path));
  }
  return {};
}

// A checker takes calls of the API with both sides.
Status CheckOnline(Settings& settings) {
  constexpr std::string_view kKey = "key \"online_run_ut\": ";
  if (settings.task != Task::kTensor || settings.framework != Framework::kPyTorch ||
      (settings.level != Level::kL1 && settings.level != Level::kMix)) {
    return UsageError(fmt::format(
        "{}is true for {} at level {} and task {}; allowed: PyTorch, level L1 or mix, task tensor",
        kKey, FrameworkName(settings.framework), LevelName(settings.level),
        TaskName(settings.task)));
  }
  if (settings.searches_differences() || settings.async_dump || !settings.slices.empty() ||
      !settings.request_id.empty()) {
    return UsageError(fmt::format(
        "{}is true beside bench_path, async_dump, slice or request_id; a checker takes whole calls",
        kKey));
  }
  if (Status usable = online::CheckEndpoint(*settings.online, online::Side::kTraining);
      !usable.ok()) {
    return std::move(usable).AddContext("online_run_ut");
  }
  settings.data_mode = DataMode();
  settings.data_mode.backward = false;
  settings.summary_mode = SummaryMode::kStatistics;
  settings.extra_info = false;
  return {};
}

// Calls that are made again for their noise.
Status CheckRepeat(const Settings& settings) {
  constexpr std::string_view kKey = "key \"repeat\": ";
  const bool has_calls = settings.level == Level::kL1 || settings.level == Level::kMix;
  const bool has_values = settings.task == Task::kStatistics || settings.task == Task::kTensor;
  if (settings.framework != Framework::kPyTorch) {
    return UsageError(fmt::format("{}repeats calls of PyTorch, not of {}", kKey,
                                  FrameworkName(settings.framework)));
  }
  if (!has_calls || !has_values) {
    return UsageError(
        fmt::format("{}belongs to the tasks statistics and tensor at the levels L1 and "
                    "mix, not to task {} at level {}",
                    kKey, TaskName(settings.task), LevelName(settings.level)));
  }
  if (settings.online) {
    return UsageError(
        fmt::format("{}is given beside online_run_ut, whose checker runs the calls", kKey));
  }
  if (settings.searches_differences() || settings.has_budget()) {
    return UsageError(fmt::format("{}is given beside {}", kKey,
                                  settings.searches_differences()
                                      ? "bench_path, which compares the calls as they are"
                                      : "max_overhead_ms or max_bytes_per_s, and costs more"));
  }
  return {};
}

Status CheckTogether(Settings& settings) {
  if (settings.dump_path.empty()) {
    return UsageError("key \"dump_path\": is missing or empty; allowed: the folder to write to");
  }
  if (settings.enable_dataloader) {
    settings.warnings.emplace_back(
        "enable_dataloader is obsolete and has no effect: start, stop and step decide what is "
        "recorded");
  }
  if (settings.task == Task::kStructure && settings.level != Level::kL0 &&
      settings.level != Level::kMix) {
    settings.warnings.push_back(fmt::format(
        "task structure needs level L0 or mix, not {}: taken as mix", LevelName(settings.level)));
    settings.level = Level::kMix;
  }
  if (settings.online) {
    MSP_RETURN_IF_ERROR(CheckOnline(settings));
  }
  if (settings.searches_differences()) {
    MSP_RETURN_IF_ERROR(CheckBench(settings));
  }
  if (settings.task == Task::kNanCheck) {
    MSP_RETURN_IF_ERROR(CheckNanCheck(settings));
  }
  if (settings.repeat != 0) {
    MSP_RETURN_IF_ERROR(CheckRepeat(settings));
  }
  const bool has_list = settings.task == Task::kStatistics || settings.task == Task::kNanCheck;
  if (!settings.tensor_list.empty() && (!has_list || settings.level == Level::kDebug)) {
    settings.warnings.push_back(
        fmt::format("tensor_list belongs to the tasks statistics and nan_check at the levels L0, "
                    "L1 and mix, and is ignored for task {} at level {}",
                    TaskName(settings.task), LevelName(settings.level)));
    settings.tensor_list.clear();
  }
  const bool records_tensors = settings.task == Task::kStatistics || settings.task == Task::kTensor;
  if ((!settings.slices.empty() || !settings.request_id.empty()) &&
      (!records_tensors || settings.level == Level::kL2 || settings.level == Level::kDebug)) {
    settings.warnings.push_back(
        fmt::format("slice and request_id belong to the tasks statistics and tensor at the levels "
                    "L0, L1 and mix, and are ignored for task {} at level {}",
                    TaskName(settings.task), LevelName(settings.level)));
    settings.slices.clear();
    settings.request_id.clear();
  }
  if (settings.level == Level::kDebug) {
    // Only what the script saves is recorded, and all of it.
    settings.list.clear();
    settings.scope.clear();
  } else if (settings.async_dump && settings.task == Task::kTensor && settings.list.empty()) {
    return UsageError(
        "key \"list\": is empty, but async_dump keeps all tensors of a step in device memory; name "
        "the calls to capture");
  }
  if (settings.level == Level::kL2) {
    MSP_RETURN_IF_ERROR(CheckKernelLevel(settings));
  }
  return Filters::Create(settings).status();
}

}  // namespace

std::string_view TaskName(Task task) { return NameOf(kTasks, task); }

std::string_view LevelName(Level level) { return NameOf(kLevels, level); }

std::string_view FrameworkName(Framework framework) { return NameOf(kFrameworks, framework); }

Result<Framework> FrameworkOf(std::string_view name) {
  for (const Framework framework :
       {Framework::kPyTorch, Framework::kMindSpore, Framework::kMindTorch}) {
    if (FrameworkName(framework) == name) return framework;
  }
  return UsageError(fmt::format("no framework is called \"{}\"", name))
      .WithHint("pytorch, mindspore, mindtorch");
}

std::string_view RiskLevelName(RiskLevel level) { return NameOf(kRiskLevels, level); }

Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json,
                              Framework framework, std::string_view overrides_name) {
  MSP_ASSIGN_OR_RETURN(
      const GivenConfigs given,
      ReadGivenConfigs(config_path,
                       overrides_json.empty() ? "the defaults" : std::string(overrides_name),
                       overrides_json, overrides_name));
  const Config& file = given.file;
  const Config& overrides = given.overrides;
  const SettingsReader file_reader(file, file.root, "");
  const SettingsReader override_reader(overrides, overrides.root, "");
  Settings settings;
  settings.framework = framework;
  // The section that counts is that of the task that wins.
  MSP_RETURN_IF_ERROR(ReadTask(file_reader, settings.task));
  MSP_RETURN_IF_ERROR(ReadTask(override_reader, settings.task));
  MSP_RETURN_IF_ERROR(ReadTopLevel(file_reader, file, settings));
  MSP_RETURN_IF_ERROR(ReadSection(file, settings));
  MSP_RETURN_IF_ERROR(ReadTopLevel(override_reader, overrides, settings));
  MSP_RETURN_IF_ERROR(CheckTogether(settings), file.file);
  return settings;
}

}  // namespace msprobe::capture
