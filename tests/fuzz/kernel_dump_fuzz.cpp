// A kernel dump: its tensors, and each of them in every plain layout and back.
#include <cstdint>

#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"
#include "src/io/kernel_dump/overflow_record.h"
#include "tests/fuzz/touch_tensors.h"

namespace {

namespace kd = msprobe::io::kernel_dump;
constexpr uint64_t kMostElements = 1 << 16;

void Convert(const kd::DumpedTensor& tensor) {
  if (kd::ReadOverflowRecord(tensor.data).ok()) {
    static_cast<void>(kd::OverflowJson(*kd::ReadOverflowRecord(tensor.data)));
  }
  const msprobe::Result<kd::PlainTensor> plain = kd::ToPlain(tensor, kMostElements * 8);
  if (!plain.ok()) {
    return;
  }
  for (const uint32_t to : {kd::format::kND, kd::format::kNCHW, kd::format::kNHWC,
                            kd::format::kHWCN, kd::format::kNCDHW}) {
    const msprobe::Shape* target = tensor.original_shape ? &*tensor.original_shape : nullptr;
    const msprobe::Result<kd::Layout> layout =
        kd::FindLayout({tensor.format, to, tensor.groups(), &plain->view.shape, target});
    if (!layout.ok() ||
        static_cast<uint64_t>(msprobe::ElementCount(layout->plain_shape)) > kMostElements) {
      continue;
    }
    const size_t bytes = msprobe::DTypeSize(plain->view.dtype);
    std::vector<std::byte> rows(static_cast<size_t>(msprobe::ElementCount(layout->plain_shape)) *
                                bytes);
    kd::ToPlainRows(*layout, bytes, plain->view.bytes(), rows);
    std::vector<std::byte> device(static_cast<size_t>(layout->device_elements) * bytes);
    kd::ToDeviceLayout(*layout, bytes, rows, device);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::io;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(kd::LooksLikeKernelDump(bytes));
  TensorFileContents contents;
  if (ReadKernelDumpTensors(bytes, {}, contents).ok()) {
    TouchTensors(contents);
  }
  const msprobe::Result<kd::KernelDump> dump = kd::ReadKernelDump(bytes);
  if (dump.ok()) {
    for (const kd::DumpedTensor& tensor : dump->inputs) {
      Convert(tensor);
    }
    for (const kd::DumpedTensor& tensor : dump->outputs) {
      Convert(tensor);
    }
  }
  static_cast<void>(kd::ParseDumpFileName({reinterpret_cast<const char*>(data), size}));
  return 0;
}
