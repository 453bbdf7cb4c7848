// Dump files of a device to arrays that NumPy and PyTorch read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/io/kernel_dump/layout.h"
#include "src/report/document.h"

namespace msprobe::analysis::kernel_dump {

enum class ArrayFile : uint8_t { kNpy, kPt, kBin };

// How files are called; of `dump` ("MatMul.x.4.1.17...") what is converted of it:
enum class ArrayNames : uint8_t {
  kParse,      // <dump>.input.0.npy; in another layout than the device's <dump>.input.0.2x3x4.npy;
               // <dump>.input.0.2_3_4.<dtype>.<FORMAT>.bin
  kVendor,     // the same; of what is not converted <dump>.input.0.<elements>.<dtype>.<FORMAT>.bin
  kMindSpore,  // <type>.<last part of the operator's path>.<task>....input.0.<FORMAT>.npy
};

struct Options {
  std::vector<std::filesystem::path> inputs;  // files and folders, searched recursively
  std::filesystem::path output;               // folder, made when missing
  ArrayFile kind = ArrayFile::kNpy;
  ArrayNames names = ArrayNames::kParse;

  // Plain layout of the arrays: "NCHW"; empty: the layout of the device.
  std::string format;
  // Instead: each tensor in the layout and shape that the framework knows.
  bool to_original = false;
  std::optional<Shape> shape;  // to cut the padding down to, where the file tells no original shape
  std::optional<int64_t> input;          // the number of the only input to convert
  std::optional<int64_t> output_number;  // the same of outputs
  std::string filter;                    // shell pattern of file names; empty: all

  // Also <output>/parse_index.csv: a row per array.
  bool index = false;
  size_t threads = 0;  // 0: all cores
};

// The outcome for dump files.

// A tensor, buffer or record of a file, and the file that was made of it.
struct Converted {
  std::string what;  // "input.0", "output.1", "l1buffer.0", "overflow"
  std::string data_type;
  std::string device_format;
  std::string format;  // of the array that was written
  Shape shape;         // the same
  std::filesystem::path path;
  Status status;  // not ok: nothing was written
};

struct FileResult {
  std::filesystem::path path;
  std::string op_type;  // from the name; empty where it has none
  std::string op_name;  // from the header, else from the name
  std::vector<Converted> parts;
  std::vector<std::string> warnings;
  uint64_t bytes = 0;
  Status status;  // not ok: the file as a whole cannot be read
};

// As one process hands it to another (base/shared_run.h).
template <typename Archive>
void PackMembers(Archive& archive, Converted& part) {
  archive(part.what, part.data_type, part.device_format, part.format, part.shape, part.path,
          part.status);
}
template <typename Archive>
void PackMembers(Archive& archive, FileResult& file) {
  archive(file.path, file.op_type, file.op_name, file.parts, file.warnings, file.bytes,
          file.status);
}

struct Findings {
  std::vector<FileResult> files;                      // in the order of their paths
  uint64_t left_out = 0;                              // files that are not dumps: tables, mappings
  std::vector<std::filesystem::path> written_beside;  // index, list of failures
  uint64_t bytes = 0;
  std::vector<std::string> missing;  // sentences about processes that did not deliver
  // False in a process that handed its share to another one; nothing else here is of use then.
  bool reports = true;

  uint64_t converted() const;
  uint64_t failed_parts() const;
  uint64_t failed_files() const;  // with at least one failure
  // The message of the first failure, with the path of its file; empty when there is none.
  std::string FirstFailure() const;
};

// Writes the tensors of dumps as files of their own.

// "npy", "pt", "bin"
std::string_view SuffixOf(ArrayFile kind);

// As it lies. Where NumPy has no such type: bfloat16 becomes float32; 8-bit floats float64, as the
// Python tool writes them.
Status WriteArray(const std::filesystem::path& path, ArrayFile kind, const TensorView& view);

// Writes a device array in `layout`; `device` is plain. .npy and .bin are written piece by piece.
Status WriteConverted(const std::filesystem::path& path, ArrayFile kind, const TensorView& device,
                      const io::kernel_dump::Layout& layout);

// A table beside the arrays: which file became which.

// <folder>/parse_index.csv: a row per tensor, buffer and record. Returns its path.
Result<std::filesystem::path> WriteIndex(const std::filesystem::path& folder,
                                         const Findings& findings);

// <folder>/convert_failed_file_list.txt: a line per file that could not be converted whole, its
// path and what of it failed, ",input:0,output:1". Returns its path.
Result<std::filesystem::path> WriteFailedList(const std::filesystem::path& folder,
                                              const Findings& findings);

// Documents of a conversion of dumps, and of a search for their lines of code.

report::Document MakeDocument(const Findings& findings, const std::filesystem::path& output);
report::Document MakeDocument(const CodeMapping& mapping);

// kNotFound when there is nothing to convert, kUsage when a result exists that may not be replaced.
// A file or tensor that cannot be read is reported in the findings, and the others go on. Results
// do not depend on the number of threads. Under a launcher each process converts its share of the
// files, and the first one answers.
Result<Findings> Run(const Options& options);

}  // namespace msprobe::analysis::kernel_dump
