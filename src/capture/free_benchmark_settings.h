// What free_benchmark checks: the section of that name of a configuration, with every default
// filled in and every rule checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/capture/settings.h"

namespace msprobe::capture {

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
// over the file. Errors name file, line, key path, value and what is allowed; of what no file says,
// `overrides_name`. MindSpore has no to_cpu.
Result<FreeBenchmarkSettings> LoadFreeBenchmarkSettings(
    const base::Path& config_path, std::string_view overrides_json,
    Framework framework = Framework::kPyTorch,
    std::string_view overrides_name = "the arguments of the call");

// As one JSON object, every key at its top.
std::string FreeBenchmarkJson(const FreeBenchmarkSettings& settings);

// The task that a configuration names, which may be none of those that are captured; empty: none.
Result<std::string> ConfiguredTask(const base::Path& config_path);

}  // namespace msprobe::capture
