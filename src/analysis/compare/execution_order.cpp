#include "src/analysis/compare/execution_order.h"

#include <string_view>
#include <unordered_map>

namespace msprobe::analysis::compare {
namespace {

using dump::Direction;

// "Module.a.fc.Linear.forward.0" and "Module.a.fc.Linear.parameters_grad" -> "Module.a.fc.Linear".
std::string_view ModulePrefix(std::string_view entry_name, const dump::EntryName& parsed) {
  if (parsed.class_name.data() != nullptr && !parsed.class_name.empty()) {
    return entry_name.substr(0, static_cast<size_t>(parsed.class_name.data() +
                                                    parsed.class_name.size() - entry_name.data()));
  }
  return entry_name.substr(0, entry_name.rfind('.'));
}

}  // namespace

ExecutionPlan PlanExecution(const Side& side) {
  const auto count = static_cast<uint32_t>(side.entries.size());
  ExecutionPlan plan;
  plan.names.reserve(count);
  plan.partner.assign(count, kNoEntry);
  plan.module_of.assign(count, kNoEntry);
  std::unordered_map<std::string_view, uint32_t> forward_entries;
  std::unordered_map<std::string_view, uint32_t> module_numbers;
  forward_entries.reserve(count);
  uint32_t last_backward = kNoEntry;
  std::vector<uint32_t> last_backward_of_module;
  for (uint32_t entry = 0; entry < count; ++entry) {
    const std::string_view name = side.entries[entry].name;
    plan.names.push_back(dump::ParseEntryName(name));
    const dump::EntryName& parsed = plan.names.back();
    if (parsed.is_module || parsed.is_parameters_grad) {
      const auto [found, is_new] =
          module_numbers.try_emplace(ModulePrefix(name, parsed), plan.module_count);
      plan.module_count += is_new ? 1 : 0;
      last_backward_of_module.resize(plan.module_count, kNoEntry);
      plan.module_of[entry] = found->second;
    }
    if (parsed.direction == Direction::kForward) {
      forward_entries.emplace(name, entry);
    } else if (parsed.direction == Direction::kBackward) {
      last_backward = entry;
      if (parsed.is_module) {
        last_backward_of_module[plan.module_of[entry]] = entry;
      }
    }
  }

  // followers[i]: parameters_grad entries that come behind entry i, chained through next_follower.
  std::vector<uint32_t> first_follower(count, kNoEntry);
  std::vector<uint32_t> next_follower(count, kNoEntry);
  std::vector<uint32_t> at_end;
  for (uint32_t entry = count; entry-- > 0;) {
    const dump::EntryName& parsed = plan.names[entry];
    if (parsed.is_parameters_grad) {
      plan.partner[entry] = last_backward_of_module[plan.module_of[entry]];
      const uint32_t leader = plan.partner[entry] != kNoEntry ? plan.partner[entry] : last_backward;
      if (leader == kNoEntry) {
        at_end.push_back(entry);
      } else {
        next_follower[entry] = first_follower[leader];
        first_follower[leader] = entry;
      }
    } else if (parsed.direction == Direction::kBackward) {
      const auto found =
          forward_entries.find(dump::WithDirection(side.entries[entry].name, Direction::kForward));
      plan.partner[entry] = found == forward_entries.end() ? kNoEntry : found->second;
    }
  }

  plan.order.reserve(count);
  for (uint32_t entry = 0; entry < count; ++entry) {
    if (plan.names[entry].is_parameters_grad) {
      continue;
    }
    plan.order.push_back(entry);
    for (uint32_t follower = first_follower[entry]; follower != kNoEntry;
         follower = next_follower[follower]) {
      plan.order.push_back(follower);
    }
  }
  plan.order.insert(plan.order.end(), at_end.rbegin(), at_end.rend());
  return plan;
}

}  // namespace msprobe::analysis::compare
