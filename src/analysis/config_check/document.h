// What config_check answers: of two packs, of what was collected, of settings in logs.
#pragma once

#include <array>
#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/config_check/check.h"
#include "src/report/document.h"

namespace msprobe::analysis::config_check {

// The three jobs of config_check, each in a file of its own: result_json.cpp, collect.cpp and
// log_settings.cpp.

// Compares two packs: the checks that both sides allow, and what they add up to. Reads everything
// it needs before the result folder is touched. Writes bench/, cmp/ and the results into the output
// folder. What stands there already is left alone; only bench/, cmp/ and results of an earlier run
// are replaced, and only with --force.
Result<CompareRun> Run(const CompareOptions& options);

// A script or config, or a folder with them, which may stand in the place of a pack.
bool IsCollectable(const std::filesystem::path& path);
// The scripts and configs in a folder, by name; none where it holds no script, or is a checkpoint.
std::vector<std::filesystem::path> CollectableFiles(const std::filesystem::path& folder);

// Packs the environment, the installed packages and the hyperparameters of launch scripts and
// configs into one zip. Nothing is executed but the interpreter whose packages are listed, and that
// only to ask where it looks for them: a launch script that was run, or a package that was
// imported, could change the machine that is being described. Not ok when no pack could be written;
// then whatever stood at `output` before still stands there.
Result<CollectSummary> Run(const CollectOptions& options);

// Two logs: writes NPU_config.json, bench_config.json and hyper_params_compare.csv. Settings below
// keys that hold "ray_" or "profiler" are left out, as in the Python tool. With options.verify:
// tgt_config.json and hyper_params_verify.csv, a row for each requirement.
Result<LogSettingsRun> Run(const LogSettingsOptions& options);

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"error", "a check that fails, or a setting that differs"},
     {"warning", "also a warning", /*includes_previous=*/true, /*on_request=*/true}}};

report::Document MakeDocument(const CompareRun& run);
report::Document MakeDocument(const CollectSummary& summary);
report::Document MakeDocument(const LogSettingsRun& run);

}  // namespace msprobe::analysis::config_check
