// The input as the record log of a step under capture: parsed, and turned into the JSON files.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "src/dump/record_log.h"
#include "src/kernels/crc32.h"

namespace {

// Frames with the checksums that belong to them: no mutation would ever hit one.
std::string WithChecksums(std::string log) {
  constexpr size_t kMagicBytes = 8;
  constexpr size_t kHeadBytes = 8;
  for (size_t at = kMagicBytes; at + kHeadBytes <= log.size();) {
    uint32_t payload_bytes = 0;
    std::memcpy(&payload_bytes, log.data() + at, sizeof payload_bytes);
    if (payload_bytes > log.size() - at - kHeadBytes) {
      break;
    }
    const uint32_t checksum =
        msprobe::kernels::Crc32(std::string_view(log).substr(at + kHeadBytes, payload_bytes));
    std::memcpy(log.data() + at + sizeof payload_bytes, &checksum, sizeof checksum);
    at += kHeadBytes + payload_bytes;
  }
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::dump;
  const std::string bytes = WithChecksums(std::string(reinterpret_cast<const char*>(data), size));
  msprobe::Result<RecordLog> log = RecordLog::Parse(bytes);
  if (!log.ok()) {
    return 0;
  }
  // Frames name source files, which are read: not here.
  for (RecordLog::Stack& stack : log->stacks) {
    for (LogFrame& frame : stack.frames) {
      frame.file = "";
    }
  }
  static_cast<void>(DumpJsonText(*log));
  static_cast<void>(ConstructJsonText(*log));
  static_cast<void>(StackJsonText(*log, SourceFiles::kPython));
  return 0;
}
