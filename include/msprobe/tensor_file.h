// Any file that holds tensors (.pt zip and legacy, TorchScript, .npy, .npz, .safetensors, MindSpore
// .ckpt, ATB .bin, kernel dumps of Ascend, GGUF), opened by content, read without executing
// anything in it. Opening is lazy: tensor bytes stay in the mapped file until somebody looks at
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe {

namespace io {
class CodedTensor;
}

enum class TensorFileFormat {
  kPtZip,
  kPtLegacy,
  kTorchScript,
  kNpy,
  kNpz,
  kSafetensors,
  kMindSpore,
  kAtb,
  kKernelDump,  // of an Ascend device, in its layouts
  kGguf,
};
std::string_view TensorFileFormatName(TensorFileFormat format);  // "PyTorch zip", ...

// How the integers of a quantised tensor stand for numbers: (integer - zero point) * scale, in
// float32.
struct Quantization {
  std::string dtype;                // "qint8", "quint8", "qint32"
  std::optional<size_t> axis;       // one scale and zero point per index of this axis; else one
  std::vector<double> scales;       // one, or shape[axis]
  std::vector<double> zero_points;  // as many
};

struct NamedTensor {
  std::vector<std::string>
      path;         // keys and indices from the top object; empty when the file is one bare tensor
  TensorView view;  // borrows from the TensorFile
  bool requires_grad = false;
  bool in_dicts = true;   // the path holds nothing but keys of dicts
  bool is_array = false;  // a NumPy array or a bare storage, not a torch tensor
  Status status;  // not ok: this tensor cannot be read (the others can); view.data is null then

  // More than one: the elements lie in several places (MindSpore splits large parameters), here in
  // order, each a whole number of elements. The view then has dtype and shape, but no data.
  std::vector<std::span<const std::byte>> slices = {};

  // Set for quantised tensors: `view` holds their integers.
  std::shared_ptr<const Quantization> quantization = nullptr;

  // Set for elements that no dtype here stands for ("F4", "F8_E8M0"): `view` holds their bytes.
  std::string raw_dtype = {};
  // Set where those bytes are codes that stand for numbers (GGUF's blocks): they decode it.
  std::shared_ptr<const io::CodedTensor> coded = nullptr;

  // TorchScript: an attribute of a module or a constant of its code, which state_dict() lacks.
  bool is_attribute = false;

  std::string name() const;  // path joined by '.'
};

// A plain value beside the tensors, for people to read.
struct NamedScalar {
  std::vector<std::string> path;
  std::string type;  // "int", "float", "str", "torch.Size", a class name, ...
  std::string text;  // shortened beyond 200 characters
};

class TensorFile {
 public:
  struct Options {
    // Small files are read into this buffer instead of being mapped; it must outlive the file. May
    // be null.
    std::vector<std::byte>* scratch = nullptr;
    // While opening: of inflated zip members and of stored ones up to the size below. For larger
    // ones see VerifyChecksum. A recorded 0 means that none was computed.
    bool verify_checksums = true;
    // 0 leaves the bytes of stored tensors alone until somebody wants them.
    uint64_t verify_stored_up_to_bytes = uint64_t{1} << 20U;
    // Deflated members are inflated as far as their headers reach, and no checksum of them is
    // looked at: shapes and dtypes are right, values are not there.
    bool headers_only = false;
    // Per deflated member; four times this over one file.
    uint64_t max_inflated_bytes = uint64_t{1} << 30U;
    // .npy of dtype V2, as ml_dtypes writes bfloat16; an error otherwise.
    bool void16_is_bfloat16 = false;
    // Tensors that lie in several places are copied into one, max_inflated_bytes in all; otherwise
    // their slices are handed out as they are.
    bool gather_slices = true;
  };

  TensorFile(TensorFile&&) noexcept;
  TensorFile& operator=(TensorFile&&) noexcept;
  ~TensorFile();

  static Result<TensorFile> Open(const std::filesystem::path& path, const Options& options);
  static Result<TensorFile> Open(const std::filesystem::path& path);

  // A file that holds other tensor files, each with one tensor (torch distributed checkpoints).
  // tensors() then has one entry per part, in their order, with an empty path: the tensor, or the
  // status why there is none. The cost is that of the parts, so the caller lets none overlap.
  struct Part {
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
  };
  static Result<TensorFile> OpenParts(const std::filesystem::path& path,
                                      std::span<const Part> parts, const Options& options);

  TensorFileFormat format() const;
  // The size of the file and of what had to be inflated.
  uint64_t size_bytes() const;
  const std::vector<NamedTensor>& tensors() const;  // in file order; aliases appear once per name
  const std::vector<NamedScalar>& scalars() const;
  // Things a careful reader wants to know: "suspicious global os.system (not executed)", "8 bytes
  // after the last tensor".
  const std::vector<std::string>& warnings() const;

  // Where the elements of a tensor of this file are in it, counted from its beginning, so that
  // others can map them. None where they are not there as its view says: inflated, unpacked, in
  // several places, of another byte order or sign, integers that stand for other numbers.
  std::optional<uint64_t> OffsetOf(const NamedTensor& tensor) const;

  // Tells the system that elements [first, first + count) of a tensor of this file are not needed
  // any more, so that a pass over a mapped file larger than memory stays small. Only a hint; the
  // elements stay readable.
  void ReleasePages(const TensorView& tensor, int64_t first, int64_t count) const;

  // Checks the recorded CRC-32 of the zip member that a tensor of this file borrows from, if Open
  // has not done so. Reads the whole member, which may hold other tensors, too; members above
  // `up_to_bytes` are left alone. Ok where nothing is recorded.
  Status VerifyChecksum(const NamedTensor& tensor, uint64_t up_to_bytes = UINT64_MAX) const;

  // The only tensor of a file that must hold exactly one (a dumped tensor). Refused when it repeats
  // its bytes out of proportion to the file (strides of 0).
  Result<const NamedTensor*> Single() const;

 private:
  struct Impl;
  explicit TensorFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writers: the file appears under `path` only when complete, mode 0640. The view may be strided.
Status WritePtFile(const std::filesystem::path& path, const TensorView& tensor);
// bfloat16 and 8-bit floats are widened to float32, which .npy can express.
Status WriteNpyFile(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace msprobe
