// Searches responses of a model for anomalies: `msprobe response_anomaly`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/response_anomaly/judge.h"
#include "src/base/files.h"
#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::response_anomaly {

// The thresholds of a search from a YAML file with the keys of the Python tool.

// Keys that a file lacks keep their defaults. Errors name file, line, key and what is allowed.
Result<Limits> LoadLimits(const std::filesystem::path& path);
Result<Limits> ParseLimits(std::string_view text, std::string file_name);

// Lines of a file or of the standard input, as they come: memory holds one of them.

class LineReader {
 public:
  // Longer lines are passed over: no response has as many candidates.
  static constexpr size_t kLongestLine = size_t{256} << 20U;

  // "-" is the standard input; as base::OpenStream.
  static Result<LineReader> Open(const std::filesystem::path& path,
                                 size_t longest_line = kLongestLine);
  enum class Line : uint8_t { kLine, kTooLong, kEnd };
  // The next line, without its end, until the call after. Waits for a pipe.
  Result<Line> Next(std::string_view& line);
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  LineReader(base::Descriptor input, std::string name, size_t longest_line)
      : input_(std::move(input)), name_(std::move(name)), longest_(longest_line) {}

  base::Descriptor input_;
  std::string name_;
  size_t longest_;
  std::string buffer_;
  size_t begin_ = 0;     // of what has not been given yet
  size_t searched_ = 0;  // no line ends in front of this
  bool too_long_ = false;
  bool ended_ = false;
  uint64_t bytes_read_ = 0;
};

// A judged request as a row: of result files, and of the lines of a running service.

// The outcome for one line of the input.
struct Row {
  uint64_t line = 0;  // counted from 1
  std::string name;   // of the request, "" when it has none or cannot be read
  std::string model;
  Judgement judgement;
  std::string error;  // why it could not be judged; empty: it was
};

// The columns of every form; the first five are the Python tool's.
const std::vector<std::string>& RowColumns();
void AddRow(const Row& row, report::Table& table);
report::Table NewTable();

struct Findings {
  // However long the input is: so many ill requests and unreadable lines are named, the first ones.
  static constexpr size_t kMostNamed = 1000;

  uint64_t requests = 0;  // judged
  uint64_t tokens = 0;
  std::array<uint64_t, kIllnessCount> of = {};  // requests by Illness
  uint64_t unreadable = 0;                      // lines
  uint64_t by_categories = 0;                   // requests
  uint64_t unfinished = 0;  // of a known model, but without its end token: judged without table
  uint64_t only_minus_infinity = 0;  // ill because of -inf alone
  uint64_t short_repeats = 0;        // normal, though a detector of repetition fired
  std::vector<Row> ill;              // at most kMostNamed
  std::vector<Row> unread;           // the same
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  uint64_t bytes = 0;

  uint64_t ill_count() const { return requests - of[0]; }
};

// A whole search for anomalous responses: lines in, rows out as they are judged.

// `on_row` hears of every line that is not blank, before the next one is read; an error of it ends
// the run. A line that is not a request is a row with an error, and the search goes on.
using OnRow = std::function<Status(const Row& row)>;
Result<Findings> Run(const Options& options, const OnRow& on_row = nullptr);

inline constexpr std::array<report::GateLevel, 5> kGateLevels = {
    {{"not_finite", "a log-probability that is NaN or infinite", false},
     {"garbled", "a garbled response", false},
     {"repetition", "a response that repeats itself", false},
     {"rare_characters", "a response with rare characters", false},
     {"ill", "any of these"}}};

report::Document MakeDocument(const Findings& findings);

}  // namespace msprobe::analysis::response_anomaly
