// Which ranks of both sides make one pair, where the two runs are not cut in the same way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"
#include "src/layout/layout_file.h"

namespace msprobe::analysis::compare {

struct PairingPlan;

// The layout of one side of a pair, as summary.json has it.
struct LayoutFacts {
  enum class Source : uint8_t { kRecorded, kInferred, kGiven };
  std::vector<int64_t> ranks;  // of this side of the pair
  int64_t tensor = 1;          // sizes of the run's groups
  int64_t pipeline = 1;
  int64_t data = 1;
  int64_t context = 1;
  int64_t expert = 1;
  int64_t fully_sharded = 1;
  Source source = Source::kInferred;
  // By which all gradients of this side are larger than those of the other: a loss averaged per
  // rank or micro-batch. 1 unless found.
  double gradient_factor = 1;
};
std::string_view LayoutSourceName(LayoutFacts::Source source);  // "recorded", "inferred", "given"

// "TP 2 x DP 4, 8 ranks", for people.
std::string LayoutText(const LayoutFacts& facts);

namespace layouts {

// Where a rank is in the grid of its run.
struct RankPlace {
  int64_t stage = 0;
  int64_t data = 0;  // which replica of the data, of fully sharded ranks too
  int64_t context = 0;
  int64_t tensor = 0;

  bool operator==(const RankPlace&) const = default;
};

struct JoinedRank {
  dump::RankFolder folder;
  int64_t rank = 0;
  RankPlace place;
  std::shared_ptr<const layout::RankLayout> record;  // null: nothing is recorded
};

// Ranks of a side that must hold the same value and do not.
struct RankReplica {
  std::string entry;           // of the rank
  uint32_t row = 0;            // of that entry
  std::vector<int64_t> ranks;  // those that differ from most; of two both
  std::vector<int64_t> group;  // all that must be equal
  double error = 0;
};
// Reads the entries of a rank that `keep` names.
using RankLoader = std::function<Result<Side>(const JoinedRank&,
                                              const std::function<bool(std::string_view)>& keep)>;
// By rank, the first one: the ranks of a side, in one step, whose places are known. Ranks are read
// one after the other by each thread.
std::vector<std::vector<RankReplica>> FindReplicas(const std::vector<JoinedRank>& ranks,
                                                   const RankLoader& load, base::ThreadPool& pool);

// Both sides of a pair. `is_joined`: several ranks of a side make one, by src/analysis/compare/
// layouts/joined_pair.h; otherwise one rank is compared with one as ever.
struct PairLayout {
  std::vector<JoinedRank> npu;  // by rank
  std::vector<JoinedRank> bench;
  LayoutFacts npu_facts;
  LayoutFacts bench_facts;
  bool is_joined = false;
  // Where ranks are compared one by one: what must be equal to other ranks' and is not.
  std::vector<RankReplica> npu_replicas;
  std::vector<RankReplica> bench_replicas;
};

// What tells ranks apart: what they call, which ranks of a stage have in common, and what they are
// fed, which ranks that share tensors have.
struct RankTraits {
  uint64_t calls = 0;
  uint64_t fed = 0;
};
RankTraits TraitsOf(const Side& side);

// Places ranks in a grid by their traits. False where they do not make one.
bool PlaceByTraits(const std::vector<JoinedRank*>& all, const std::vector<RankTraits>& traits,
                   LayoutFacts& facts);

// Shares of the data that are parts of each sample belong to context parallelism: by the shapes of
// what both sides were fed, [samples, sequence]. The innermost ones are those of a sequence.
void TellContext(const std::vector<JoinedRank*>& ranks, const Side& own, const Side& other,
                 LayoutFacts& facts);

// Calls that move data or describe it, and compute nothing.
bool MovesData(const dump::EntryName& name);

// Fills in what the layouts of both sides ask for: joined pairs in place of those of `plan` where
// the layouts differ; where they are equal, what is known of them beside each pair. `plan` may be
// an error (nothing pairs by its number), which joined pairs replace. `notes` gets what must be
// told.
Result<PairingPlan> ApplyLayouts(const Options& options, Result<PairingPlan> plan,
                                 base::ThreadPool& pool, std::vector<std::string>& notes);

}  // namespace layouts
}  // namespace msprobe::analysis::compare
