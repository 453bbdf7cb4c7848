// Inside of the room: the keys "recording_l2_features", "l2_targets" and "sa_order".
#pragma once

#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/json/config.h"
#include "src/json/writer.h"
#include "src/monitor/settings.h"

namespace msprobe::monitor {

// `warnings`: what means nothing, for the user's eyes.
Status ReadFeatures(const json::Config& config, FeatureSettings& features,
                    std::vector<std::string>& warnings);
void WriteFeatures(const FeatureSettings& features, json::Writer& json);

}  // namespace msprobe::monitor
