// Which change turns a run bad: of commits, package versions or settings between a good and a bad
// side. Each run is a program of the user with some of the changes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::bisect {

enum class By : uint8_t { kCommits, kPackages, kSettings };
std::string_view ByName(By by);  // as --by spells it

struct Options {
  By by = By::kCommits;
  std::string good;  // a commit, or a file
  std::string bad;
  std::string check;  // a command of the shell; empty: values are compared
  std::vector<std::string> program;
  std::filesystem::path output = "./msprobe_bisect_output";
  std::vector<std::string> links;  // of the checkout, into every commit's
  std::vector<std::string> find_links;
  bool no_index = false;
  int64_t repeats = 30;
  int64_t timeout_s = 0;  // of a run; 0: none
  bool keeps = false;     // what the runs were made in
  bool replaces = false;  // --force
  bool quiet = false;
  std::filesystem::path msprobe;  // this program
};

struct Change {
  std::string id;    // "3f2a9c1d", "torch", "optimizer.lr"
  std::string text;  // what it is, with secrets masked: its subject, "0.1 -> 0.2"
};

// A row of bisect.csv.
struct Row {
  std::string changes;  // which of them it had: "1-5,9"
  std::string why;
  std::string verdict;  // "good", "bad", "skip", with "?" near the border
  std::string program;  // how it ended: "exit 0"
  std::string check;    // the same of the check, or what was compared
  double seconds = 0;
  std::filesystem::path log;
};

enum class Answer : uint8_t { kCulprit, kPair, kGroup, kNotReproduced, kFlaky };

struct Findings {
  Answer answer = Answer::kFlaky;
  std::string reason;            // of kNotReproduced and kFlaky
  std::vector<size_t> culprits;  // places in `changes`, ascending
  bool is_range = false;         // one of them: what is between could not be judged
  bool is_alone = false;         // shown to suffice by itself
  double probability = 0;
  By by = By::kCommits;
  std::vector<Change> changes;
  std::vector<Row> rows;
  size_t repeats = 0;  // of the rows
  size_t resumed = 0;  // of the rows: made before the program was killed
  std::filesystem::path last_bad_log;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> warnings;
};

// Runs, judges and writes bisect.csv. A search that was killed goes on where it was.
Result<Findings> Run(const Options& options);

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"culprit", "one change or several together turn the run bad", false},
     {"unknown", "the runs contradict each other, or both sides behave alike"}}};

report::Document MakeDocument(const Findings& findings);

}  // namespace msprobe::analysis::bisect
