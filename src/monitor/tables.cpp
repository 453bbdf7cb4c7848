#include "src/monitor/tables.h"

#include <array>

namespace msprobe::monitor {
namespace {

constexpr std::array<std::string_view, kTableCount> kTableNames = {"actv",
                                                                   "actv_grad",
                                                                   "grad_unreduced",
                                                                   "grad_reduced",
                                                                   "exp_avg",
                                                                   "exp_avg_sq",
                                                                   "param_origin",
                                                                   "param_updated",
                                                                   "update_ratio",
                                                                   kFeatureTables[0].name,
                                                                   kFeatureTables[1].name,
                                                                   kFeatureTables[2].name,
                                                                   kFeatureTables[3].name,
                                                                   "other"};

}  // namespace

std::string_view TableName(Table table) { return kTableNames[static_cast<size_t>(table)]; }

std::optional<FeatureHook> FeatureHookOf(Table table) {
  if (table < Table::kAttentionHook || table > Table::kRouterLogitHook) {
    return std::nullopt;
  }
  return static_cast<FeatureHook>(static_cast<size_t>(table) -
                                  static_cast<size_t>(Table::kAttentionHook));
}

}  // namespace msprobe::monitor
