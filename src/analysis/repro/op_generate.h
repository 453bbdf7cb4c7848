// A script that runs one API on a device and on the CPU, or under MindSpore and under PyTorch, and
// compares the results, as the Python tool's op_generate writes it.
#pragma once

#include <filesystem>
#include <string>

#include "msprobe/status.h"

namespace msprobe::analysis::repro {

struct OpGenerateOptions {
  std::filesystem::path config;  // JSON: dump_json_path, api_name, extract_api_path, ...
  std::filesystem::path output;  // an existing folder
  bool for_mindspore = false;    // the API is MindSpore's, PyTorch is its bench
};

struct OpGenerateAnswer {
  std::string api;                  // "Functional.softmax.0"
  std::string propagation;          // "forward" or "backward"
  bool was_extracted = false;       // from a dump; else the file was there
  std::filesystem::path extracted;  // the entries of the API, indented by 4
  std::filesystem::path script;     // <output>/<api>.<propagation>.py
};

// kUsage: the configuration asks for something impossible; kNotFound: the API is not in the dump;
// kUnsupported: it cannot be called by its name.
Result<OpGenerateAnswer> OpGenerate(const OpGenerateOptions& options);

}  // namespace msprobe::analysis::repro
