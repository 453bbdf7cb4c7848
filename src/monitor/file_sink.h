// Inside of the room: the writer of the format, and the alerts, behind one door.
#pragma once

#include <filesystem>
#include <memory>

#include "msprobe/status.h"

#include "src/monitor/rank_topology.h"
#include "src/monitor/settings.h"
#include "src/monitor/writer_thread.h"

namespace msprobe::monitor {

// `folder` exists, unless the format is api: then nothing but alerts is written.
Result<std::shared_ptr<Sink>> MakeFileSink(const std::filesystem::path& folder,
                                           const std::filesystem::path& output_root,
                                           const RankTopology& topology, const Settings& settings);

}  // namespace msprobe::monitor
