// What a comparison is asked to do: filled by the commands. A stage gets the part that it depends
// on, such as MatchRules or NoiseRules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msprobe::analysis::compare {

// The release of the Python tool that a result is compatible with (8.1.1 or 26.x): rows, metrics,
// verdicts and columns.
enum class Edition : uint8_t { kV8, kV26 };

enum class Framework { kUnknown, kPyTorch, kMindSpore };

// A mapping flag: absent, given bare (the built-in table or an empty mapping), or given with a
// file.
struct MappingFlag {
  bool given = false;
  std::filesystem::path file;  // empty: built-in
};

// The rules by which rows of both sides are paired.
struct MatchRules {
  Framework framework = Framework::kUnknown;  // unknown: detected from the data
  bool fuzzy = false;
  MappingFlag data_mapping;
  MappingFlag cell_mapping;
  MappingFlag api_mapping;
  MappingFlag layer_mapping;
  // Layer mapping: let call stacks of the newer, grouped stack.json distinguish calls within one
  // module, too. The Python tool understands the older layout only, so this changes which calls
  // pair.
  bool layer_mapping_frames = false;
  std::string name_filter;  // glob on NPU row names; empty: all
};

// Distances that count as noise, in addition to what the dtypes explain. 0: the dtypes alone.
struct NoiseRules {
  double relative_tolerance = 0;
  double absolute_tolerance = 0;
};

// Metrics of the user beside those of the table, of rows with tensors.
struct UserMetricRules {
  std::filesystem::path folder;  // of Python files alg_<name>.py; empty: none is run
  std::filesystem::path python_path = "python3";  // what runs them
  int64_t seconds = 600;                          // for all tensors that are given to it at a time
  std::vector<std::pair<std::string, std::string>> expressions;  // column: over sums

  bool any() const { return !folder.empty() || !expressions.empty(); }
};

// Dumps that are not described by a dump.json.
struct FolderRules {
  std::optional<std::vector<int64_t>> rank_ids;  // present: MindSpore static-graph kernel compare
  std::vector<int64_t> step_ids;
  bool common = false;  // MindSpore npy folder compare
  std::vector<std::pair<std::string, std::string>> common_map;
  // Kernel dumps against the dump of a call: its name; empty: the one whose tensors fit.
  std::string kernel_call;
};

struct OutputRules {
  std::filesystem::path folder = "./output";
  std::string name;  // replaces "compare_result" in result file names; empty: that name
  bool xlsx = true;
  bool csv = false;
  bool csv_parts = false;         // several files where a sheet would be full (v26)
  bool json = false;              // JSON lines of the table
  bool html = false;              // one page for browsers, of all pairs
  bool only_different = false;    // leave rows that agree out of the result files
  bool only_leading = false;      // tables of no pairs but LeadingPairs()
  bool advisor = true;            // off with -c
  bool first_difference = false;  // -da: also the first differing call over all ranks (v26)
  bool log_rows = false;          // -tensor_log: two log lines per row (v26)
};

// The trainer of a comparison of training against inference.
enum class TrainingBackend : uint8_t { kNone, kFsdp, kMegatron };

// What only the command line of 26.x asks for: compare -tp TARGET -gp GOLDEN.
struct V26Options {
  bool atb = false;                      // -m atb: both paths are execution rounds of ATB dumps
  bool torchair = false;                 // -m torchair: a dump of GE, and one of GE or FX
  std::optional<int64_t> torchair_rank;  // only this rank
  // Judge and pair more carefully than the Python tool does; docs/commands/compare.md lists what
  // changes.
  bool strict = false;
  bool statistics_only = false;  // read no tensors: all that -da over folders needs
  TrainingBackend backend = TrainingBackend::kNone;  // --consistent_check
  std::filesystem::path module_mapping;  // with a backend: YAML of training: inference modules
  std::filesystem::path postprocess;     // YAML of calibration matrices; empty: none
  // Further calls whose outputs are valid in their first rows only: part of the call's name, and
  // the keyword argument whose sum is their number.
  std::vector<std::pair<std::string, std::string>> valid_rows;
};

// How ranks of runs that are not cut in the same way are joined.
struct LayoutRules {
  bool none = false;           // ranks are paired by their numbers, whatever their layouts
  std::filesystem::path file;  // what the user says of the layouts; empty: nothing
};

struct Options {
  std::filesystem::path
      npu_path;  // the test side: dump.json, debug.json, rank, step or whole dump folder
  std::filesystem::path bench_path;  // the side that is right
  std::optional<std::filesystem::path>
      stack_path;           // NPU side's stack.json, as compare.json names it
  bool stack_mode = false;  // -s: show the column NPU_Stack_Info when stack_path is given
  MatchRules match;
  NoiseRules noise;
  FolderRules folders;
  LayoutRules layout;
  UserMetricRules user_metrics;
  OutputRules output;
  std::optional<V26Options> v26;  // absent: tables of 8.1.1
  bool allow_truncated = false;
  size_t threads = 0;  // 0: all cores
  bool quiet = false;

  Edition edition() const { return v26 ? Edition::kV26 : Edition::kV8; }
  TrainingBackend backend() const { return v26 ? v26->backend : TrainingBackend::kNone; }
};

}  // namespace msprobe::analysis::compare
