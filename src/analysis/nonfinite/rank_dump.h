// One rank's dump, reduced to the operators that can matter: those with bad values, and those that
// move data between ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/strings.h"
#include "src/dump/communication.h"
#include "src/dump/json_source.h"

namespace msprobe::analysis::nonfinite {

// Bad values, and those of one entry of a dump.

// A set of kinds; 0 is a good value. Max and Min count, Mean and Norm do not.
using BadValues = uint8_t;
inline constexpr BadValues kNan = 1;
inline constexpr BadValues kPositiveInfinity = 2;
inline constexpr BadValues kNegativeInfinity = 4;
inline constexpr BadValues kTooLarge = 8;  // beyond --threshold

std::string BadValuesText(BadValues bad);  // "NaN", "NaN, -inf", "good"

// The kind that "nan", "inf", "-inf" name, in any case, with blanks around; 0 for other texts.
BadValues BadValuesOfText(std::string_view text);

// The same of a text or number of an entry; `threshold` as of ReadEntryFacts.
BadValues BadValuesOfNode(const dump::Node& node,
                          double threshold = std::numeric_limits<double>::infinity());

// One entry, looked at once.
struct EntryFacts {
  BadValues first_input = 0;   // of the first positional argument
  BadValues other_inputs = 0;  // of the other arguments, keyword arguments apart from "out", and
                               // parameters
  BadValues output = 0;
  bool has_bad_parameters = false;
  BadValues constants = 0;             // kinds among plain numbers given as arguments, e.g. -inf
  bool has_huge_constant = false;      // a plain number that float16 cannot hold
  bool inputs_look_like_masks = true;  // every bad input has -inf and otherwise nothing above zero
  bool has_lowest_input = false;       // some input's Min is the lowest number of a floating type
  bool is_recompute = false;
  bool is_object = false;  // the entry has members at all
};

// `text` is the entry's JSON value. `threshold` is infinite where only NaN and infinities count.
Result<EntryFacts> ReadEntryFacts(std::string_view text, double threshold);

// The meaning of bad outputs by an operator's name and constants.
enum class Behaviour : uint8_t {
  kOrdinary,
  kUninitialised,  // torch.empty and its like: whatever lay in memory
  kFill,           // its bad outputs are the constant it was given
  kLowestMask,     // -inf, because a mask of the lowest finite number was added to
};

struct Operator {
  static constexpr uint32_t kNoCall = UINT32_MAX;

  std::string_view name;  // lives as long as the rank
  uint64_t text_offset = 0;
  uint32_t text_bytes = 0;
  uint32_t index = 0;       // among all operators of the rank, in the file's order
  uint32_t call = kNoCall;  // place among RankDump::communications
  BadValues input = 0;      // of what counts as data; of communication see the call
  BadValues output = 0;
  Behaviour behaviour = Behaviour::kOrdinary;
  bool inputs_look_like_masks = false;
  bool is_module = false;
  bool takes_no_masks = false;      // -inf has no business in its inputs
  bool has_bad_parameters = false;  // of a module: its weights were bad before it ran
  bool is_recompute = false;
};

// The bad values of an endpoint of a communication.
struct EndpointValues {
  uint32_t operator_place = 0;  // in RankDump::operators
  BadValues data = 0;           // going in, apart from buffers to be filled; a receiver has none
  BadValues output = 0;
};

struct RankDump {
  explicit RankDump(int64_t number = 0)
      : rank(number), communications(number, dump::MatchRules::kLibraries) {}

  int64_t rank;
  std::filesystem::path folder;
  bool is_mindspore = false;
  uint64_t damaged = 0;  // operators that could not be read
  bool truncated = false;
  std::vector<std::string> warnings;  // without the rank's number
  uint64_t operator_count = 0;
  bool has_statistics = false;  // some tensor's Max was recorded, as a search needs it
  uint64_t size_bytes = 0;
  std::vector<Operator> operators;  // those that matter, in the file's order
  dump::RankCommunications communications;
  std::vector<EndpointValues> endpoints;  // one per endpoint of `communications`
  std::unique_ptr<base::TextArena> names = std::make_unique<base::TextArena>();
};

struct LoadOptions {
  double threshold = std::numeric_limits<double>::infinity();
};

// An error when dump.json cannot be read at all; a damaged entry is a warning.
Result<RankDump> LoadRank(int64_t rank, const std::filesystem::path& folder,
                          const LoadOptions& options);

}  // namespace msprobe::analysis::nonfinite
