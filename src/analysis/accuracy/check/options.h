// Options of a check of a dump's operators on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

// One dump of several that are checked one after the other.
struct DumpOfRank {
  std::filesystem::path dump;    // dump.json
  std::filesystem::path folder;  // of its result files, below that of all
  std::string name;              // "step 0 rank 1", in front of the names of its operators
};

struct CheckOptions {
  std::filesystem::path dump;     // dump.json
  std::vector<DumpOfRank> dumps;  // instead of `dump`, where not empty
  std::filesystem::path output = ".";
  // A result file of an earlier run, which this one goes on with; empty: a new one.
  std::filesystem::path resumed_file;
  bool save_error_data = false;
  std::filesystem::path error_data_folder = ".";
  bool filter = false;  // leaves out calls that are like an earlier one
  std::vector<std::string> white_list;
  std::vector<std::string> black_list;
  // Operators whose integer outputs may differ by one, by the rules of 26.x; nullopt: the built-in
  // ones.
  std::optional<std::vector<std::string>> quantised;
  int decimals = kDefaultDecimals;

  StandardVersion version = StandardVersion::k811;
  std::filesystem::path standards_file;
  bool strict = false;
  bool seed_per_operator = false;  // inputs do not depend on other operators
  bool english = false;            // column names

  // Started with the framework: the first that has it.
  std::vector<std::string> pythons = {"python3", "/usr/bin/python3"};
  std::filesystem::path worker_script;   // msprobe/_accuracy/worker.py; empty: not found,
  std::string no_worker_script;          // and why
  std::filesystem::path reference_file;  // custom operators; empty: none
  bool mindspore = false;                // whatever the dump says of its framework
  Vocabulary vocabulary = Vocabulary::kPyTorch;
  std::string device = "auto";  // "cpu", "cuda", "npu"
  std::vector<int64_t> device_ids = {0};
  size_t workers = 1;
  bool jit_compile = false;   // of NPUs
  double time_limit_s = 300;  // of one operator

  size_t worst = 10;  // operators to name
  bool quiet = false;
};

}  // namespace msprobe::analysis::accuracy
