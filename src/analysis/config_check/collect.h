// The collecting half of `config_check`: environment, installed packages and the hyperparameters of
// launch scripts and configs, packed into one zip. Nothing is executed but the interpreter whose
// packages are listed, and that only to ask where it looks for them. Never prints.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::config_check {

struct CollectOptions {
  std::vector<std::filesystem::path> inputs;  // launch scripts (.sh), configs (.yaml, .yml, .json)
  std::filesystem::path dynamic;  // parameters of a running program: one JSON object; empty: none
  std::filesystem::path output = "./config_check_pack.zip";
  std::string python;   // interpreter: a path or a name looked up in PATH; empty: the one in use
  bool compat = false;  // hyperparameters with every quirk of the Python tool
};

// What became of one of `inputs`.
struct CollectedInput {
  std::filesystem::path path;
  size_t parameters = 0;
  std::string problem;  // empty: read
};

struct CollectSummary {
  std::filesystem::path output;  // absolute
  size_t variables = 0;          // of the environment
  size_t masked = 0;             // of them: with a secret replaced
  std::string interpreter;       // empty: none was found
  size_t packages = 0;
  std::vector<std::string> versions;  // "CANN 8.0.RC1", "NVIDIA driver 535.1": beside the packages
  std::vector<CollectedInput> inputs;
  size_t parameters = 0;  // after merging all inputs; 0: the pack has no hyperparameters
  std::vector<std::string> warnings;

  // False when an input that was named could not be read: the pack is written without it, and the
  // command should say so with its exit code.
  bool complete = true;
};

// Not ok when no pack could be written; then whatever stood at `output` before still stands there.
Result<CollectSummary> Collect(const CollectOptions& options);

}  // namespace msprobe::analysis::config_check
