// NumPy's .npz: a zip archive of .npy members.
#include <utility>

#include <fmt/format.h>

#include "src/io/contents.h"
#include "src/io/npy.h"

namespace msprobe::io {
namespace {

constexpr std::string_view kSuffix = ".npy";

Status ReadMember(const ZipArchive& archive, const ZipEntry& entry,
                  const TensorFile::Options& options, TensorFileContents& contents,
                  TensorView& view) {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                       OpenTensorMember(archive, entry, options, contents));
  MSP_ASSIGN_OR_RETURN(view, ReadNpyArray(bytes, options.void16_is_bfloat16), "member \"",
                       entry.name, "\"");
  return {};
}

}  // namespace

Status ReadNpz(const ZipArchive& archive, const TensorFile::Options& options,
               TensorFileContents& contents) {
  contents.format = TensorFileFormat::kNpz;
  for (const ZipEntry& entry : archive.entries()) {
    if (archive.Find(entry.name) != &entry) {
      contents.warnings.push_back(fmt::format("member \"{}\" occurs twice; the last one counts",
                                              entry.name.substr(0, 200)));
      continue;
    }
    NamedTensor tensor;
    tensor.path.emplace_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
    tensor.status = ReadMember(archive, entry, options, contents, tensor.view);
    contents.tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace msprobe::io
