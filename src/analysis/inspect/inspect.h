// `msprobe show`: kind and size of a dump or a file of tensors, and a row per thing in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::inspect {

struct Options {
  // A dump folder (whole, step or rank), a dump.json or debug.json, a file of tensors (.pt, .npy,
  // .npz, .safetensors), a folder of such files, a free_benchmark.csv, or a folder of
  // those.
  std::filesystem::path path;
  bool statistics = false;  // of every tensor, computed from its elements
  // Also where the elements of every tensor of a file are: file, offset in bytes, strides in
  // elements.
  bool offsets = false;
  std::string name_filter;  // glob on the first column; empty: everything
  uint64_t row_limit = 0;   // rows of the table; 0: all
  size_t threads = 0;       // 0: all cores
  bool quiet = true;        // no progress line on stderr
};

struct Contents {
  report::Table table;  // one row per rank, call argument, tensor or value; a bad one is filled red
  std::vector<std::string> summary;   // what it is and how much, a sentence per line
  std::vector<std::string> warnings;  // what a careful reader wants to know
  uint64_t rows_left_out = 0;         // by row_limit
  bool nothing_readable = false;      // there are tensors or files of them, and all are bad
};

// Cells as all tables of this component spell them.

report::Cell CountCell(uint64_t count);
report::Cell FlagCell(bool value);      // "true", "false"
report::Cell NumberCell(double value);  // "nan", "inf", "-inf" where a number cannot say it

// "1 tensor", "1,234 tensors".
std::string Counted(uint64_t count, std::string_view noun);

// Decides which rows of a result are shown.
class RowFilter {
 public:
  RowFilter(const Options& options, Contents& result) : options_(options), result_(result) {}

  bool Matches(std::string_view name) const;
  // Whether a row that matches still has a place; counts those that have not.
  bool TakePlace();

 private:
  const Options& options_;
  Contents& result_;
  uint64_t taken_ = 0;
};

// Fails only when nothing can be shown: kNotFound, kBadFormat, kUnsupported, kIo.
Result<Contents> Run(const Options& options);

// Takes the table out of `result`. `filtered`: rows were left out by their names. Without `summary`
// there are rows only.
report::Document MakeDocument(Contents result, bool filtered, bool summary);

}  // namespace msprobe::analysis::inspect
