// Inside of the room: the two ends of flows, met by their number. The last start and the last end
// of a number count; flows come out in order of first appearance.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/profile/common/texts.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

class FlowTable {
 public:
  // `id` as the file spells it.
  void Begin(std::string_view id, Nanoseconds at, TextId process, TextId thread);
  void End(std::string_view id, Nanoseconds at, TextId process, TextId thread);
  // Those that have both ends.
  std::vector<Flow> Complete() const;

 private:
  struct Ends {
    Flow flow;
    bool has_start = false;
    bool has_end = false;
  };
  Ends& Of(std::string_view id);

  Texts names_;  // of flows whose number is none
  std::unordered_map<int64_t, uint32_t> numbered_;
  std::unordered_map<TextId, uint32_t> named_;
  std::vector<Ends> flows_;
};

}  // namespace msprobe::profile
