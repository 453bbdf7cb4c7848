// TensorBoard event files: records with a checksum around little protobuf messages, encoded here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::monitor {

// The first record of every file.
void AppendFileVersion(double wall_time_s, std::string& out);
// One number of one tag: a simple_value, a float, as every viewer reads it. NaN and infinities are
// numbers here; what is too large for a float becomes an infinity.
void AppendScalar(std::string_view tag, int64_t step, double value, double wall_time_s,
                  std::string& out);

// "events.out.tfevents.<seconds>.<host>.<process>.<counter>"; the counter is one per call of this
// process, so no name comes twice.
std::string EventFileName(double wall_time_s);
double WallTimeNow();

}  // namespace msprobe::monitor
