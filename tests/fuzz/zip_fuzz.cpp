// Whole files through format detection, and every member of those that are archives.
#include <cstdint>

#include "src/io/zip.h"
#include "tests/fuzz/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  constexpr uint64_t kLimitBytes = 1 << 20;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const msprobe::Result<ZipArchive> archive = ZipArchive::Open(bytes); archive.ok()) {
    for (const ZipEntry& entry : archive->entries()) {
      static_cast<void>(entry.IsSafeToExtract());
      const msprobe::Result<ZipBytes> content = archive->Read(entry, kLimitBytes, true);
      if (content.ok() && content->bytes.size() != entry.size_bytes) {
        __builtin_trap();
      }
    }
  }
  msprobe::TensorFile::Options options;
  options.max_inflated_bytes = kLimitBytes;
  options.verify_checksums = false;
  TensorFileContents contents;
  if (ReadTensorBytes(bytes, options, contents).ok()) {
    TouchTensors(contents);
  }
  return 0;
}
