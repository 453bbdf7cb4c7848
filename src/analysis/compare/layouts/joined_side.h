// The calls of several ranks and micro-batches of one run as the calls of one model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/layouts/piece_loader.h"
#include "src/analysis/compare/layouts/plan.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"
#include "src/layout/placement.h"

namespace msprobe::analysis::compare::layouts {

// The path that a module has on both sides, where they name it differently. Several modules may be
// fused into one.
struct NewName {
  std::string path;
  uint32_t part = 0;
  uint32_t parts = 1;
};

// Calls that the test side alone made are numbered from here on, behind all numbers of a reference.
inline constexpr int64_t kFreshNumber = 1'000'000;

// One rank as it was read.
struct LoadedRank {
  JoinedRank about;
  Side side;
  std::optional<dump::ConstructFile> construct;
  std::vector<dump::EntryName> names;  // by entry; views into the side
  std::unordered_map<std::string_view, uint32_t> entry_of;

  // The path that the whole model has for a module of this rank.
  // `as`, if given, gets the new name where it has one.
  std::string GlobalPath(std::string_view local, NewName* as = nullptr) const;
  bool is_wrapped = false;  // all modules are below one named "module"
  // What no record tells: by how much layers and experts are numbered higher in the whole model.
  int64_t first_layer = 0;
  int64_t first_expert = 0;
  std::map<std::string, std::string> chunk_names;  // of modules below "0.", "1.": virtual stages
  std::map<std::string, NewName> new_names;        // by the path that this side has
  // Takes them, and names the entries anew.
  void Rename(std::map<std::string, NewName> renamed);
  std::vector<NewName> fused;      // by entry, where some are: which part of the module it is
  std::vector<std::string> paths;  // by entry: the global path of a module; empty for other calls
};

struct CallMember {
  uint32_t rank = 0;         // place among the loaded ranks
  uint32_t micro_batch = 0;  // of a call that each micro-batch makes
  uint32_t entry = 0;
  uint32_t part = 0;  // of several modules that are one on the other side
  uint32_t parts = 1;
};

// A forward call of the whole model, or a group of parameter gradients: who made it.
struct JoinedCall {
  std::vector<CallMember> members;
  uint64_t letter = 0;  // what it does: equal letters can be partners
  std::string path;     // of a module: its global path
  int64_t number = 0;   // which call of a module within its micro-batch
  int64_t first_stage = 0;
  int64_t last_stage = 0;
  bool is_module = false;
  bool is_communication = false;
  size_t bucket = 0;              // the module call that it was made in
  uint32_t partner = UINT32_MAX;  // place among the other side's calls
};

// Calls made inside of one call of a module, in their order.
struct Bucket {
  std::string key;              // global path and number of the module's call
  std::vector<uint32_t> calls;  // places in JoinedSide::calls
};

struct JoinedSide {
  std::vector<std::unique_ptr<LoadedRank>> ranks;
  int64_t stages = 1;
  int64_t micro_batches = 1;       // that the other side does in one
  int64_t rounds = 1;              // how often a rank calls most of its modules
  bool joins_all_batches = false;  // there are several micro-batches on both sides
  bool keeps_last_batch = false;   // of several, in the gradients of the backward pass
  bool knows_experts = false;      // which ones each rank has
  bool has_other_names = false;    // modules were paired by what they are
  // The batch is in front of the sequence on the other side alone.
  bool swaps_axes = false;
  std::map<std::string, std::string> paired_by;  // path of the reference: what told
  std::vector<JoinedCall> calls;                 // by bucket
  std::vector<Bucket> buckets;
  std::unordered_map<std::string, size_t> bucket_of;
  std::unordered_map<std::string, uint32_t> module_call;  // by path and number
  std::unordered_map<std::string, JoinedCall> gradients;  // parameters_grad entries, by path
  std::unordered_map<std::string, JoinedCall> reduced;    // as the optimizer is given them, by path
  std::unordered_map<std::string, JoinedCall> others;     // saved values and the like, by name
};

Result<std::unique_ptr<LoadedRank>> LoadRank(const JoinedRank& rank, const SideOptions& options);

// Numbers layers and experts that each rank counts for itself as the whole model does, where no
// record does so: stages have the layers behind those of the stages before, and ranks with other
// experts follow each other. `other`: the side that may have all of them.
void NumberParts(JoinedSide& side, const JoinedSide& other);

// How many times each call is made, over the stages of a run: by letter.
std::unordered_map<uint64_t, int64_t> CallCounts(const JoinedSide& side);

// Where both sides name the modules of one model differently: gives those that are the same one
// path.
void PairNames(JoinedSide& npu, JoinedSide& bench);

bool HoldsParameters(const JoinedSide& side, const CallMember& member);
// Modules around others take and give different things in each implementation: only the first
// result, and its gradient, is the same. Of a module with parameters the first argument is, too.
bool IsOfAnyImplementation(const JoinedSide& side, const JoinedCall& call,
                           dump::Direction direction, const SideRow& row, std::string_view suffix);

// Fills calls and buckets of both sides from their ranks.
void JoinCalls(JoinedSide& npu, JoinedSide& bench);

// Sets the partners of both sides: calls inside of the same module call that do the same, in order;
// then what is left, in order of execution.
void PairCalls(JoinedSide& npu, JoinedSide& bench);

// Follows values through the calls of the ranks of a side. Borrows the side; reads a rank when it
// is first asked for.
class ValueUses {
 public:
  explicit ValueUses(const JoinedSide& side) : side_(side) {}

  // A number made of dtype and statistics: equal values have the same.
  static uint64_t FingerprintOf(const SideRow& row);
  // The input of the reduction that a value goes to, directly or through linear calls; nullptr
  // where none is recorded. `used`: whether any other call takes it.
  const SideRow* ReductionOf(uint32_t rank, uint64_t value, int depth, bool* used);
  // Whether `takes` is true of a call, by its entry, that has the value as an input.
  bool IsTakenBy(uint32_t rank, uint64_t value, const std::function<bool(uint32_t)>& takes);
  // What reductions that follow each other made of a value, at most so many; nullptr: none is
  // recorded. `made`: how many there were.
  static constexpr int kMostReductions = 4;
  const SideRow* ReducedBy(uint32_t rank, const SideRow& row, int most, int* made);

 private:
  struct Use {
    uint32_t entry = 0;
    uint32_t row = 0;
  };
  using Uses = std::unordered_multimap<uint64_t, Use>;
  const Uses& UsesOf(uint32_t rank);

  const JoinedSide& side_;
  std::unordered_map<uint32_t, Uses> uses_;  // inputs of a rank by their values
};

// The rows of the whole model on both sides, with their pieces.
struct JoinedRows {
  LoadedPair loaded;  // of the test side also the modules around its calls
  std::array<std::vector<JoinedRow>, 2> rows;
  std::vector<std::string> warnings;
};
// The sides' texts are copied: what was read is not needed afterwards. `layout` gets the factor of
// the gradients.
JoinedRows JoinRows(JoinedSide& npu, JoinedSide& bench, PairLayout& layout);

}  // namespace msprobe::analysis::compare::layouts
