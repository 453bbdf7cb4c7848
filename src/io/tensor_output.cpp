#include "src/io/tensor_output.h"

#include <string>

namespace msprobe::io {
namespace {

// Below, a copy costs less than further system calls.
constexpr size_t kJoinBelowBytes = size_t{128} << 10U;
// Above, reserving room is faster than growing page by page.
constexpr size_t kReserveFromBytes = size_t{1} << 20U;

}  // namespace

Status WriteParts(base::AtomicFile& file, std::string_view head, std::span<const std::byte> data,
                  std::string_view tail) {
  const size_t total_bytes = head.size() + data.size() + tail.size();
  if (total_bytes < kJoinBelowBytes) {
    std::string joined;
    joined.reserve(total_bytes);
    joined += head;
    joined.append(reinterpret_cast<const char*>(data.data()), data.size());
    joined += tail;
    return file.Write(joined);
  }
  if (total_bytes >= kReserveFromBytes) {
    MSP_RETURN_IF_ERROR(file.Reserve(total_bytes));
  }
  MSP_RETURN_IF_ERROR(file.Write(head));
  MSP_RETURN_IF_ERROR(file.Write(data));
  return tail.empty() ? Status() : file.Write(tail);
}

}  // namespace msprobe::io
