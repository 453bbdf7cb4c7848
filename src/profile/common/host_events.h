// Inside of the room: what the host did, which traces of GPUs and NPUs write alike.
#pragma once

#include <cstdint>
#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/common/flow_table.h"
#include "src/profile/common/trace_events.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

// Events that cannot be placed (no time, one before 1970 that the machine cannot have meant, a
// negative length) are left out; false for those. `earliest`: of clocks that count from elsewhere.
bool HasUsableTime(const TraceEvent& event, Nanoseconds earliest = 0);

// An operator; a step marker ("ProfilerStep#5") is also a step.
void AddOperator(const TraceEvent& event, const Needs& needs, Profile& profile);
void AddPythonCall(const TraceEvent& event, Profile& profile);
// One end of a flow.
void AddFlowEnd(const TraceEvent& event, Texts& texts, FlowTable& flows);

// For JSON that holds nothing of a profile; says what it is instead.
Status NoProfileError(const std::filesystem::path& file, const TraceOutcome& outcome);

// What a trace that breaks off, or holds events that were left out, means for the result: an error
// when `needs` are strict, else warnings.
Status Conclude(const std::filesystem::path& file, const TraceOutcome& outcome,
                uint64_t without_time, const Needs& needs, Profile& profile);

}  // namespace msprobe::profile
