// The settings of a capture: config.json with every default filled in and every rule checked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/json/config.h"
#include "src/json/writer.h"
#include "src/online/endpoint.h"

namespace msprobe::capture {

enum class Task { kStatistics, kTensor, kStructure, kOverflowCheck, kNanCheck };
enum class Level { kL0, kL1, kL2, kL2k, kMix, kDebug };
enum class Framework { kPyTorch, kMindSpore, kMindTorch };
enum class SummaryMode { kStatistics, kMd5, kXor };
// How floating statistics are rounded: from double to float32 (high), or as the frameworks' own
// reductions in the tensor's dtype (low), for bit-equal comparison with old dumps.
enum class Precision { kHigh, kLow };
// The content of the backward entry of an API: gradients of its real inputs, or of its last
// autograd node as older dumps have it.
enum class ApiBackward { kInputs, kLastNode };

// The API calls that are recorded where neither scope nor list selects any.
enum class RiskLevel { kAll, kFocus, kCore };

// A part of every tensor: [begin, end) along one dimension, counted from its end where negative.
struct TensorSlice {
  int64_t dimension = 0;
  std::optional<int64_t> size;  // only of tensors that are as long as this
  int64_t begin = 0;
  std::optional<int64_t> end;  // none: to the last element
};

struct DataMode {
  bool forward = true;
  bool backward = true;
  bool input = true;
  bool output = true;
};

// As config.json and dump.json spell them.
std::string_view TaskName(Task task);
std::string_view LevelName(Level level);
std::string_view FrameworkName(Framework framework);
// Parses a name; the error lists the valid ones.
Result<Framework> FrameworkOf(std::string_view name);
std::string_view RiskLevelName(RiskLevel level);

// The section "load": calls of modules get their inputs from an earlier dump.
struct InputsFromDump {
  std::string path;                  // dump_path of the earlier run
  std::vector<std::string> modules;  // "Module.head.Linear.forward.0"
  std::vector<int64_t> steps;        // empty: all
  std::vector<int64_t> ranks;
  bool dump_after_load = false;  // also record; else nothing is written
  bool nested = false;           // also tensors inside of lists, tuples and dicts
  bool keep_graph = false;       // gradients pass to what computed the value that is replaced
};

// A function of the user that is recorded like one of the framework.
struct CustomApi {
  std::string module;
  std::string name;
};

struct Settings {
  Task task = Task::kStatistics;
  Level level = Level::kL1;
  Framework framework = Framework::kPyTorch;
  std::string dump_path;       // as given; relative to the working directory
  std::vector<int64_t> ranks;  // sorted, no doubles; empty: all
  std::vector<int64_t> steps;  // the same
  bool async_dump = false;
  bool enable_dataloader = false;

  std::vector<std::string> scope;        // empty, or begin and end
  std::vector<std::string> list;         // "name-regex(...)" are regular expressions
  std::vector<std::string> tensor_list;  // names whose tensors are saved beside statistics
  DataMode data_mode;
  SummaryMode summary_mode = SummaryMode::kStatistics;
  int64_t overflow_nums = 1;  // -1: never stop
  std::string bench_path;     // an earlier dump, in which differences are looked for; empty: none
  int64_t diff_nums = 1;      // stop after so many calls that differ; -1: never
  RiskLevel risk_level = RiskLevel::kAll;
  // torch.ops.NAMESPACE whose operators are recorded as calls of the API; here those of
  // vLLM-Ascend.
  std::vector<std::string> custom_op_namespaces = {"_C_ascend"};
  std::optional<InputsFromDump> load;
  std::string custom_api_file;  // YAML: module path to names; empty: none
  std::vector<CustomApi> custom_apis;
  std::vector<TensorSlice> slices;
  std::string request_id;  // of the rows of a batch, only those of this request; empty: all

  // Given: calls are sent to a checker while the program runs, and nothing is written.
  std::optional<online::Endpoint> online;
  bool online_recompute = false;    // calls of the backward pass are not sent
  int64_t online_wait_ms = 60'000;  // of a step, in which calls may wait for room

  // Given: the configuration is read again while the program runs, and says whether to record.
  std::optional<bool> dump_enable;

  // Ours.
  Precision precision = Precision::kHigh;
  ApiBackward api_backward = ApiBackward::kLastNode;
  int64_t repeat = 0;                // so often a recorded call is repeated for its noise floor
  bool extra_info = true;            // stack.json and construct.json
  bool extended_statistics = false;  // NaN, Inf, -Inf and zero counts, finite Max and Min
  bool strict_json = false;          // non-finite numbers as texts
  bool deduplicate = true;
  uint64_t deduplicate_from_bytes = 65536;
  uint64_t writer_memory_bytes = uint64_t{1} << 30U;  // tensor bytes waiting for the disk
  int64_t writer_threads = 2;
  // Limits for programs that must not wait. If given, everything beyond them is dropped and
  // counted.
  std::optional<double> max_overhead_ms;  // of a step
  std::optional<int64_t> max_bytes_per_s;
  bool reread = false;  // also a tensor that seems to hold what was read of it before

  // Warnings about ignored or adjusted settings, shown to the user.
  std::vector<std::string> warnings;

  bool searches_differences() const { return !bench_path.empty(); }
  bool has_budget() const { return max_overhead_ms.has_value() || max_bytes_per_s.has_value(); }
  bool saves_tensors() const {
    return task == Task::kTensor || task == Task::kOverflowCheck || !tensor_list.empty();
  }
};

// Reads and checks, scope and list included. `config_path` empty: defaults. `overrides_json` empty,
// or one object of top-level keys that win over the file. The keys of a task's section may stand at
// top level instead. Errors name file, line, key path, value, what is allowed and the nearest key;
// of what no file says, `overrides_name`.
Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json,
                              Framework framework,
                              std::string_view overrides_name = "the arguments of the call");

// All keys with their values, as one JSON object; a file holding it means the same settings.
std::string SettingsJson(const Settings& settings);
// As the value of the key "slice".
void PutSlices(const std::vector<TensorSlice>& slices, json::Writer& writer);

// How config.json and dump.json spell the choices of settings.h.

using json::Choice;
using json::NameOf;

inline constexpr std::array<Choice<Task>, 5> kTasks = {{{"statistics", Task::kStatistics},
                                                        {"tensor", Task::kTensor},
                                                        {"structure", Task::kStructure},
                                                        {"overflow_check", Task::kOverflowCheck},
                                                        {"nan_check", Task::kNanCheck}}};
inline constexpr std::array<Choice<Level>, 6> kLevels = {{{"L0", Level::kL0},
                                                          {"L1", Level::kL1},
                                                          {"mix", Level::kMix},
                                                          {"L2", Level::kL2},
                                                          {"L2k", Level::kL2k},
                                                          {"debug", Level::kDebug}}};
inline constexpr std::array<Choice<Framework>, 3> kFrameworks = {
    {{"pytorch", Framework::kPyTorch},
     {"mindspore", Framework::kMindSpore},
     {"mindtorch", Framework::kMindTorch}}};
// A configuration file, and what the flags or the arguments of a call set above it.
struct GivenConfigs {
  json::Config file;
  json::Config overrides;
};

// Both are objects whose top-level keys are known; overrides may hold sections only where that is
// said. Without a path the file is an empty object called `nameless_file` in messages.
Result<GivenConfigs> ReadGivenConfigs(const base::Path& config_path, std::string nameless_file,
                                      std::string_view overrides_json,
                                      std::string_view overrides_name,
                                      bool overrides_have_sections = false);

// Where to write: a folder, or a place where one can be made. Empty where it is not given.
Status ReadDumpPath(const json::SettingsReader& reader, std::string_view key,
                    std::string& dump_path);

// The settings of free_benchmark: the section of that name, with every default filled in and every
// rule checked.

struct FreeBenchmarkSettings {
  std::string dump_path;       // as given; relative to the working directory
  std::vector<int64_t> ranks;  // sorted, no doubles; empty: all
  std::vector<int64_t> steps;  // the same

  std::vector<std::string> scope;  // full names; not beside a list
  std::vector<std::string> list;   // parts of names, any of which is enough
  std::string pert_mode = "improve_precision";
  std::string fuzz_device = "npu";  // the device of the tensors, whatever it is; "cpu" with to_cpu
  std::string handler_type = "check";
  std::string fuzz_stage = "forward";
  bool if_preheat = false;
  int64_t preheat_step = 15;
  int64_t max_sample = 15;

  // Ours.
  int64_t noise_ulps = 0;         // 0: the noise of the dtype
  int64_t every_n_calls = 1;      // per function and step
  int64_t max_calls_per_api = 0;  // the same; 0: all
  bool all_inputs = false;        // every floating tensor is changed in place of the first
  bool compat = false;
};

// `config_path` empty: defaults. `overrides_json` empty, or one object of top-level keys that win
// over the file; without a file it may hold the section, too. Errors name file, line, key path,
// value and what is allowed; of what no file says, `overrides_name`. MindSpore has no to_cpu.
Result<FreeBenchmarkSettings> LoadFreeBenchmarkSettings(
    const base::Path& config_path, std::string_view overrides_json,
    Framework framework = Framework::kPyTorch,
    std::string_view overrides_name = "the arguments of the call");

// As one JSON object, every key at its top.
std::string FreeBenchmarkJson(const FreeBenchmarkSettings& settings);
// The same as a configuration, with the section; `indent` < 0: on one line.
std::string FreeBenchmarkConfig(const FreeBenchmarkSettings& settings, int indent);
// What `msprobe free_benchmark` does without a configuration: noise, which tensors of every
// floating dtype take, unlike the Python tool's default.
FreeBenchmarkSettings FreeBenchmarkToStartWith();

// The task that a configuration names, which may be none of those that are captured; empty: none.
Result<std::string> ConfiguredTask(const base::Path& config_path);
// Whether a configuration names the level.
Result<bool> NamesLevel(const base::Path& config_path);

// Rows of the table of keys that user_settings.cpp holds: the section "load", and the file of
// functions of the user. A section that is there is checked, also where it is null; a file that
// cannot be used is a warning, as the capture can do without it.
Status ReadLoad(const json::SettingsReader& reader, std::string_view key, Settings& settings);
void WriteLoad(const Settings& settings, std::string_view key, json::Writer& writer);
Status ReadCustomApis(const json::SettingsReader& reader, std::string_view key, Settings& settings);
void WriteCustomApis(const Settings& settings, std::string_view key, json::Writer& writer);

}  // namespace msprobe::capture
