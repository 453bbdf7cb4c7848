// Inside of the room: how the configuration spells the choices of settings.h.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/json/config.h"
#include "src/monitor/settings.h"

namespace msprobe::monitor {

inline constexpr std::array<json::Choice<Format>, 4> kFormats = {
    {{"csv", Format::kCsv},
     {"tensorboard", Format::kTensorBoard},
     {"sqlite", Format::kSqlite},
     {"api", Format::kApi}}};
inline constexpr std::array<json::Choice<SquashRules>, 2> kSquashRules = {
    {{"first", SquashRules::kFirst}, {"anchored", SquashRules::kAnchored}}};
inline constexpr std::array<json::Choice<AlertRule::Kind>, 2> kRuleNames = {
    {{"AnomalyTurbulence", AlertRule::Kind::kTurbulence}, {"AnomalyNan", AlertRule::Kind::kNan}}};

// The statistics that "ops" may name: those that are no tensor's are left out.
const std::vector<std::string>& WantedStatistics();
std::optional<Statistic> FindWantedStatistic(std::string_view name);

}  // namespace msprobe::monitor
