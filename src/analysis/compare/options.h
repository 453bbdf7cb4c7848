// What a comparison is asked to do: filled by the commands, read by everything below.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msprobe::analysis::compare {

// Which line of the Python tool a result follows: rows, metrics, verdicts and columns.
enum class Edition : uint8_t { k8, k26 };

enum class Framework { kUnknown, kPyTorch, kMindSpore };

// A mapping flag: absent, given bare (the built-in table or an empty mapping), or given with a
// file.
struct MappingFlag {
  bool given = false;
  std::filesystem::path file;  // empty: built-in
};

// The trainer of a comparison of training against inference.
enum class TrainingBackend : uint8_t { kNone, kFsdp, kMegatron };

// What only the command line of the 26.x line asks for: compare -tp TARGET -gp GOLDEN.
struct Line26Options {
  bool atb = false;                      // -m atb: both paths are execution rounds of ATB dumps
  bool torchair = false;                 // -m torchair: a dump of GE, and one of GE or FX
  std::optional<int64_t> torchair_rank;  // of its ranks this one only
  // Judge and pair more carefully than the Python tool does; docs/commands/compare.md lists what
  // changes.
  bool strict = false;
  bool first_difference = false;  // -da: also the first differing call over all ranks
  bool statistics_only = false;   // read no tensors: all that -da over folders needs
  bool log_rows = false;          // -tensor_log: two log lines per row
  TrainingBackend backend = TrainingBackend::kNone;  // --consistent_check
  std::filesystem::path module_mapping;  // with a backend: YAML of training: inference modules
  std::filesystem::path postprocess;     // YAML of calibration matrices; empty: none
  // Further calls whose outputs are valid in their first rows only: part of the call's name, and
  // the keyword argument whose sum is their number.
  std::vector<std::pair<std::string, std::string>> valid_rows;
};

struct Options {
  std::filesystem::path
      npu_path;  // the side under test: dump.json, debug.json, rank, step or whole dump folder
  std::filesystem::path bench_path;  // the side that is right
  std::optional<std::filesystem::path>
      stack_path;                             // NPU side's stack.json, as compare.json names it
  Framework framework = Framework::kUnknown;  // unknown: detected from the data

  bool stack_mode = false;  // -s: show the column NPU_Stack_Info when stack_path is given
  bool advisor = true;      // off with -c
  bool fuzzy = false;
  MappingFlag data_mapping;
  MappingFlag cell_mapping;
  MappingFlag api_mapping;
  MappingFlag layer_mapping;
  // Layer mapping: let call stacks of the newer, grouped stack.json tell calls within one module
  // apart, too. The reference understands the older layout only, so this changes which calls pair.
  bool layer_mapping_frames = false;

  std::optional<std::vector<int64_t>> rank_ids;  // present: MindSpore static-graph kernel compare
  std::vector<int64_t> step_ids;
  // Kernel dumps against the dump of a call: its name; empty: the one whose tensors fit.
  std::string kernel_call;
  bool common_folders = false;  // MindSpore npy folder compare
  std::vector<std::pair<std::string, std::string>> common_map;

  std::optional<Line26Options> line26;  // absent: tables of 8.1.1

  Edition edition() const { return line26 ? Edition::k26 : Edition::k8; }

  std::filesystem::path output_folder = "./output";
  std::string
      output_name;  // replaces "compare_result" in result file names; empty: the reference's names
  bool write_xlsx = true;
  bool write_csv = false;
  bool write_json = false;  // JSON lines of the table
  bool write_html = false;  // one page for browsers, of all pairs

  double relative_tolerance = 0;  // 0: the noise of each dtype
  double absolute_tolerance = 0;
  bool only_different = false;  // leave rows out of the result files that agree
  std::string name_filter;      // glob on NPU row names; empty: all
  bool allow_truncated = false;
  size_t threads = 0;  // 0: all cores
  bool quiet = false;
};

}  // namespace msprobe::analysis::compare
