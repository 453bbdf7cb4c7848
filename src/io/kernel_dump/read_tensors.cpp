// A kernel dump as a tensor file among others: its inputs and outputs by number, in the layout of
// the device.
#include <utility>

#include <fmt/format.h>

#include "src/io/contents.h"
#include "src/io/kernel_dump/data_type.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/format.h"

namespace msprobe::io {
namespace {

namespace kd = kernel_dump;

void AddTensors(const char* what, const std::vector<kd::DumpedTensor>& tensors, uint64_t& limit,
                TensorFileContents& contents) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const kd::DumpedTensor& dumped = tensors[i];
    NamedTensor tensor;
    tensor.path = {what, std::to_string(i)};
    tensor.is_array = true;
    Result<kd::PlainTensor> plain = kd::ToPlain(dumped, limit);
    if (plain.ok()) {
      tensor.view = std::move(plain->view);
      if (!plain->owned.empty()) {
        limit -= plain->owned.size();
        contents.unpacked.push_back(std::move(plain->owned));
      }
    } else {
      tensor.status = std::move(plain).status();
    }
    contents.scalars.push_back(
        {{what, std::to_string(i), "format"}, "str", kd::FormatName(dumped.format)});
    if (dumped.original_shape) {
      contents.scalars.push_back({{what, std::to_string(i), "original_shape"},
                                  "tuple",
                                  ShapeText(*dumped.original_shape)});
    }
    contents.tensors.push_back(std::move(tensor));
  }
}

}  // namespace

Status ReadKernelDumpTensors(std::span<const std::byte> bytes, const TensorFile::Options& options,
                             TensorFileContents& contents) {
  contents.format = TensorFileFormat::kKernelDump;
  MSP_ASSIGN_OR_RETURN(kd::KernelDump dump, kd::ReadKernelDump(bytes));
  uint64_t limit = options.max_inflated_bytes;
  if (!dump.op_name.empty()) {
    contents.scalars.push_back({{"op_name"}, "str", dump.op_name.substr(0, 200)});
  }
  AddTensors("input", dump.inputs, limit, contents);
  AddTensors("output", dump.outputs, limit, contents);
  for (size_t i = 0; i < dump.buffers.size(); ++i) {
    contents.scalars.push_back({{"l1buffer", std::to_string(i)},
                                "bytes",
                                fmt::format("{} bytes", dump.buffers[i].data.size())});
  }
  for (size_t i = 0; i < dump.workspaces.size(); ++i) {
    contents.scalars.push_back({{"space", std::to_string(i)},
                                "bytes",
                                fmt::format("{} bytes", dump.workspaces[i].data.size())});
  }
  for (std::string& warning : dump.warnings) {
    contents.warnings.push_back(std::move(warning));
  }
  return {};
}

}  // namespace msprobe::io
