// The settings of a capture: a row per key (Rows) says how it is read and written, in which
// sections it may stand, and at which place messages list it there. LoadSettings reads the file's
// top level, the section of its task and the overrides, in this order, and then checks what belongs
// together.
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
#include <nlohmann/json.hpp>

#include "src/base/strings.h"
#include "src/capture/filters.h"
#include "src/capture/step_folder.h"
#include "src/json/config.h"
#include "src/json/settings_table.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

using json::Choice;
using json::Config;
using json::Json;
using json::NameOf;
using json::SettingsReader;
using json::ShownValue;

constexpr std::array<Choice<SummaryMode>, 3> kSummaryModes = {
    {{"statistics", SummaryMode::kStatistics},
     {"md5", SummaryMode::kMd5},
     {"xor", SummaryMode::kXor}}};
constexpr std::array<Choice<RiskLevel>, 3> kRiskLevels = {
    {{"ALL", RiskLevel::kAll}, {"FOCUS", RiskLevel::kFocus}, {"CORE", RiskLevel::kCore}}};
constexpr std::array<Choice<Precision>, 2> kPrecisions = {
    {{"high", Precision::kHigh}, {"low", Precision::kLow}}};
constexpr std::array<Choice<ApiBackward>, 2> kApiBackwards = {
    {{"last_node", ApiBackward::kLastNode}, {"inputs", ApiBackward::kInputs}}};
// Values of keys that only older programs act upon.
constexpr std::array<std::string_view, 2> kDevices = {"host", "device"};
constexpr std::array<std::string_view, 2> kFormats = {"npy", "bin"};
constexpr std::array<std::string_view, 3> kCheckModes = {"all", "aicore", "atomic"};

// Sections that the capture leaves to those who read them; their task is none that it records.
constexpr std::array<std::string_view, 6> kForeignTasks = {
    "free_benchmark", "run_ut", "grad_probe", "acc_check", "exception_dump", "monitor"};

constexpr int64_t kMostPort = 65535;
constexpr int64_t kMostOnlineWaitMs = 86'400'000;  // a day
constexpr int64_t kLeastWriterMemory = int64_t{1} << 20U;
constexpr int64_t kMostWriterThreads = 64;
constexpr int64_t kMostRepeats = 64;  // as many results of a call are in memory at a time

Status ReadTask(const SettingsReader& reader, Task& task) {
  if (const Json* value = reader.Find("task")) {
    for (const std::string_view foreign : kForeignTasks) {
      if (value->is_string() && json::TextOf(*value) == foreign) {
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

}  // namespace

Status ReadDumpPath(const SettingsReader& reader, std::string_view key, std::string& dump_path) {
  const Json* value = reader.Find(key);
  MSP_RETURN_IF_ERROR(reader.Text(key, dump_path));
  if (value == nullptr || dump_path.empty()) {
    return {};  // a missing one is an error once all sources have been read
  }
  if (const Status place = CheckPlace({dump_path, 0, std::nullopt}); !place.ok()) {
    return reader.Error(*value, key, place.message()).WithHint(place.hint());
  }
  std::error_code ignored;
  if (std::filesystem::exists(dump_path, ignored) &&
      !std::filesystem::is_directory(dump_path, ignored)) {
    return reader.Error(*value, key,
                        fmt::format("is {}, which is not a directory", ShownValue(*value)));
  }
  return {};
}

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

Status ReadDataMode(const SettingsReader& reader, std::string_view key, DataMode& mode) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  constexpr std::string_view kRule =
      "allowed: a list out of \"forward\", \"backward\", \"input\", \"output\", or [\"all\"]";
  std::vector<std::string> words;
  if (const Status status = reader.TextList(key, words); !status.ok() || words.size() > 4) {
    return reader.Error(
        *value, key,
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
      return reader.Error(*value, key,
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

Status ReadScope(const SettingsReader& reader, std::string_view key,
                 std::vector<std::string>& scope) {
  MSP_RETURN_IF_ERROR(reader.TextList(key, scope));
  if (const Json* value = reader.Find(key);
      value != nullptr && !scope.empty() && scope.size() != 2) {
    return reader.Error(*value, key,
                        fmt::format("has {} {}; allowed: an empty list, or the first and the last "
                                    "full name",
                                    scope.size(), scope.size() == 1 ? "item" : "items"));
  }
  return {};
}

Status ReadSummaryMode(const SettingsReader& reader, std::string_view key, SummaryMode& mode) {
  const Json* value = reader.Find(key);
  if (value != nullptr && value->is_array()) {
    return value->empty()
               ? Status()
               : reader.Error(
                     *value, key,
                     "is a list, which is for MindSpore's static graphs, and those are not "
                     "captured; allowed: statistics, md5, xor");
  }
  return reader.Choose(key, kSummaryModes, mode);
}

Status ReadOverflowLimit(const SettingsReader& reader, std::string_view key, int64_t& limit) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_number_integer() || json::IntOf(*value) < -1 || json::IntOf(*value) == 0) {
    return reader.Error(
        *value, key,
        fmt::format("is {}; allowed: -1 (never stop) or a number of overflows from 1",
                    ShownValue(*value)));
  }
  limit = json::IntOf(*value);
  return {};
}

Status ReadSliceItem(const Config& config, const Json& item, size_t index, TensorSlice& slice) {
  const std::string key = fmt::format("slice item {}", index + 1);
  constexpr std::string_view kRule =
      "allowed: an object of the integers dim and size (0 or more), begin and end";
  if (!item.is_object()) {
    return config.ErrorAt(item, key, fmt::format("is {}; {}", ShownValue(item), kRule));
  }
  for (const auto& [name, value] : item.items()) {
    const bool known = name == "dim" || name == "size" || name == "begin" || name == "end";
    const bool natural = name == "dim" || name == "size";
    if (value.is_null() && known) {
      continue;
    }
    if (!known || !value.is_number_integer() || (natural && json::IntOf(value) < 0)) {
      return config.ErrorAt(
          value, key,
          known ? fmt::format("{} is {}; {}", name, ShownValue(value), kRule)
                : fmt::format("has no key \"{}\"; {}", base::Printable(name), kRule));
    }
    if (name == "dim") {
      slice.dimension = json::IntOf(value);
    } else if (name == "size") {
      slice.size = json::IntOf(value);
    } else if (name == "begin") {
      slice.begin = json::IntOf(value);
    } else {
      slice.end = json::IntOf(value);
    }
  }
  return {};
}

Status ReadSlices(const SettingsReader& reader, std::string_view key, Settings& settings) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: a list of objects such as "
                                    "{{\"dim\": 0, \"begin\": 0, \"end\": 4}}",
                                    ShownValue(*value)));
  }
  settings.slices.clear();
  for (size_t i = 0; i < value->size(); ++i) {
    MSP_RETURN_IF_ERROR(
        ReadSliceItem(reader.config(), (*value)[i], i, settings.slices.emplace_back()));
  }
  return {};
}

// How often calls are repeated: never, or often enough for a deviation.
Status ReadRepeat(const SettingsReader& reader, std::string_view key, int64_t& repeat) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_number_integer() ||
      (json::IntOf(*value) != 0 &&
       (json::IntOf(*value) < 2 || json::IntOf(*value) > kMostRepeats))) {
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: 0 (never), or a number of repetitions from 2 "
                                    "to {}",
                                    ShownValue(*value), kMostRepeats));
  }
  repeat = json::IntOf(*value);
  return {};
}

Status ReadOverhead(const SettingsReader& reader, std::string_view key, double& milliseconds) {
  const Json* value = reader.Find(key);
  const bool number = value->is_number_integer() || value->is_number_float();
  if (!number || !(json::NumberOf(*value) > 0)) {
    return reader.Error(
        *value, key, fmt::format("is {}; allowed: milliseconds, more than 0", ShownValue(*value)));
  }
  milliseconds = json::NumberOf(*value);
  return {};
}

// Whether calls go to a checker; the keys that describe it count only then.
Status ReadOnline(const SettingsReader& reader, std::string_view key, Settings& settings) {
  bool wanted = settings.online.has_value();
  MSP_RETURN_IF_ERROR(reader.Bool(key, wanted));
  if (!wanted) {
    settings.online.reset();
  } else if (!settings.online) {
    settings.online.emplace().tls_folder = "./";
  }
  return {};
}

// A key that only older programs act upon: checked, and named when it asks for something.
json::SettingsKind<Settings> Idle(std::span<const std::string_view> names,
                                  std::string_view harmless = {}) {
  return {[names, harmless](const SettingsReader& reader, std::string_view key,
                            Settings& settings) -> Status {
            std::string_view chosen;
            MSP_RETURN_IF_ERROR(reader.OneOf(key, names, chosen));
            if (chosen != harmless && !chosen.empty()) {
              settings.warnings.push_back(
                  fmt::format("{}.{} is for MindSpore's static graphs, which are not captured: it "
                              "has no effect",
                              TaskName(settings.task), key));
            }
            return {};
          },
          nullptr};
}

bool IsOnline(const Settings& settings) { return settings.online.has_value(); }
bool SearchesDifferences(const Settings& settings) { return settings.searches_differences(); }
bool HasLoad(const Settings& settings) { return settings.load.has_value(); }
bool HasCustomApis(const Settings& settings) { return !settings.custom_api_file.empty(); }
bool Repeats(const Settings& settings) { return settings.repeat != 0; }

void WriteOnline(const Settings& settings, std::string_view key, json::Writer& writer) {
  writer.Member(key, IsOnline(settings));
}

void WriteDataMode(const Settings& settings, std::string_view key, json::Writer& writer) {
  writer.Member(key, DataModeWords(settings.data_mode));
}

void WriteSlices(const Settings& settings, std::string_view key, json::Writer& writer) {
  writer.Key(key);
  PutSlices(settings.slices, writer);
}

// The places where a key may stand, with its position in the list that messages give there; 0: not
// there. The top level holds common keys and those of tasks; a section holds keys of its task.
constexpr size_t kCommon = 0;
constexpr size_t kOfTasks = 1;
constexpr size_t SectionOf(Task task) { return 2 + static_cast<size_t>(task); }
using Listed = std::array<uint8_t, 7>;
static_assert(SectionOf(Task::kNanCheck) == std::tuple_size_v<Listed> - 1);

struct KeyRow : json::SettingsRow<Settings> {
  KeyRow(std::string_view key, Listed places, json::SettingsKind<Settings> value_kind,
         bool (*written_if)(const Settings&) = nullptr, bool (*read_if)(const Settings&) = nullptr)
      : SettingsRow{key, std::move(value_kind), read_if, written_if}, listed(places) {}
  Listed listed;
};

// In the order of the JSON text.
const std::vector<KeyRow>& Rows() {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  using S = Settings;
  const auto of_endpoint = [](auto member) {
    return [member](auto& settings) -> auto& { return (*settings.online).*member; };
  };
  const auto online = [](std::string_view key, Listed places, json::SettingsKind<S> kind) {
    return KeyRow(key, places, std::move(kind), IsOnline, IsOnline);
  };
  static const std::vector<KeyRow> kRows = {
      // Read by itself, before all others: it decides which section counts.
      {"task", {1}, {nullptr, json::OneOf(&S::task, kTasks).write}},
      {"level", {5}, json::OneOf(&S::level, kLevels)},
      {"dump_path", {2}, json::KindFor(&S::dump_path, ReadDumpPath)},
      {"rank", {3}, json::NumberSet(&S::ranks)},
      {"step", {4}, json::NumberSet(&S::steps)},
      {"async_dump", {7}, json::Switch(&S::async_dump)},
      {"enable_dataloader", {6}, json::Switch(&S::enable_dataloader)},
      {"dump_enable", {8}, json::Switch(&S::dump_enable)},
      {"risk_level", {9}, json::OneOf(&S::risk_level, kRiskLevels)},
      {"custom_op_namespaces", {10}, json::TextList(&S::custom_op_namespaces)},
      {"load", {24}, {ReadLoad, WriteLoad}, HasLoad},
      {"custom_api_file", {25}, {ReadCustomApis, WriteCustomApis}, HasCustomApis},
      {"scope", {0, 1, 1, 1, 1, 3, 1}, json::KindFor(&S::scope, ReadScope)},
      {"list", {0, 2, 2, 2, 2, 4, 2}, json::TextList(&S::list)},
      {"tensor_list", {0, 3, 3, 0, 0, 0, 3}, json::TextList(&S::tensor_list)},
      {"data_mode",
       {0, 4, 4, 3, 3, 5, 4},
       {json::ReadInto<S>(&S::data_mode, ReadDataMode), WriteDataMode}},
      {"summary_mode",
       {0, 5, 5, 4},
       {json::ReadInto<S>(&S::summary_mode, ReadSummaryMode),
        json::OneOf(&S::summary_mode, kSummaryModes).write}},
      {"overflow_nums", {0, 6, 0, 0, 0, 1}, json::KindFor(&S::overflow_nums, ReadOverflowLimit)},
      {"bench_path", {0, 9, 0, 7}, json::Text(&S::bench_path), SearchesDifferences},
      {"diff_nums", {0, 10, 0, 8}, json::Number(&S::diff_nums, -1, kMost), SearchesDifferences},
      {"online_run_ut", {0, 11, 0, 10}, {ReadOnline, WriteOnline}, IsOnline},
      online("nfs_path", {0, 12, 0, 11}, json::Text<S>(of_endpoint(&online::Endpoint::folder))),
      online("host", {0, 13, 0, 13}, json::Text<S>(of_endpoint(&online::Endpoint::host))),
      online("port", {0, 14, 0, 14},
             json::Number<S>(of_endpoint(&online::Endpoint::port), -1, kMostPort)),
      online("tls_path", {0, 15, 0, 12}, json::Text<S>(of_endpoint(&online::Endpoint::tls_folder))),
      online("plaintext", {0, 18, 0, 17},
             json::Switch<S>(of_endpoint(&online::Endpoint::plaintext))),
      online("secret_path", {0, 19, 0, 18},
             json::Text<S>(of_endpoint(&online::Endpoint::secret_file))),
      online("online_run_ut_recompute", {0, 16, 0, 15}, json::Switch(&S::online_recompute)),
      online("online_wait_ms", {0, 17, 0, 16},
             json::Number(&S::online_wait_ms, 0, kMostOnlineWaitMs)),
      {"slice", {0, 7, 8, 5}, {ReadSlices, WriteSlices}},
      {"request_id", {0, 8, 9, 6}, json::Text(&S::request_id)},
      {"precision", {11, 0, 7}, json::OneOf(&S::precision, kPrecisions)},
      {"api_backward", {12}, json::OneOf(&S::api_backward, kApiBackwards)},
      {"repeat", {13}, json::KindFor(&S::repeat, ReadRepeat), Repeats},
      {"extra_info", {14}, json::Switch(&S::extra_info)},
      {"extended_statistics", {15}, json::Switch(&S::extended_statistics)},
      {"strict_json", {16}, json::Switch(&S::strict_json)},
      {"deduplicate", {17}, json::Switch(&S::deduplicate)},
      {"deduplicate_from_bytes", {18}, json::Number(&S::deduplicate_from_bytes, 0, kMost)},
      {"writer_memory_bytes",
       {19},
       json::Number(&S::writer_memory_bytes, kLeastWriterMemory, kMost)},
      {"writer_threads", {20}, json::Number(&S::writer_threads, 1, kMostWriterThreads)},
      {"max_overhead_ms", {21}, json::KindFor(&S::max_overhead_ms, ReadOverhead)},
      {"max_bytes_per_s", {22}, json::Number(&S::max_bytes_per_s, 1, kMost)},
      {"reread", {23}, json::Switch(&S::reread)},
      {"device", {0, 0, 6}, Idle(kDevices, "host")},
      {"file_format", {0, 0, 0, 9}, Idle(kFormats)},
      {"check_mode", {0, 0, 0, 0, 0, 2}, Idle(kCheckModes)}};
  return kRows;
}

std::vector<std::string> KeysAt(size_t place) {
  std::vector<const KeyRow*> rows;
  for (const KeyRow& row : Rows()) {
    if (row.listed[place] != 0) {
      rows.push_back(&row);
    }
  }
  std::sort(rows.begin(), rows.end(), [place](const KeyRow* left, const KeyRow* right) {
    return left->listed[place] < right->listed[place];
  });
  std::vector<std::string> keys;
  for (const KeyRow* row : rows) {
    keys.emplace_back(row->name);
  }
  return keys;
}

Status ReadAt(std::initializer_list<size_t> places, const SettingsReader& reader,
              Settings& settings) {
  for (const KeyRow& row : Rows()) {
    if (std::any_of(places.begin(), places.end(),
                    [&row](size_t place) { return row.listed[place] != 0; })) {
      MSP_RETURN_IF_ERROR(ReadRow(row, reader, settings));
    }
  }
  return {};
}

Status UnknownKey(const SettingsReader& reader, const Json& value, std::string_view key,
                  std::span<const std::string> valid) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kElsewhere = {
      {{"seed", "call seed_all(seed=...) in the training script"},
       {"is_deterministic", "call seed_all(mode=True) in the training script"}}};
  for (const auto& [name, hint] : kElsewhere) {
    if (name == key) {
      return reader.Error(value, key, "no such key").WithHint(hint);
    }
  }
  return json::UnknownKeyError(reader, value, key, valid);
}

// Checks the keys of the whole file, or of the arguments of a call, which hold no sections.
Status CheckTopLevelKeys(const SettingsReader& reader, const Json& root, bool sections_allowed) {
  std::vector<std::string> valid = KeysAt(kCommon);
  const std::vector<std::string> of_tasks = KeysAt(kOfTasks);
  valid.insert(valid.end(), of_tasks.begin(), of_tasks.end());
  std::vector<std::string> sections;
  if (sections_allowed) {
    for (const Choice<Task>& task : kTasks) {
      sections.emplace_back(task.name);
    }
    sections.insert(sections.end(), kForeignTasks.begin(), kForeignTasks.end());
  }
  for (const auto& [key, value] : root.items()) {
    if (base::IsOneOf(key, sections)) {
      if (!value.is_object() && !value.is_null()) {
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

// Checks the keys of the section of `task`; none of them may be in `root` as well.
Status CheckSectionKeys(const SettingsReader& reader, const Json& section, const Json& root,
                        Task task) {
  const std::vector<std::string> valid = KeysAt(SectionOf(task));
  for (const auto& [key, value] : section.items()) {
    if (!base::IsOneOf(key, valid)) {
      if (base::IsOneOf(key, KeysAt(kOfTasks))) {
        return reader.Error(value, key, fmt::format("has no effect for task {}", TaskName(task)))
            .WithHint(fmt::format("valid here: {}", base::Join(valid, ", ")));
      }
      if (base::IsOneOf(key, KeysAt(kCommon))) {
        return reader.Error(value, key, "no such key").WithHint("it belongs to the top level");
      }
      return UnknownKey(reader, value, key, valid);
    }
    if (const Json* twin = json::Find(root, key); twin != nullptr) {
      return reader.Error(
          value, key,
          fmt::format("is also given at the top level, in line {}", reader.config().LineOf(*twin)));
    }
  }
  return {};
}

Status ReadSection(const Config& file, Settings& settings) {
  const std::string_view name = TaskName(settings.task);
  const Json* section = json::Find(file.root(), name);
  if (section == nullptr || section->is_null()) {
    return {};
  }
  const SettingsReader reader(file, *section, name);
  MSP_RETURN_IF_ERROR(CheckSectionKeys(reader, *section, file.root(), settings.task));
  return ReadAt({SectionOf(settings.task)}, reader, settings);
}

}  // namespace

Result<GivenConfigs> ReadGivenConfigs(const base::Path& config_path, std::string nameless_file,
                                      std::string_view overrides_json,
                                      std::string_view overrides_name,
                                      bool overrides_have_sections) {
  GivenConfigs given{json::Config(std::move(nameless_file)), json::Config()};
  if (!config_path.empty()) {
    MSP_ASSIGN_OR_RETURN(given.file, json::LoadJsonConfig(config_path));
  }
  MSP_ASSIGN_OR_RETURN(given.overrides,
                       json::ParseJsonConfig(overrides_json.empty() ? "{}" : overrides_json,
                                             std::string(overrides_name)));
  for (const json::Config* config : {&given.file, &given.overrides}) {
    if (!config->root().is_object()) {
      return config->ErrorAt(
          config->root(), "",
          fmt::format("is {}; allowed: one object of keys", ShownValue(config->root())));
    }
  }
  MSP_RETURN_IF_ERROR(CheckTopLevelKeys(SettingsReader(given.file, given.file.root(), ""),
                                        given.file.root(), true));
  MSP_RETURN_IF_ERROR(CheckTopLevelKeys(SettingsReader(given.overrides, given.overrides.root(), ""),
                                        given.overrides.root(), overrides_have_sections));
  return given;
}

namespace {

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
    return UsageError(fmt::format("{}{} is not a folder; allowed: the dump_path of an earlier run",
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

// Calls that are repeated for their noise.
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
  settings.diff_nums = settings.diff_nums == 0 ? 1 : settings.diff_nums;
  if (settings.dump_path.empty() && settings.load && !settings.load->dump_after_load) {
    settings.dump_path = "./dump";  // nothing is written to it
  }
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
  if (settings.level == Level::kL2k && settings.framework != Framework::kPyTorch) {
    return UsageError(fmt::format("level L2k records what torch.compile made, not calls of {}",
                                  FrameworkName(settings.framework)));
  }
  return Filters::Create(settings).status();
}

}  // namespace

std::string_view TaskName(Task task) { return NameOf(kTasks, task); }

std::string_view LevelName(Level level) { return NameOf(kLevels, level); }

std::string_view FrameworkName(Framework framework) { return NameOf(kFrameworks, framework); }

Result<Framework> FrameworkOf(std::string_view name) {
  for (const Choice<Framework>& framework : kFrameworks) {
    if (framework.name == name) {
      return framework.value;
    }
  }
  return UsageError(fmt::format("no framework is called \"{}\"", name))
      .WithHint("pytorch, mindspore, mindtorch");
}

std::string_view RiskLevelName(RiskLevel level) { return NameOf(kRiskLevels, level); }

std::string SettingsJson(const Settings& settings) { return json::RowsJson(Rows(), settings); }

Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json,
                              Framework framework, std::string_view overrides_name) {
  MSP_ASSIGN_OR_RETURN(
      const GivenConfigs given,
      ReadGivenConfigs(config_path,
                       overrides_json.empty() ? "the defaults" : std::string(overrides_name),
                       overrides_json, overrides_name));
  const Config& file = given.file;
  const Config& overrides = given.overrides;
  const SettingsReader file_reader(file, file.root(), "");
  const SettingsReader override_reader(overrides, overrides.root(), "");
  Settings settings;
  settings.framework = framework;
  // The section that counts is that of the task that wins.
  MSP_RETURN_IF_ERROR(ReadTask(file_reader, settings.task));
  MSP_RETURN_IF_ERROR(ReadTask(override_reader, settings.task));
  MSP_RETURN_IF_ERROR(ReadAt({kCommon, kOfTasks}, file_reader, settings));
  MSP_RETURN_IF_ERROR(ReadSection(file, settings));
  MSP_RETURN_IF_ERROR(ReadAt({kCommon, kOfTasks}, override_reader, settings));
  MSP_RETURN_IF_ERROR(CheckTogether(settings), file.file);
  return settings;
}

}  // namespace msprobe::capture
