// What the tables of checked compiled graphs say together.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::compile_check {

// A row of compile_check.csv: an output of a kernel, its worst call.
struct Output {
  std::string graph;  // "0/1 backward"
  std::string kernel;
  std::string nodes;
  std::string module;
  std::string code;
  std::string output;
  std::string dtype;
  std::string error;
  std::string bound;
  std::string verdict;  // as in the table: "right", "wrong", "not checked"
  std::string reason;
};

struct Verdicts {
  std::vector<Output> all;    // in order of execution; of several ranks, one rank after the other
  std::vector<Output> wrong;  // those of them
  std::vector<std::pair<std::string, uint64_t>> not_checked;  // reasons, the commonest first
  uint64_t right = 0;                                         // outputs
  uint64_t skipped = 0;
  uint64_t kernels = 0;  // of which an output was checked
  std::vector<std::filesystem::path> tables;
  std::vector<std::filesystem::path> alone;  // folders of kernels alone
  std::vector<std::string> warnings;
};

// The tables compile_check.csv in `folder` and in its folders rank<N>. No table at all: a result
// without rows. A table that cannot be read is an error, as it may hold the wrong kernel.
Result<Verdicts> ReadTables(const std::filesystem::path& folder);

// In order of the ranks.
std::vector<std::filesystem::path> TablesIn(const std::filesystem::path& folder);

// Folders of kernels alone below `folder`, which hold run.py; of ranks as well.
std::vector<std::filesystem::path> KernelsAloneIn(const std::filesystem::path& folder);

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"wrong", "a kernel whose result is beyond the bound of its arithmetic"}}};

report::Document MakeDocument(const Verdicts& verdicts);

}  // namespace msprobe::analysis::compile_check
