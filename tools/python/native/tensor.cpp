#include "tools/python/native/tensor.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/python/native/seen_tensors.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

// From here on other Python threads may run while the bytes are read.
constexpr int64_t kReleaseFromElements = 65536;

// A described tensor and what its pointers point into. Not to be copied or moved.
struct Fields {
  Fields() = default;
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  msprobe_tensor tensor = {};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::string type;
  std::string dtype;
  int64_t elements = 0;
  Ref holder;  // of the bytes, where the tensor itself is not
};

struct Names {
  PyObject* shape = Interned("shape");
  PyObject* stride = Interned("stride");
  PyObject* dtype = Interned("dtype");
  PyObject* layout = Interned("layout");
  PyObject* is_cpu = Interned("is_cpu");
  PyObject* device = Interned("device");
  PyObject* type = Interned("type");
  PyObject* index = Interned("index");
  PyObject* data_ptr = Interned("data_ptr");
  PyObject* storage_offset = Interned("storage_offset");
  PyObject* local_tensor = Interned("_local_tensor");
  PyObject* trigger_wait = Interned("trigger_wait");
  PyObject* element_size = Interned("element_size");
  PyObject* requires_grad = Interned("requires_grad");
  PyObject* is_conj = Interned("is_conj");
  PyObject* is_neg = Interned("is_neg");
  PyObject* array_interface = Interned("__array_interface__");
  PyObject* name = Interned("name");
  PyObject* itemsize = Interned("itemsize");
};
const Names& Known() {
  static const Names* names = new Names;
  return *names;
}

bool ReadNumbers(PyObject* numbers, std::vector<int64_t>* out) {
  const Py_ssize_t count = PyTuple_Check(numbers) ? PyTuple_Size(numbers) : -1;
  if (count < 0) return false;
  out->resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int64_t number = PyLong_AsLongLong(PyTuple_GetItem(numbers, i));
    if (number == -1 && PyErr_Occurred() != nullptr) return false;
    (*out)[static_cast<size_t>(i)] = number;
  }
  return true;
}

const DtypeEntry& DtypeOf(PyObject* dtype) {
  State& state = Global();
  if (const auto known = state.dtypes.find(dtype); known != state.dtypes.end())
    return known->second;
  Py_INCREF(dtype);  // the key stays valid; there are few dtypes
  return state.dtypes.emplace(dtype, DtypeEntry{Spelled(dtype), MSPROBE_DTYPE_UNKNOWN})
      .first->second;
}

bool IsTrue(const Ref& answer) {
  if (!answer) {
    PyErr_Clear();
    return false;
  }
  return answer.get() == Py_True;
}

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent <= 0) return 0;
    if (__builtin_mul_overflow(elements, extent, &elements)) return 0;
  }
  return elements;
}

// Calls `use`, which reads the bytes; while they are many, without the interpreter's lock.
template <typename Use>
void Read(const Fields& fields, const Use& use) {
  if (fields.elements < kReleaseFromElements || fields.tensor.data == nullptr) {
    use(fields.tensor);
    return;
  }
  PyThreadState* saved = PyEval_SaveThread();
  use(fields.tensor);
  PyEval_RestoreThread(saved);
}

void Put(msprobe_entry* entry, const Fields& fields, uint64_t identity = 0) {
  Read(fields, [entry, identity](const msprobe_tensor& tensor) { msprobe_put_tensor_known(entry, &tensor, identity); });
}

// Whether the elements lie one behind the other, row by row.
bool IsRowMajor(const Fields& fields) {
  int64_t expected = 1;
  for (size_t axis = fields.shape.size(); axis-- > 0;) {
    if (fields.shape[axis] != 1 && fields.strides[axis] != expected) return false;
    expected *= fields.shape[axis];
  }
  return true;
}

// As in seen_tensors.h; 0 for a tensor that is small or not in row-major order.
uint64_t IdentityIfWorthIt(PyObject* tensor, const Fields& fields) {
  const msprobe_tensor& described = fields.tensor;
  if (described.data == nullptr || described.flags != 0) return 0;
  const uint64_t bytes = static_cast<uint64_t>(fields.elements) * msprobe_dtype_bytes(described.dtype_code);
  if (bytes < kLeastSeenBytes || !IsRowMajor(fields)) return 0;
  return IdentityOf(tensor, described.data, bytes, described.dtype_code);
}

// A tensor of an accelerator: the Python side says where its bytes lie and, when it reduced the
// statistics on the device, takes the ticket under which they are filled in later.
bool PutDeviceTensor(msprobe_entry* entry, PyObject* tensor, msprobe_tensor* described) {
  const State& state = Global();
  if (!state.device_tensor) return false;
  // (kind, index, address, stream, strides or None, flags, what keeps the memory until the copy is
  // queued, take_ticket or None)
  const Ref answer = Call(state.device_tensor.get(), tensor);
  if (!answer || !PyTuple_Check(answer.get()) || PyTuple_Size(answer.get()) != 8) return false;
  const auto item = [&answer](Py_ssize_t i) { return PyTuple_GetItem(answer.get(), i); };
  described->device = static_cast<int32_t>(PyLong_AsLong(item(0)));
  described->device_index = static_cast<int32_t>(PyLong_AsLong(item(1)));
  described->data = PyLong_AsVoidPtr(item(2));
  described->stream = PyLong_AsVoidPtr(item(3));
  std::vector<int64_t> strides;
  if (item(4) != Py_None && !ReadNumbers(item(4), &strides)) return false;
  described->strides = item(4) == Py_None ? nullptr : strides.data();
  described->flags = static_cast<uint32_t>(PyLong_AsUnsignedLong(item(5)));
  if (PyErr_Occurred() != nullptr) return false;
  const bool deferred = item(7) != Py_None;
  uint64_t ticket = 0;
  // Copies may have to wait for room: other Python threads run meanwhile.
  PyThreadState* saved = PyEval_SaveThread();
  if (deferred) {
    ticket = msprobe_put_tensor_deferred(entry, described);
  } else {
    msprobe_put_tensor(entry, described);
  }
  PyEval_RestoreThread(saved);
  if (ticket == 0) return true;
  const Ref number(PyLong_FromUnsignedLongLong(ticket));
  const Ref taken = number ? Call(item(7), number.get()) : Ref();
  if (!taken) PyErr_Clear();  // the statistics stay null
  return true;
}

// Where the values of a tensor are.
enum class ValueLocation {
  kNowhere,  // none, or not to be read: sparse, quantised, of an unknown dtype, ...
  kHost,
  kDevice
};

void ReadDescription(PyObject* tensor, const DtypeEntry& dtype, Fields* out) {
  const Names& names = Known();
  out->tensor.type = Text("torch.Tensor");
  out->tensor.dtype = Text(dtype.text);
  out->tensor.dtype_code = dtype.code;
  out->tensor.requires_grad = IsTrue(Attribute(tensor, names.requires_grad)) ? 1 : 0;
}

// Shape, and where the values are.
ValueLocation FindValues(PyObject* tensor, Fields* out) {
  const Names& names = Known();
  bool readable = out->tensor.dtype_code != MSPROBE_DTYPE_UNKNOWN;
  if (const Ref sizes = Attribute(tensor, names.shape);
      !sizes || !ReadNumbers(sizes.get(), &out->shape)) {
    PyErr_Clear();  // nested tensors have no shape
    out->shape.clear();
    readable = false;
  }
  out->tensor.shape = out->shape.data();
  out->tensor.dimensions = static_cast<int32_t>(out->shape.size());
  out->elements = Elements(out->shape);
  readable = readable && out->elements > 0 &&
             Attribute(tensor, names.layout).get() == Global().strided.get();
  PyErr_Clear();
  if (!readable) return ValueLocation::kNowhere;
  // Most are on the host, and this costs a tenth of asking for the device.
  if (Attribute(tensor, names.is_cpu).get() == Py_True) return ValueLocation::kHost;
  PyErr_Clear();
  const Ref device = Attribute(tensor, names.device);
  const Ref type = device ? Attribute(device.get(), names.type) : Ref();
  if (!type) {
    PyErr_Clear();
    return ValueLocation::kNowhere;
  }
  if (PyUnicode_CompareWithASCIIString(type.get(), "cpu") == 0) return ValueLocation::kHost;
  const bool is_meta = PyUnicode_CompareWithASCIIString(type.get(), "meta") == 0;
  return is_meta ? ValueLocation::kNowhere : ValueLocation::kDevice;
}

// Programs have their memory above this address, unless they were linked to a fixed one.
constexpr uintptr_t kUsualMemory = uintptr_t{1} << 40;

// Whether an address is nothing but an offset into a storage that is not there: the tensor is a wrapper around others
// (DTensor), or its storage was freed (FSDP).
bool IsBareOffset(PyObject* tensor, uintptr_t address) {
  const Names& names = Known();
  const Ref offset = CallMethod(tensor, names.storage_offset);
  const Ref size = CallMethod(tensor, names.element_size);
  const bool known = offset && size;
  const uint64_t bytes = known ? PyLong_AsUnsignedLongLong(offset.get()) *
                                     PyLong_AsUnsignedLongLong(size.get())
                               : 0;
  if (PyErr_Occurred() != nullptr || !known) {
    PyErr_Clear();
    return true;
  }
  return bytes == address;
}

// Address, strides and flags of values.
void ReadAddress(PyObject* tensor, Fields* out) {
  const Names& names = Known();
  msprobe_tensor& described = out->tensor;
  const Ref address = CallMethod(tensor, names.data_ptr);
  described.data = address ? PyLong_AsVoidPtr(address.get()) : nullptr;
  if (const auto at = reinterpret_cast<uintptr_t>(described.data);
      at != 0 && at < kUsualMemory && IsBareOffset(tensor, at)) {
    described.data = nullptr;
  }
  const Ref steps = CallMethod(tensor, names.stride);
  if (!steps || !ReadNumbers(steps.get(), &out->strides) ||
      out->strides.size() != out->shape.size()) {
    described.data = nullptr;
  }
  PyErr_Clear();  // a tensor without storage (a tracer's stand-in) has no values
  described.strides = out->strides.data();
  if (described.dtype_code == MSPROBE_COMPLEX64 || described.dtype_code == MSPROBE_COMPLEX128) {
    if (IsTrue(CallMethod(tensor, names.is_conj))) described.flags |= MSPROBE_TENSOR_CONJUGATED;
  }
  if (IsTrue(CallMethod(tensor, names.is_neg))) described.flags |= MSPROBE_TENSOR_NEGATED;
}

// DLPack's table of functions, version 1: a framework gives what its tensors are without an object for each number.
struct ExchangedTensor {
  void* data;
  struct {
    int32_t type;
    int32_t index;
  } device;
  int32_t dimensions;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  const int64_t* shape;
  const int64_t* strides;
  uint64_t byte_offset;
};
struct ExchangeFunctions {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  const void* older;
  void* make;
  void* give;
  void* take;
  // The tensor as it is, borrowed from the object; not 0 with a Python error.
  int (*describe)(void* object, ExchangedTensor* out);
  void* stream;
};
constexpr uint32_t kExchangeMajor = 1;
constexpr int32_t kExchangedHost = 1;

// FindValues and ReadAddress in one call, for tensors of the framework's own classes that lie on the host. False where that is not so:
// nothing is known then.
bool ReadExchanged(PyObject* tensor, Fields* out) {
  const State& state = Global();
  const auto* functions = static_cast<const ExchangeFunctions*>(state.exchange);
  msprobe_tensor& described = out->tensor;
  if (functions == nullptr || described.dtype_code == MSPROBE_DTYPE_UNKNOWN || described.dtype_code == MSPROBE_COMPLEX64 ||
      described.dtype_code == MSPROBE_COMPLEX128) {
    return false;
  }
  PyTypeObject* type = Py_TYPE(tensor);
  if (std::find(state.exchanged_types.begin(), state.exchanged_types.end(), type) == state.exchanged_types.end()) return false;
  ExchangedTensor found = {};
  if (functions->describe(tensor, &found) != 0) {
    PyErr_Clear();
    return false;
  }
  if (found.device.type != kExchangedHost || found.dimensions < 0 || found.byte_offset != 0 || (found.dimensions > 0 && found.strides == nullptr) ||
      reinterpret_cast<uintptr_t>(found.data) < kUsualMemory) {
    return false;
  }
  out->shape.assign(found.shape, found.shape + found.dimensions);
  out->strides.assign(found.strides, found.strides + found.dimensions);
  out->elements = Elements(out->shape);
  if (out->elements == 0) return false;
  described.shape = out->shape.data();
  described.strides = out->strides.data();
  described.dimensions = found.dimensions;
  described.data = found.data;
  if (IsTrue(CallMethod(tensor, Known().is_neg))) described.flags |= MSPROBE_TENSOR_NEGATED;
  return true;
}

// Shape, and address, strides and flags of values on the host.
ValueLocation ReadPlace(PyObject* tensor, Fields* out) {
  if (ReadExchanged(tensor, out)) return ValueLocation::kHost;
  const ValueLocation location = FindValues(tensor, out);
  if (location == ValueLocation::kHost) ReadAddress(tensor, out);
  return location;
}

// What a wrapper without memory of its own holds on this rank: the part of a DTensor, or the result of a collective that
// is waited for, as by any other use of it. Empty for other tensors.
Ref HeldTensor(PyObject* tensor) {
  const Names& names = Known();
  Ref held = Attribute(tensor, names.local_tensor);
  if (!held) {
    PyErr_Clear();
    const Ref waits = Attribute(tensor, names.trigger_wait);
    if (waits) held = Ref(PyObject_CallFunctionObjArgs(waits.get(), nullptr));
  }
  const bool is_tensor = held && held.get() != tensor && Attribute(held.get(), names.dtype);
  PyErr_Clear();
  if (!is_tensor) return {};
  return held;
}

bool MayWrap(ValueLocation location, const Fields& fields) {
  return location == ValueLocation::kDevice ||
         (location == ValueLocation::kHost && fields.tensor.data == nullptr);
}

// A tensor of another framework; false with a Python error when it cannot be described.
bool ReadOtherTensor(PyObject* tensor, Fields* out) {
  const State& state = Global();
  // (type, dtype, code, shape, requires_grad, contiguous array or None)
  out->holder = state.other_tensor ? Call(state.other_tensor.get(), tensor) : Ref();
  PyObject* answer = out->holder.get();
  if (answer == nullptr || !PyTuple_Check(answer) || PyTuple_Size(answer) != 6 ||
      !ReadNumbers(PyTuple_GetItem(answer, 3), &out->shape)) {
    return false;
  }
  const auto item = [answer](Py_ssize_t i) { return PyTuple_GetItem(answer, i); };
  out->type = Spelled(item(0));
  out->dtype = Spelled(item(1));
  msprobe_tensor& described = out->tensor;
  described.type = Text(out->type);
  described.dtype = Text(out->dtype);
  described.dtype_code = static_cast<int32_t>(PyLong_AsLong(item(2)));
  described.shape = out->shape.data();
  described.dimensions = static_cast<int32_t>(out->shape.size());
  described.requires_grad = static_cast<int32_t>(PyLong_AsLong(item(4)));
  if (item(5) != Py_None) {
    const Ref face = Attribute(item(5), Known().array_interface);
    PyObject* data =
        face && PyDict_Check(face.get()) ? PyDict_GetItemString(face.get(), "data") : nullptr;
    if (data != nullptr && PyTuple_Check(data)) {
      described.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    }
  }
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    described.data = nullptr;
  }
  out->elements = Elements(out->shape);
  return true;
}

// A DTensor whose part is still under way.
constexpr int kDeepestWrapper = 2;

void PutHeld(msprobe_entry* entry, std::string_view name, PyObject* tensor, int depth,
             bool requires_grad) {
  const Ref dtype = Attribute(tensor, Known().dtype);
  if (!dtype) {
    ReportPythonError(name);
    msprobe_put_null(entry);
    return;
  }
  Fields fields;
  ReadDescription(tensor, DtypeOf(dtype.get()), &fields);
  requires_grad = requires_grad || fields.tensor.requires_grad == 1;
  fields.tensor.requires_grad = requires_grad ? 1 : 0;
  const ValueLocation location = ReadPlace(tensor, &fields);
  if (MayWrap(location, fields) && depth < kDeepestWrapper) {
    if (const Ref held = HeldTensor(tensor)) {
      PutHeld(entry, name, held.get(), depth + 1, requires_grad);
      return;
    }
  }
  if (location == ValueLocation::kDevice) {
    if (PutDeviceTensor(entry, tensor, &fields.tensor)) return;
    ReportPythonError(name);
    fields.tensor.data = nullptr;
    fields.tensor.strides = nullptr;
  }
  Put(entry, fields, location == ValueLocation::kHost ? IdentityIfWorthIt(tensor, fields) : 0);
}

}  // namespace

void PutTensor(msprobe_entry* entry, std::string_view name, PyObject* tensor) {
  PutHeld(entry, name, tensor, 0, false);
}

void PutArray(msprobe_entry* entry, std::string_view name, PyObject* array) {
  const Names& names = Known();
  Fields fields;
  msprobe_tensor& described = fields.tensor;
  described.type = Text("numpy.ndarray");
  described.requires_grad = -1;
  described.flags = MSPROBE_TENSOR_NUMPY;
  const Ref dtype = Attribute(array, names.dtype);
  const Ref face = dtype ? Attribute(array, names.array_interface) : Ref();
  if (!face || !PyDict_Check(face.get())) {
    ReportPythonError(name);
    msprobe_put_null(entry);
    return;
  }
  // Big-endian and structured arrays spell their dtype differently and are described without
  // values.
  fields.dtype = Spelled(dtype.get());
  described.dtype = Text(fields.dtype);
  described.dtype_code = MSPROBE_DTYPE_UNKNOWN;
  for (const auto& [unused, known] : Global().dtypes) {
    if (known.text == fields.dtype || known.text == "torch." + fields.dtype) {
      described.dtype_code = known.code;
    }
  }
  PyObject* sizes = PyDict_GetItemString(face.get(), "shape");
  if (sizes == nullptr || !ReadNumbers(sizes, &fields.shape)) {
    PyErr_Clear();
    described.dtype_code = MSPROBE_DTYPE_UNKNOWN;
  }
  described.shape = fields.shape.data();
  described.dimensions = static_cast<int32_t>(fields.shape.size());
  fields.elements = Elements(fields.shape);
  if (described.dtype_code != MSPROBE_DTYPE_UNKNOWN && fields.elements > 0) {
    PyObject* data = PyDict_GetItemString(face.get(), "data");
    if (data != nullptr && PyTuple_Check(data)) {
      described.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    }
    PyObject* steps = PyDict_GetItemString(face.get(), "strides");
    if (steps != nullptr && steps != Py_None) {
      const Ref size = Attribute(dtype.get(), names.itemsize);
      const int64_t bytes = size ? PyLong_AsLongLong(size.get()) : 0;
      bool usable = bytes > 0 && ReadNumbers(steps, &fields.strides) &&
                    fields.strides.size() == fields.shape.size();
      for (int64_t& step : fields.strides) {
        usable = usable && step >= 0 && step % bytes == 0;
        if (usable) step /= bytes;
      }
      if (usable) {
        described.strides = fields.strides.data();
      } else {
        described.data = nullptr;
      }
    }
    PyErr_Clear();
  }
  Put(entry, fields);
}

void PutOtherTensor(msprobe_entry* entry, std::string_view name, PyObject* tensor) {
  Fields fields;
  if (ReadOtherTensor(tensor, &fields)) {
    Put(entry, fields);
  } else {
    ReportPythonError(name);
    msprobe_put_null(entry);
  }
}

namespace {

// What a wrapper holds is described in its place. False with a Python error.
bool DescribeAny(PyObject* tensor, Fields* fields, bool* on_device) {
  if (KindOf(tensor) == Kind::kOtherTensor) return ReadOtherTensor(tensor, fields);
  for (int depth = 0;; ++depth) {
    fields->tensor = {};
    const Ref dtype = Attribute(tensor, Known().dtype);
    if (!dtype) return false;
    ReadDescription(tensor, DtypeOf(dtype.get()), fields);
    const ValueLocation location = ReadPlace(tensor, fields);
    Ref held = depth < kDeepestWrapper && MayWrap(location, *fields) ? HeldTensor(tensor) : Ref();
    if (!held) {
      *on_device = location == ValueLocation::kDevice;
      return true;
    }
    fields->holder = std::move(held);
    tensor = fields->holder.get();
  }
}

}  // namespace

bool DescribeRange(PyObject* tensor, const std::function<void(const msprobe_tensor&)>& use) {
  Fields fields;
  bool on_device = false;
  if (!DescribeAny(tensor, &fields, &on_device)) return false;
  use(fields.tensor);
  return true;
}

bool UseTensor(PyObject* tensor,
               const std::function<void(const msprobe_tensor&, bool on_device)>& use) {
  Fields fields;
  bool on_device = false;
  if (!DescribeAny(tensor, &fields, &on_device)) return false;
  Read(fields, [&](const msprobe_tensor& described) { use(described, on_device); });
  return true;
}

bool UseTensors(PyObject* first, PyObject* second,
                const std::function<void(const msprobe_tensor&, const msprobe_tensor&)>& use) {
  Fields left;
  Fields right;
  bool on_device = false;
  if (!DescribeAny(first, &left, &on_device) || !DescribeAny(second, &right, &on_device)) {
    return false;
  }
  Read(left, [&](const msprobe_tensor& described) { use(described, right.tensor); });
  return true;
}

bool UseAllTensors(PyObject* tensors,
                   const std::function<void(std::span<const msprobe_tensor>)>& use) {
  std::vector<Fields> fields(static_cast<size_t>(PyList_Size(tensors)));
  std::vector<msprobe_tensor> described;
  for (size_t i = 0; i < fields.size(); ++i) {
    bool on_device = false;
    if (!DescribeAny(PyList_GetItem(tensors, static_cast<Py_ssize_t>(i)), &fields[i], &on_device)) {
      return false;
    }
    described.push_back(fields[i].tensor);
  }
  if (fields.empty()) {
    use({});
    return true;
  }
  // The largest decides whether other Python threads run meanwhile.
  const auto largest = std::max_element(
      fields.begin(), fields.end(), [](const Fields& left, const Fields& right) {
        return left.elements < right.elements;
      });
  Read(*largest, [&](const msprobe_tensor& /*largest*/) { use(described); });
  return true;
}

bool ReduceOnDevice(PyObject* tensor, int device, int index, void* stream, void* row,
                    void* scratch) {
  const Ref dtype = Attribute(tensor, Known().dtype);
  if (!dtype) {
    PyErr_Clear();
    return false;
  }
  Fields fields;
  ReadDescription(tensor, DtypeOf(dtype.get()), &fields);
  if (FindValues(tensor, &fields) != ValueLocation::kDevice) return false;
  ReadAddress(tensor, &fields);
  fields.tensor.device = device;
  fields.tensor.device_index = index;
  fields.tensor.stream = stream;
  return msprobe_reduce_on_device(&fields.tensor, row, scratch) == MSPROBE_OK;
}

PyObject* HostStatistics(PyObject* tensor, bool keeps_half) {
  const int rounding = keeps_half ? MSPROBE_ROUND_TO_OWN_HALF : MSPROBE_ROUND_TO_FLOAT32;
  double values[4] = {};
  int code = MSPROBE_ERROR_USAGE;
  const bool described =
      UseTensor(tensor, [&](const msprobe_tensor& fields, bool /*on_device*/) {
        if (fields.data != nullptr) code = msprobe_tensor_statistics(&fields, rounding, values);
      });
  if (!described) return nullptr;
  if (code != MSPROBE_OK) Py_RETURN_NONE;
  return Py_BuildValue("(dddd)", values[0], values[1], values[2], values[3]);
}

}  // namespace msprobe::python
