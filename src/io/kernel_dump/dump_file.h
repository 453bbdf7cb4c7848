// The file that an Ascend device writes for one kernel: a length, a Protocol Buffers message that
// describes inputs, outputs and buffers, and their bytes in the layout of the device. And the
// other file of small ("nano") chips, with a header of tagged lengths.
//
//   uint64 n | message of n bytes | inputs | outputs | buffers | workspaces
//
// Layouts and numbers: docs/formats/kernel_dumps.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io::kernel_dump {

// A file is refused beyond these.
inline constexpr uint64_t kLongestKernelDumpHeader = uint64_t{64} << 20U;
inline constexpr size_t kMostKernelTensors = 65536;

// The origin of an output of a fused operator in the model before its fusion.
struct OriginalOutput {
  std::string op;  // with the framework's slashes
  uint32_t output = 0;
};

struct DumpedTensor {
  uint32_t data_type = 0;                // format.h
  uint32_t format = 2;                   // format.h
  int32_t sub_format = 0;                // the low 16 bits: groups of a FRACTAL_Z weight
  std::optional<Shape> shape;            // on the device; absent where the file tells none
  std::optional<Shape> original_shape;   // of the framework
  uint64_t size_bytes = 0;               // as the header says
  std::optional<uint64_t> address;       // in the memory of the device; absent if not recorded
  std::optional<OriginalOutput> origin;  // of an output
  std::span<const std::byte> data = {};  // borrowed from the file
  Status status = {};                    // not ok: there is no data; the others can be read

  unsigned groups() const { return static_cast<unsigned>(sub_format) & 0xFFFFU; }
};

// Memory of the kernel that is not a tensor: L1 buffers and workspaces.
struct DumpedBytes {
  uint32_t type = 0;  // 0: L1 buffer; 0: log of a workspace
  std::span<const std::byte> data = {};
  Status status = {};
};

struct KernelDump {
  bool is_nano = false;
  std::string version;
  uint64_t dump_time = 0;  // microseconds since 1970; 0: not recorded
  std::string op_name;     // with the framework's slashes; empty in nano dumps
  std::vector<DumpedTensor> inputs;
  std::vector<DumpedTensor> outputs;
  std::vector<DumpedBytes> buffers;
  std::vector<DumpedBytes> workspaces;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::string> warnings;
};

// Whether the first bytes can be those of a kernel dump: there is no magic number, so the whole
// header is walked.
bool LooksLikeKernelDump(std::span<const std::byte> bytes);

// `bytes` must outlive the result. A file that ends early is read as far as it goes: what lies
// behind its end has a status.
Result<KernelDump> ReadKernelDump(std::span<const std::byte> bytes);
// The same, known to be of a nano chip by its magic number.
Result<KernelDump> ReadNanoDump(std::span<const std::byte> bytes);
bool IsNanoDump(std::span<const std::byte> bytes);

// A tensor as msprobe reads it, in the layout of the device.
struct PlainTensor {
  TensorView view;
  std::vector<std::byte> owned;  // what the view borrows from where bytes had to be unpacked
  bool is_opaque = false;        // bytes of an unknown type
};
// `limit_bytes`: of memory for unpacked elements.
Result<PlainTensor> ToPlain(const DumpedTensor& tensor, uint64_t limit_bytes);

}  // namespace msprobe::io::kernel_dump
