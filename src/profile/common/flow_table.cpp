#include "src/profile/common/flow_table.h"

#include <optional>

#include "src/base/numbers.h"

namespace msprobe::profile {

FlowTable::Ends& FlowTable::Of(std::string_view id) {
  const auto next = static_cast<uint32_t>(flows_.size());
  const std::optional<int64_t> number = base::ParseInt(id);
  const uint32_t place = number.has_value()
                             ? numbered_.try_emplace(*number, next).first->second
                             : named_.try_emplace(names_.Intern(id), next).first->second;
  if (place == next) {
    flows_.emplace_back();
  }
  return flows_[place];
}

void FlowTable::Begin(std::string_view id, Nanoseconds at, TextId process, TextId thread) {
  Ends& ends = Of(id);
  ends.flow.start = at;
  ends.flow.start_process = process;
  ends.flow.start_thread = thread;
  ends.has_start = true;
}

void FlowTable::End(std::string_view id, Nanoseconds at, TextId process, TextId thread) {
  Ends& ends = Of(id);
  ends.flow.end = at;
  ends.flow.end_process = process;
  ends.flow.end_thread = thread;
  ends.has_end = true;
}

std::vector<Flow> FlowTable::Complete() const {
  std::vector<Flow> complete;
  for (const Ends& ends : flows_) {
    if (ends.has_start && ends.has_end) {
      complete.push_back(ends.flow);
    }
  }
  return complete;
}

}  // namespace msprobe::profile
