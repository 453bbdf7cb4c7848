// -da: the first call that differs, over all ranks, with the files that the Python tool writes
// about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pairing.h"
#include "src/dump/communication.h"

namespace msprobe::analysis::compare {

// One call of one rank, as the search sees it. Texts are copies: the sides are gone by then.
struct RankCall {
  std::string name;
  bool is_same = true;  // no output differs
  bool is_ignored = false;
  std::optional<dump::Communication> communication;
  std::string data_info;   // JSON object; of differing calls
  std::string stack_info;  // JSON list or null

  bool is_communication() const { return communication.has_value(); }
};

struct RankCalls {
  int64_t rank = 0;
  std::vector<RankCall> calls;  // in file order
};

// A compared pair as the search needs it, and the text of its compare_result_rank<N>.json:
// {call: {"is_same", "op_items": [row, ...]}}. Compares statistics or checksums, also of dumps with
// tensors.
struct RankRecord {
  RankCalls calls;
  std::string json;
};
RankRecord RecordRank(const ComparedPair& pair, int64_t rank);

struct FirstDifference {
  size_t rank = 0;  // index into the ranks searched
  size_t call = 0;  // index into RankCalls::calls
};

// In this order, the first that finds anything: the first differing call of each rank before its
// first communication; then, over all ranks, the differing calls with the smallest number of
// communications before them; then the first differing call behind the last communication of each
// rank. Empty when nothing differs.
std::vector<FirstDifference> FindFirstDifferences(const std::vector<RankCalls>& ranks);

// {"rank_<N>": [{"op_name", "data_info", "stack_info"}]}
std::string FirstDifferenceJson(const std::vector<RankCalls>& ranks,
                                const std::vector<FirstDifference>& found);

// -da over a run: one JSON file per rank while the pairs go by, one answer per step at the end.

class DifferenceRun {
 public:
  DifferenceRun(std::filesystem::path output_folder, std::string stamp)
      : output_folder_(std::move(output_folder)), stamp_(std::move(stamp)) {}

  // Writes compare_result_rank<N>_<stamp>.json and appends it to `files`. May be called from
  // several threads.
  Result<RankCalls> Record(const PlannedPair& plan, const ComparedPair& pair,
                           std::vector<std::filesystem::path>& files) const;
  // In the order of the plan.
  void Add(const PlannedPair& plan, RankCalls calls);

  // Searches every step; writes diff_analyze_<nanoseconds>.json where something differs. Appends
  // one line per step to `answers`.
  Status Finish(std::vector<std::string>& answers, std::vector<std::filesystem::path>& files) const;

 private:
  struct Step {
    std::filesystem::path folder;  // below the output folder
    std::vector<RankCalls> ranks;
  };

  std::filesystem::path output_folder_;
  std::string stamp_;
  std::vector<Step> steps_;
};

}  // namespace msprobe::analysis::compare
