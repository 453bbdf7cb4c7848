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

#include "src/analysis/nan/bad_values.h"
#include "src/base/strings.h"
#include "src/dump/communication.h"

namespace msprobe::analysis::nan {

// What an operator's name and constants say about bad values in its outputs.
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

}  // namespace msprobe::analysis::nan
