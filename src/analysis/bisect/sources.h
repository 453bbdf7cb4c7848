// What runs are made of: programs that are started, and the places that hold some of the changes.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/bisect/bisect.h"

namespace msprobe::analysis::bisect {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Start {
  std::vector<std::string> program;       // looked up in the PATH of its environment
  std::filesystem::path folder = {};      // it starts in; empty: this one
  Variables variables = {};               // set in its environment
  bool without_git_variables = false;     // GIT_DIR and its kin
  std::filesystem::path input = {};       // empty: nothing
  std::filesystem::path output = {};      // its standard output is put at the end of
  std::filesystem::path errors = {};      // the same of errors; empty: with the output
  std::chrono::milliseconds patience{0};  // it is ended afterwards; 0: never
};

struct End {
  int exit_code = 0;
  int signal = 0;  // not 0: ended by it
  bool timed_out = false;

  bool failed() const { return timed_out || signal != 0 || exit_code != 0; }
  std::string text() const;  // "exit 1", "signal 9", "timeout"
};

// Runs a program to its end, and ends what it left running. It ends with this process.
Result<End> RunToEnd(const Start& start);

// The last lines of a file, with secrets masked.
std::string TailOf(const std::filesystem::path& log);
// The same in quotes, for messages: the words of another program.
inline std::string QuotedTailOf(const std::filesystem::path& log) {
  return "\"" + TailOf(log) + "\"";
}

// Where one run takes place.
struct Place {
  std::filesystem::path folder;    // it starts in
  Variables variables;             // of its environment
  std::filesystem::path settings;  // what {config} stands for; empty: nothing
};

// Places of changes, 1-based and ascending: those that a run has.
using Chosen = std::vector<size_t>;

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  // What differs between the sides, in the order in which it is tried. Called once, first.
  virtual Result<std::vector<Change>> Changes(std::vector<std::string>& warnings) = 0;
  // A state with some of the changes. kMismatch: they cannot be had together.
  virtual Result<Place> Make(const Chosen& chosen) = 0;
  // What else tells a search from another one.
  virtual std::string identity() const { return {}; }
};

// `work` is a folder of the search that may hold what an earlier process left.
std::unique_ptr<Source> MakeCommitSource(const Options& options, std::filesystem::path work);
std::unique_ptr<Source> MakePackageSource(const Options& options, std::filesystem::path work);
std::unique_ptr<Source> MakeSettingSource(const Options& options, std::filesystem::path work);

}  // namespace msprobe::analysis::bisect
