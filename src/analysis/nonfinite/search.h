// Where bad values came from: the operators of all ranks, walked in the order of cause and effect.
//
// Each rank is walked up to its next communication and waits there until all members of that event
// have arrived; then the event's clock, one more than the latest of its members, moves all of them.
// So an operator is visited after everything that can have caused its values. When all ranks wait
// for each other, which happens when calls were started together or on several streams, the rank
// whose call came first goes on and its event stays open.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/nonfinite/rank_dump.h"
#include "src/base/threads.h"
#include "src/dump/communication.h"
#include "src/dump/json_source.h"

namespace msprobe::analysis::nonfinite {

// Every operator judged by itself, without looking at others: which level of overflow it shows.

enum class Level : uint8_t { kMedium, kHigh, kCritical };
std::string_view LevelName(Level level);  // "medium", "high", "critical"

enum class Scene : uint8_t {
  kOutputOnly,   // good inputs, bad output: critical
  kInputOutput,  // both bad: high
  kInputOnly,    // bad input, good output: medium
  kMutation,     // all good, but the output's norm is 100 times the inputs': high
};
std::string_view SceneName(Scene scene);

struct LevelFinding {
  int64_t rank = 0;
  std::string name;
  Level level = Level::kMedium;
  Scene scene = Scene::kInputOnly;
  std::vector<uint32_t> bad_arguments;  // positions in input_args (or input)
  std::vector<std::string> bad_keywords;
  std::vector<uint32_t> bad_outputs;
};

struct LevelSummary {
  std::vector<LevelFinding> findings;  // by rank, then in the file's order
  std::array<uint64_t, 3> counts{};    // by Level
};

// Nothing where the operator is as it should be, or where its bad values are those that calls of
// its kind may have: what torch.empty returns, buffers that are filled by a collective.
std::optional<LevelFinding> JudgeEntry(std::string_view name, const dump::EntryTree& entry);

// Judges the calls of one rank, whose dump is read again.
Result<std::vector<LevelFinding>> JudgeRank(const RankDump& rank);
// Joins the ranks, in their order.
LevelSummary SumUpLevels(std::vector<std::vector<LevelFinding>> ranks);

std::string LevelsJson(const LevelSummary& summary);

enum class OriginKind : uint8_t {
  kComputed,        // good inputs, bad outputs
  kMaskedRow,       // inputs bad only by a mask's -inf, outputs bad in another way
  kCommunication,   // all that went in was good, some of what came out is not
  kMissingPartner,  // received, and the sender's dump is not there or ends before
  kUnrecorded,      // made inside a module with good inputs, by a call that is not recorded
  // Weak kinds, reported only where none of the above is found:
  kExternalInput,  // bad inputs that no recorded operator made: data, weights, calls not recorded
  kConstant,       // a constant NaN or infinity that was asked for
  kUninitialised,  // memory that torch.empty left as it was
  kRecomputed,     // bad only when activation checkpointing ran it again
};
bool IsWeak(OriginKind kind);
std::string_view OriginKindName(OriginKind kind);  // "computed", ...

struct Origin {
  uint32_t rank_place = 0;
  uint32_t operator_place = 0;
  int64_t clock = 0;  // operators that must have run before, on whatever rank
  OriginKind kind = OriginKind::kComputed;
  BadValues made = 0;
  bool behind_module = false;  // bad values were seen before, but only in what modules gave back
  std::string note;            // what else is to be known; may be empty
};

// How a rank's data became bad first.
struct Arrival {
  uint32_t from_rank = 0;  // places
  uint32_t from_operator = 0;
  uint32_t to_rank = 0;
  uint32_t to_operator = 0;
  int64_t clock = 0;
};

struct SearchOptions {
  bool mask_aware = true;
};

struct SearchResult {
  std::vector<Origin> origins;    // by clock, index and rank; none of them weak
  std::vector<Origin> weak;       // the same of the weak kinds
  std::vector<Arrival> arrivals;  // by clock; at most one per rank
  // Per rank: the clock at which its own data became bad first; nullopt: never.
  std::vector<std::optional<int64_t>> bad_from;
  std::vector<std::string> warnings;
  uint64_t matched_events = 0;
  uint64_t unmatched_calls = 0;
};

// `ranks` are sorted by number.
SearchResult Search(std::span<const RankDump> ranks, const SearchOptions& options);

// The origins to report, of a non-empty list in order: the first one; and where it comes before
// all communication of its rank (or behind it), also the first such of every other rank.
std::vector<Origin> ReportedOrigins(std::span<const RankDump> ranks,
                                    std::span<const Origin> origins);

// Consequences of an origin: the communications over which bad values reached other ranks, and the
// first operators that took them in.

struct Consequence {
  uint32_t rank_place = 0;
  uint32_t operator_place = 0;
};

struct Propagation {
  std::vector<Arrival> chain;             // from the origins on, by clock
  std::vector<Consequence> consequences;  // the first operators that took bad values in: several of
                                          // the origins' ranks, one of every rank reached
  std::vector<Consequence> backward;      // the first bad gradient of every rank reached
  uint64_t reached_ranks = 0;             // with the origins' own
  uint64_t affected_operators = 0;        // of these ranks, with bad inputs, behind the bad arrival
};

Propagation Follow(std::span<const RankDump> ranks, std::span<const Origin> origins,
                   std::span<const Arrival> arrivals);

// The same as a graph: operators as nodes, "next on this rank" and "sent to" as edges.
std::string GraphJson(std::span<const RankDump> ranks, std::span<const Origin> origins,
                      const Propagation& propagation);
std::string GraphMermaid(std::span<const RankDump> ranks, std::span<const Origin> origins,
                         const Propagation& propagation);

}  // namespace msprobe::analysis::nonfinite
