// From inert pickle objects to tensors: what PyTorch's and NumPy's rebuild functions would have
// made of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/io/npy.h"
#include "src/io/pickle_value.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::io {

// Quantised tensors as the numbers they stand for.

// "scale 0.1, zero point 3", "32 scales from 0.01 to 0.2 along axis 0, zero points 0".
std::string QuantizationText(const Quantization& quantization);

// The float32 values of a quantised tensor, row-major, as PyTorch's dequantize() makes them:
// (integer - zero point) * scale, each step rounded to float32. Fails for more than `limit_bytes`
// of them.
Result<tensor::TensorBuffer> Dequantize(const NamedTensor& tensor, size_t limit_bytes);

// A parsed persistent id: ('storage', class, key, location, number of elements [, view]).
struct StorageReference {
  std::string_view key;
  DType dtype = DType::kUInt8;
  bool untyped = false;       // the element count is in bytes; the tensor brings its own dtype
  bool without_data = false;  // on the meta device
  int64_t element_count = 0;
  // A part of another storage, in elements (files of torch < 0.4).
  bool is_view = false;
  int64_t view_offset = 0;
  int64_t view_size = 0;
};
Result<StorageReference> ParseStorageReference(const Pickle& pickle, PickleId persistent_id);
// element_count in bytes, checked.
Result<uint64_t> StorageBytes(const StorageReference& reference);

// Where the bytes of storages come from.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  // All bytes of a storage, exactly as many as it declares (of the part, for a view).
  virtual Result<std::span<const std::byte>> Find(const StorageReference& reference) = 0;
  bool big_endian = false;
};

class TensorRebuilder {
 public:
  TensorRebuilder(const Pickle& pickle, StorageSource& storages)
      : pickle_(pickle), storages_(storages) {}

  // True when `id` stands for a tensor, a bare storage or a numpy array: view or status, and
  // requires_grad, are then set.
  bool Rebuild(PickleId id, NamedTensor& tensor);

 private:
  // Refuses a storage that another tensor takes for one of another element type: PyTorch writes no
  // such file, and which type counts when it reads one depends on the order.
  Result<StorageReference> StorageOf(PickleId persistent_id);
  Status RebuildStrided(std::span<const PickleId> arguments, bool with_dtype, NamedTensor& tensor);
  Status RebuildQuantized(std::span<const PickleId> arguments, NamedTensor& tensor);
  Result<std::shared_ptr<const Quantization>> QuantizationOf(PickleId quantizer,
                                                             std::string_view dtype);
  Result<std::shared_ptr<const Quantization>> ReadQuantization(std::span<const PickleId> quantizer,
                                                               std::string_view dtype);
  Result<std::vector<double>> ReadNumbers(PickleId id);
  Status RebuildStorage(PickleId persistent_id, TensorView& view);
  Status RebuildNumpy(const PickleObject& object, TensorView& view);
  Status RebuildNumpyBuffer(std::span<const PickleId> arguments, TensorView& view);

  // All bytes of a storage.
  Result<std::span<const std::byte>> BytesOf(const StorageReference& storage);
  // As Pickle::Find. An object may be met a million times: large dicts are searched once.
  PickleId FindOnce(PickleId dict, std::string_view name);
  PickleId FindInState(PickleId state, std::string_view name);
  bool HasFlag(PickleId metadata, std::string_view name);

  const Pickle& pickle_;
  StorageSource& storages_;
  std::unordered_map<std::string_view, DType> storage_dtypes_;  // by key, borrowed from the pickle
  std::unordered_set<std::string_view> storages_read_;          // their keys
  uint64_t storage_bytes_ = 0;                                  // of these
  uint64_t scale_bytes_ = 0;  // of scales and zero points, copied into memory
  std::map<std::pair<PickleId, std::string_view>, PickleId> found_;
  std::map<std::pair<PickleId, std::string_view>, Result<std::shared_ptr<const Quantization>>>
      quantizations_;       // per quantizer and element type
  bool in_scales_ = false;  // while scales and zero points are rebuilt
};

// A numpy.dtype object; also of numpy.core.multiarray.scalar.
Result<NumpyDType> ReadNumpyDTypeObject(const Pickle& pickle, PickleId id);
// torch.float32 and the like as a bare global.
std::optional<DType> TorchDTypeOfGlobal(const Pickle& pickle, PickleId id);

}  // namespace msprobe::io
