// A stream of frames as a checker and a training read them: headers, payloads of every kind
// whatever the checksum says, and the names of files in a shared folder.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "src/online/frame.h"

namespace {

using namespace msprobe::online;  // NOLINT: one component is what this is about

// What a reader gave must be what a writer makes again.
void SendAgain(const FrameHeader& header, const Call& call) {
  const auto frame = CallFrame(header.session, header.sequence, call);
  if (!frame.ok() || frame->size_bytes() < kFrameHeaderBytes) {
    std::abort();
  }
  uint64_t read = 0;
  for (const CallTensor& tensor : call.tensors) {
    for (const std::byte byte : tensor.bytes) {
      read += static_cast<uint64_t>(byte);
    }
  }
  static volatile uint64_t sink = 0;
  sink = sink + read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data), size);
  if (const auto file = ParseFolderFileName({reinterpret_cast<const char*>(data), size}); file) {
    if (FolderFileName(*file) != std::string_view(reinterpret_cast<const char*>(data), size)) {
      std::abort();
    }
  }
  while (rest.size() >= kFrameHeaderBytes) {
    const auto header = ReadFrameHeader(rest.first(kFrameHeaderBytes));
    if (!header.ok()) {
      return 0;
    }
    rest = rest.subspan(kFrameHeaderBytes);
    if (header->payload_bytes > rest.size()) {
      return 0;
    }
    const auto payload = rest.first(static_cast<size_t>(header->payload_bytes));
    (void)CheckPayload(*header, payload).ok();
    switch (header->kind) {
      case FrameKind::kHello:
        (void)ReadHello(payload).ok();
        break;
      case FrameKind::kCall:
        if (const auto call = ReadCall(payload); call.ok()) {
          SendAgain(*header, *call);
        }
        break;
      case FrameKind::kEnd:
        (void)ReadEnd(payload).ok();
        break;
      case FrameKind::kRefused:
        (void)ReadRefused(payload).ok();
        break;
      case FrameKind::kGreeting:
      case FrameKind::kChallenge:
      case FrameKind::kProof:
        (void)ReadDigest(payload).ok();
        break;
      case FrameKind::kTaken:
        break;
    }
    rest = rest.subspan(payload.size());
  }
  return 0;
}
