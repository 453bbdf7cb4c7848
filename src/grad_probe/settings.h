// The configuration of the task grad_probe, checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::grad_probe {

// L0: statistics and a checksum. L1: statistics and signs. L2: also how the values are distributed.
enum class Level : uint8_t { kL0, kL1, kL2 };

// How signs are stored: a byte per element in <parameter>.npy, or a bit in <parameter>.npz.
enum class SignFormat : uint8_t { kNpy, kPacked };

struct Bound {
  double value = 0;  // rounded to float32, as elements are compared with it
  std::string text;  // as Python spells it: "0", "-0.01"
};

struct Settings {
  std::string dump_path;
  std::vector<int64_t> ranks;  // sorted, no doubles; empty: all
  std::vector<int64_t> steps;
  Level level = Level::kL1;
  std::vector<std::string> parameters;  // exact names; empty: all
  SignFormat sign_format = SignFormat::kNpy;
  std::vector<Bound> bounds = {{-1, "-1"}, {0, "0"}, {1, "1"}};
};

// Whether the task of a configuration is grad_probe; false too where it cannot be read.
bool IsGradProbe(const base::Path& config_path, std::string_view overrides_json);

// `config_path` empty: defaults. `overrides_json` empty, or one object of top-level keys that win
// over the file. Errors name file, line, key, value and what is allowed.
Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json);

}  // namespace msprobe::grad_probe
