#include "tools/python/native/seen_tensors.h"

#include <algorithm>
#include <vector>

#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

struct Seen {
  uint64_t identity = 0;  // 0: a place without a tensor
  const std::byte* data = nullptr;
  size_t bytes = 0;
  int32_t dtype_code = 0;
  long long version = 0;
  Ref tensor;  // weak
};

// Two tensors that come to the same place push each other out.
constexpr size_t kPlaces = 1024;

struct Memory {
  PyObject* version = Interned("_version");
  PyObject* base = Interned("_base");
  PyObject* data_ptr = Interned("data_ptr");
  std::vector<Seen> places;
  size_t count = 0;  // places with a tensor
  uint64_t last_identity = 0;
};
Memory& Known() {
  static Memory* memory = new Memory;
  return *memory;
}

size_t PlaceOf(const std::byte* data) {
  return static_cast<size_t>((reinterpret_cast<uintptr_t>(data) >> 6U) * 0x9E3779B97F4A7C15U >> 54U);
}
static_assert(kPlaces == size_t{1} << (64U - 54U));

// -1 where there is none: tensors of the inference mode do not count writes.
long long VersionOf(PyObject* tensor) {
  const Ref version = Attribute(tensor, Known().version);
  const long long number = version ? PyLong_AsLongLong(version.get()) : -1;
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  return -1;
}

// What a tensor is a view of, or itself; empty where that is unknown.
Ref RootOf(PyObject* tensor) {
  Ref base = Attribute(tensor, Known().base);
  if (!base) PyErr_Clear();
  return base.get() == Py_None ? Ref::Borrow(tensor) : std::move(base);
}

// Whether what was seen is what this tensor shows.
bool IsUnchanged(const Seen& seen, PyObject* tensor, long long version) {
  const Ref before = Ref::Borrow(PyWeakref_GetObject(seen.tensor.get()));
  if (!before || before.get() == Py_None) return false;
  if (version != seen.version) return false;
  if (before.get() == tensor) return true;
  const Ref root = RootOf(tensor);
  const Ref root_before = RootOf(before.get());
  if (!root || root.get() != root_before.get()) return false;
  // The earlier one may lie elsewhere since.
  const Ref address = CallMethod(before.get(), Known().data_ptr);
  const bool same = address && PyLong_AsVoidPtr(address.get()) == seen.data;
  PyErr_Clear();
  return same && VersionOf(before.get()) == version;
}

void Forget(Seen& seen) {
  seen = Seen();
  --Known().count;
}

// The bytes that a tensor can reach, as [begin, end).
bool RangeOf(const msprobe_tensor& tensor, const std::byte** begin, const std::byte** end) {
  if (tensor.data == nullptr) return false;
  uint64_t last = 0;
  for (int32_t axis = 0; axis < tensor.dimensions; ++axis) {
    const int64_t step = tensor.strides == nullptr ? 0 : tensor.strides[axis];
    if (tensor.shape[axis] <= 0) return false;
    last += static_cast<uint64_t>(tensor.shape[axis] - 1) * static_cast<uint64_t>(std::max<int64_t>(step, 0));
  }
  constexpr size_t kWidest = 16;  // where the dtype is unknown, rather too much is forgotten
  const size_t element = msprobe_dtype_bytes(tensor.dtype_code);
  *begin = static_cast<const std::byte*>(tensor.data);
  *end = *begin + (last + 1) * (element != 0 ? element : kWidest);
  return true;
}

}  // namespace

uint64_t IdentityOf(PyObject* tensor, const void* data, size_t bytes, int32_t dtype_code) {
  Memory& memory = Known();
  const long long version = VersionOf(tensor);
  if (version < 0) return 0;
  if (memory.places.empty()) memory.places.resize(kPlaces);
  const auto* begin = static_cast<const std::byte*>(data);
  Seen& seen = memory.places[PlaceOf(begin)];
  if (seen.identity != 0 && seen.data == begin && seen.bytes == bytes && seen.dtype_code == dtype_code &&
      IsUnchanged(seen, tensor, version)) {
    return seen.identity;
  }
  Ref reference(PyWeakref_NewRef(tensor, nullptr));
  if (!reference) {
    PyErr_Clear();
    return 0;
  }
  if (seen.identity == 0) ++memory.count;
  seen.identity = ++memory.last_identity;
  seen.data = begin;
  seen.bytes = bytes;
  seen.dtype_code = dtype_code;
  seen.version = version;
  seen.tensor = std::move(reference);
  return seen.identity;
}

void NoteWritten(PyObject* value) {
  Memory& memory = Known();
  if (memory.count == 0 || value == nullptr) return;
  const Kind kind = KindOf(value);
  if (kind == Kind::kSequence) {
    const bool is_list = PyList_Check(value) != 0;
    for (Py_ssize_t i = 0; i < (is_list ? PyList_Size(value) : PyTuple_Size(value)); ++i) {
      const Ref item = Ref::Borrow(is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i));
      if (item && KindOf(item.get()) == Kind::kTensor) NoteWritten(item.get());
    }
    return;
  }
  if (kind != Kind::kTensor) return;
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool known = false;
  const bool described = DescribeRange(value, [&](const msprobe_tensor& fields) { known = RangeOf(fields, &begin, &end); });
  if (!described) PyErr_Clear();
  if (!known) return;
  for (Seen& seen : memory.places) {
    if (seen.identity != 0 && seen.data < end && begin < seen.data + seen.bytes) Forget(seen);
  }
}

void ForgetSeen() {
  Memory& memory = Known();
  if (memory.count == 0) return;
  for (Seen& seen : memory.places) seen = Seen();
  memory.count = 0;
}

}  // namespace msprobe::python
