// What one tensor file turned out to hold, while it is being read: the inside of a TensorFile
// without the file itself.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/io/pickle_value.h"
#include "src/io/zip.h"

namespace msprobe::io {

struct TensorFileContents {
  TensorFileFormat format = TensorFileFormat::kPtZip;
  std::vector<NamedTensor> tensors;
  std::vector<NamedScalar> scalars;
  std::vector<std::string> warnings;

  // What the views borrow from beside the file's own bytes.
  std::vector<ZipBytes> inflated;
  uint64_t inflated_bytes = 0;  // of the members in it
  uint64_t opened_bytes = 0;    // of the members that OpenTensorMember was asked for, in the file
  std::vector<Pickle> pickles;
  std::vector<std::vector<std::byte>> unpacked;  // elements that take less than a byte in the file

  // A stored member whose checksum nobody has looked at yet; in order of address once the file is
  // open.
  struct UncheckedMember {
    std::span<const std::byte> bytes;
    ZipEntry entry;
  };
  std::vector<UncheckedMember> unchecked;
};

// Reads a whole tensor file from memory, whatever its format; `bytes` must outlive the contents.
Status ReadTensorBytes(std::span<const std::byte> bytes, const TensorFile::Options& options,
                       TensorFileContents& contents);

// One format each.
Status ReadPtZip(const ZipArchive& archive, const ZipEntry& data_pickle,
                 const TensorFile::Options& options, TensorFileContents& contents);
Status ReadPtLegacy(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadNpy(std::span<const std::byte> bytes, const TensorFile::Options& options,
               TensorFileContents& contents);
Status ReadNpz(const ZipArchive& archive, const TensorFile::Options& options,
               TensorFileContents& contents);
Status ReadSafetensors(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadMindSpore(std::span<const std::byte> bytes, const TensorFile::Options& options,
                     TensorFileContents& contents);
Status ReadAtb(std::span<const std::byte> bytes, TensorFileContents& contents);
Status ReadKernelDumpTensors(std::span<const std::byte> bytes, const TensorFile::Options& options,
                             TensorFileContents& contents);
// Whether the first bytes can be those of a MindSpore checkpoint, which has no magic number.
bool LooksLikeMindSpore(std::span<const std::byte> bytes);

// The content of a member that tensors will borrow from: inflated under the options' limit,
// checksummed when small or inflated, otherwise noted as unchecked. To be asked for once per
// member: members that together are longer than the file overlap, and are refused.
Result<std::span<const std::byte>> OpenTensorMember(const ZipArchive& archive,
                                                    const ZipEntry& entry,
                                                    const TensorFile::Options& options,
                                                    TensorFileContents& contents);

}  // namespace msprobe::io
