// Which rank a run waits for, from the Flight Recorder files of its ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::hang {

struct Options {
  std::filesystem::path path;  // a folder of recordings, of any names, or one recording
  std::filesystem::path output = "./msprobe_hang_output";
  size_t threads = 0;
  bool quiet = false;
};

enum class Kind : uint8_t { kType, kSize, kDtype, kOrder, kMissing, kNoFile };

// A row of hang.csv.
struct Finding {
  Kind kind = Kind::kMissing;
  std::string group;     // name and description: "3 tp0"
  int64_t sequence = 0;  // of the call in its group; -1: of no_file
  int64_t rank = 0;
  std::string what;  // in words
  std::string code;  // where the others are: "trainer.py:214"
  std::string text;  // the sentence of the first line
};

// Ranks by the last calls of the group that the first finding is about.
struct CallMap {
  enum class State : uint8_t { kFinished, kUnfinished, kMissing, kUnknown };
  std::string group;
  std::vector<int64_t> ranks;
  std::vector<std::string> calls;          // "all_reduce 1025"
  std::vector<std::vector<State>> states;  // [rank][call]
};

struct Findings {
  std::vector<Finding> rows;  // causes before what they cause
  bool is_mismatch = false;
  bool is_hang = false;
  uint64_t ranks = 0;
  uint64_t groups = 0;
  uint64_t calls = 0;       // in all recordings
  uint64_t unfinished = 0;  // calls that all ranks entered and that did not end
  CallMap map;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> warnings;
};

// Reads, judges and writes hang.csv. kNotFound where no file is a recording.
Result<Findings> Run(const Options& options);

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"mismatch", "ranks make different calls at the same place", false},
     {"hang", "a rank did not enter a call that others wait in"}}};

report::Document MakeDocument(const Findings& findings);
std::string_view KindName(Kind kind);  // as in hang.csv

}  // namespace msprobe::analysis::hang
