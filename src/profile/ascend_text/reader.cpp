#include "src/profile/ascend_text/reader.h"

#include "src/profile/ascend_text/csv_files.h"
#include "src/profile/ascend_text/json_files.h"
#include "src/profile/ascend_text/trace.h"

namespace msprobe::profile {
namespace {

Profile NewProfile(const std::filesystem::path& path, Source source) {
  Profile profile;
  profile.path = path;
  profile.device = Device::kNpu;
  profile.source = source;
  return profile;
}

// What else is asked for stands in smaller files, so that the trace stays shut.
bool NeedsTrace(const Needs& needs) {
  return needs.operators || needs.kernels || needs.flows || needs.python_calls || needs.memory ||
         needs.communication || needs.overlap;
}

}  // namespace

Result<Profile> ReadAscendTrace(const std::filesystem::path& file, const Needs& needs) {
  Profile profile = NewProfile(file, Source::kTrace);
  if (NeedsTrace(needs)) {
    AscendTraceReader reader(needs);
    MSP_RETURN_IF_ERROR(reader.Read(file, profile));
  }
  return profile;
}

Result<Profile> ReadAscendText(const std::filesystem::path& root,
                               const std::filesystem::path& output, const Needs& needs) {
  Profile profile = NewProfile(root, Source::kText);
  AscendTraceReader reader(needs);
  if (NeedsTrace(needs)) {
    MSP_RETURN_IF_ERROR(reader.Read(output / "trace_view.json", profile));
  }
  if (needs.kernel_details || needs.kernels) {
    MSP_RETURN_IF_ERROR(ReadKernelDetails(output, needs.strict, profile));
  }
  if (needs.memory) {
    MSP_RETURN_IF_ERROR(ReadOperatorMemory(output, reader.queue(), needs.strict, profile));
  }
  if (needs.overlap) {
    MSP_RETURN_IF_ERROR(ReadMemoryRecord(output, needs.strict, profile));
  }
  if (needs.operator_statistics) {
    MSP_RETURN_IF_ERROR(ReadOperatorStatistic(output, needs.strict, profile));
  }
  if (needs.bandwidth) {
    MSP_RETURN_IF_ERROR(ReadBandwidth(output, needs.strict, profile));
  }
  if (needs.communication) {
    MSP_RETURN_IF_ERROR(ReadGroupNames(root, needs.strict, profile));
  }
  return profile;
}

}  // namespace msprobe::profile
