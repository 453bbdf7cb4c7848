// The signs of one gradient as the task grad_probe stored them: a bool array (.npy, .pt), or bits
// in a .npz whose members are `bits` (uint8, as numpy.packbits has them) and `shape` (int64).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

namespace msprobe::analysis::grad {

class SignFile {
 public:
  // Elements read at a time: whole bytes of bits.
  static constexpr size_t kBlockElements = size_t{1} << 16U;

  struct Scratch {
    std::vector<std::byte> flags;
    std::vector<std::byte> bits;
  };

  // kBadFormat where it is neither, or holds fewer bits than its shape has elements. `scratch`
  // outlives the file.
  static Result<SignFile> Open(const std::filesystem::path& path, std::vector<std::byte>& scratch);

  const Shape& shape() const { return shape_; }
  bool is_packed() const { return is_packed_; }
  uint64_t size_bytes() const { return file_.size_bytes(); }

  // Elements [first, first + count), a byte each; not of a packed file.
  std::span<const std::byte> Flags(size_t first, size_t count, Scratch& scratch) const;
  // A bit each, the first in the highest bit; `first` is a multiple of 8.
  std::span<const std::byte> Bits(size_t first, size_t count, Scratch& scratch) const;
  // The elements are not needed any more.
  void Release(size_t first, size_t count) const;

 private:
  SignFile(TensorFile file, TensorView view, Shape shape, bool is_packed);

  TensorFile file_;
  TensorView view_;
  Shape shape_;
  bool is_packed_;
};

}  // namespace msprobe::analysis::grad
