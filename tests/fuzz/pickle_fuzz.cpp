// The input as one pickle: interpreted, walked and described. All storages are the same 64 bytes.
#include <algorithm>
#include <array>
#include <cstdint>

#include "src/io/pickle_reader.h"
#include "src/io/pickle_tensors.h"
#include "src/io/zip.h"
#include "tests/fuzz/touch_tensors.h"

namespace {

using namespace msprobe::io;

class SmallStorages final : public StorageSource {
 public:
  msprobe::Result<std::span<const std::byte>> Find(const StorageReference& reference) override {
    MSP_ASSIGN_OR_RETURN(const uint64_t wanted, StorageBytes(reference));
    return std::span<const std::byte>(bytes_).first(std::min<size_t>(wanted, bytes_.size()));
  }

 private:
  std::array<std::byte, 64> bytes_{};
};

void ReadOne(std::span<const std::byte> bytes) {
  PickleLimits limits;
  limits.values = 1 << 20;
  limits.stack_and_memo = 1 << 20;
  const msprobe::Result<Pickle> pickle = PickleReader::Read(bytes, limits);
  if (!pickle.ok()) {
    return;
  }
  TensorFileContents contents;
  WarnAboutGlobals(*pickle, contents.warnings);
  for (PickleId id = 0; id < pickle->value_count(); ++id) {
    static_cast<void>(DescribePickleValue(*pickle, id));
    static_cast<void>(pickle->attributes(id));
  }
  SmallStorages storages;
  storages.big_endian = bytes.size() % 2 == 0;
  if (PickleLister(*pickle, storages, contents).Run().ok()) {
    TouchTensors(contents);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  // Seeds are archives: their pickle is what matters.
  if (const msprobe::Result<ZipArchive> archive = ZipArchive::Open(bytes); archive.ok()) {
    for (const ZipEntry& entry : archive->entries()) {
      if (entry.name.ends_with("data.pkl")) {
        if (const auto content = archive->Read(entry, 1 << 20, false); content.ok()) {
          ReadOne(content->bytes);
        }
      }
    }
  }
  ReadOne(bytes);
  return 0;
}
