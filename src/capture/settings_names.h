// Inside of the room: how config.json and dump.json spell the choices of settings.h.
#pragma once

#include <array>
#include <string_view>

#include "src/capture/settings.h"
#include "src/json/settings_reader.h"

namespace msprobe::capture {

using json::Choice;
using json::NameOf;

inline constexpr std::array<Choice<Task>, 5> kTasks = {{{"statistics", Task::kStatistics},
                                                        {"tensor", Task::kTensor},
                                                        {"structure", Task::kStructure},
                                                        {"overflow_check", Task::kOverflowCheck},
                                                        {"nan_check", Task::kNanCheck}}};
inline constexpr std::array<Choice<Level>, 5> kLevels = {{{"L0", Level::kL0},
                                                          {"L1", Level::kL1},
                                                          {"mix", Level::kMix},
                                                          {"L2", Level::kL2},
                                                          {"debug", Level::kDebug}}};
inline constexpr std::array<Choice<Framework>, 3> kFrameworks = {
    {{"pytorch", Framework::kPyTorch},
     {"mindspore", Framework::kMindSpore},
     {"mindtorch", Framework::kMindTorch}}};
inline constexpr std::array<Choice<SummaryMode>, 3> kSummaryModes = {
    {{"statistics", SummaryMode::kStatistics},
     {"md5", SummaryMode::kMd5},
     {"xor", SummaryMode::kXor}}};
inline constexpr std::array<Choice<RiskLevel>, 3> kRiskLevels = {
    {{"ALL", RiskLevel::kAll}, {"FOCUS", RiskLevel::kFocus}, {"CORE", RiskLevel::kCore}}};
inline constexpr std::array<Choice<Precision>, 2> kPrecisions = {
    {{"high", Precision::kHigh}, {"low", Precision::kLow}}};
inline constexpr std::array<Choice<ApiBackward>, 2> kApiBackwards = {
    {{"last_node", ApiBackward::kLastNode}, {"inputs", ApiBackward::kInputs}}};

}  // namespace msprobe::capture
