// Facts about calls that follow from their names: the one table about the functions of PyTorch and
// MindSpore, for every command. Which results are random, raw memory or views, which arguments are
// a layer's own state or are overwritten, what comes from another rank.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/dump/names.h"

namespace msprobe::dump {

// A row's name below its entry's: "Functional.linear.0.forward",
// "Functional.linear.0.forward.input.1" -> "input.1". Empty when the row is named otherwise.
std::string_view ArgumentOf(std::string_view entry_name, std::string_view row_name);

// One bit per fact; the table is in call_facts.cpp. The names are those of calls in a dump: "empty"
// of "Torch.empty.0.forward".
enum CallFact : uint16_t {
  kRawMemory = 1U << 0U,      // the output is memory as it was found
  kCasts = 1U << 1U,          // changes the dtype of a tensor, or may
  kRandom = 1U << 2U,         // draws from a generator
  kSplits = 1U << 3U,         // the outputs are parts of the input, with the same memory
  kMetadata = 1U << 4U,       // tells shape, layout or place and looks at no value
  kOverwrites = 1U << 5U,     // fills its first argument without reading it
  kTakesConstant = 1U << 6U,  // writes a constant among its arguments to its output
  // Where the Python tool's own lists are to be followed, as results must be equal to its:
  kToolRawMemory = 1U << 7U,  // whose nodes of a graph it does not colour
  kToolUnjudged = 1U << 8U,   // whose inputs compare 26 does not judge
};
bool HasFact(std::string_view api, CallFact fact);

// `argument` is the row's name below the entry, "input.1" or "input.weight": true when a functional
// call of this name takes a weight, bias or running statistic there ("Functional.linear" at 1 and
// 2).
bool IsLayerStateArgument(const EntryName& call, std::string_view argument);
// The same of one call, for many arguments.
class LayerState {
 public:
  LayerState() = default;
  explicit LayerState(const EntryName& call);
  bool Has(std::string_view argument) const;

 private:
  uint32_t positions_ = 0;  // bit i: positional argument i; 0: the call takes none
};

// Whether the argument is a running mean or variance, which each forward call in training mode
// updates.
bool IsRunningStatistic(const EntryName& call, std::string_view argument);

// Changes the dtype of a tensor, or may.
bool IsCast(const EntryName& call);

// Draws from a random generator: equal inputs give different outputs when the generators' states
// differ.
bool IsRandomCall(const EntryName& call);

// Its output is memory as found.
bool IsUninitialisedCall(const EntryName& call);

// Its outputs are parts of its input, with the same memory: nothing is computed or copied.
bool IsPartingCall(const EntryName& call);

// Tells a tensor's shape, layout or place and looks at none of its values.
bool IsDescribingCall(const EntryName& call);

// Exchanges data with other ranks.
bool IsCommunicationCall(const EntryName& call);

// The argument is a buffer that the call fills (one that receives, `out=`, the tensor of `copy_`):
// what it held before does not matter.
bool IsReceiveBuffer(const EntryName& call, std::string_view argument);

// ---- communication between ranks ----

enum class CommunicationKind : uint8_t { kCollective, kSend, kReceive, kBatch };

// A function of torch.distributed, mindspore.mint.distributed or mindspore.communication that moves
// data. Arguments are named by their keyword ("dst") or by their position ("1").
struct CommunicationApi {
  enum Flag : uint8_t {
    kCarriesObjects = 1,  // pickled objects instead of tensors
    // Its buffer is also what the root hands out.
    kInPlace = 2,
    // The Python tool's compare 26 takes the inputs of these for buffers to be filled.
    kToolFillsInputs = 4,
  };

  std::string_view name;
  CommunicationKind kind = CommunicationKind::kCollective;
  std::string_view pair = {};  // of a send or receive: the API of the same style at the other end
  // "dst" or "src": the keyword that names the peer of a transfer, or the root of a collective.
  std::string_view rank = {};
  // The one argument in which the Python tool's graph looks for that rank. Empty: to that tool the
  // call is a collective without a root.
  std::string_view graph_rank = {};
  // The argument that the call fills, as keyword and position; empty: none. What it held before
  // takes no part in the result.
  std::string_view buffer = {};
  std::string_view buffer_position = {};
  uint8_t flags = 0;

  bool Is(Flag flag) const { return (flags & flag) != 0; }
  bool IsTransfer() const {
    return kind == CommunicationKind::kSend || kind == CommunicationKind::kReceive;
  }
  // Only the root's data reaches the others.
  bool IsFromRoot() const { return kind == CommunicationKind::kCollective && rank == "src"; }
};

// Null where the API is not in the table: a collective without root or buffer, as far as is known.
const CommunicationApi* FindCommunicationApi(std::string_view api);

// The effect of a collective on the data of its ranks, found by a word in the name, because
// MindSpore and newer releases have more functions than the table ("all_gather_coalesced").
enum class CollectiveEffect : uint8_t {
  kOther,         // every rank gets another rank's data as it is, or nothing
  kSum,           // all_reduce
  kScatteredSum,  // reduce_scatter: each rank gets a part of the sum
  kGather,        // all_gather
  kExchange,      // all_to_all
};
CollectiveEffect EffectOf(std::string_view api);

// Whether the entry's call moves data between ranks, in either direction: of the calls of
// torch.distributed and its like those whose name says so; "barrier" and "new_group" do not.
bool MovesDataBetweenRanks(std::string_view entry_name);

}  // namespace msprobe::dump
