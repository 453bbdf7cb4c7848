// Memory for the payload of a frame: it grows with what has come, so that a lying header takes
// none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::online {

// `read` fills a span as a whole. The result keeps the bytes.
template <typename Read>
Result<std::shared_ptr<const std::vector<std::byte>>> ReadPayload(uint64_t bytes, Read&& read) {
  constexpr uint64_t kFirstBytes = uint64_t{1} << 20U;
  auto payload = std::make_shared<std::vector<std::byte>>();
  while (payload->size() < bytes) {
    const uint64_t old = payload->size();
    const uint64_t grown = std::min<uint64_t>(bytes, std::max(old * 2, kFirstBytes));
    payload->resize(grown);
    MSP_RETURN_IF_ERROR(read(std::span(*payload).subspan(old)));
  }
  return std::shared_ptr<const std::vector<std::byte>>(std::move(payload));
}

}  // namespace msprobe::online
