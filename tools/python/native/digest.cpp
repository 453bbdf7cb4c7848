#include "tools/python/native/digest.h"

#include <vector>

#include "msprobe/digest.h"

#include "tools/python/native/arguments.h"
#include "tools/python/native/state.h"
#include "tools/python/native/tensor.h"

namespace msprobe::python {
namespace {

constexpr const char* kDigestCapsule = "msprobe.digest";

msprobe_digest* DigestOf(PyObject* capsule) {
  return static_cast<msprobe_digest*>(PyCapsule_GetPointer(capsule, kDigestCapsule));
}

int ReadDigest(PyObject* capsule, void* out) {
  msprobe_digest* digest = DigestOf(capsule);
  *static_cast<msprobe_digest**>(out) = digest;
  return digest == nullptr ? 0 : 1;
}

}  // namespace

template <>
struct Unit<msprobe_digest*> : ConvertedUnit<msprobe_digest*, ReadDigest> {};

namespace {

void CloseDigest(PyObject* capsule) { msprobe_digest_close(DigestOf(capsule)); }

// digest_open(settings as JSON) -> a digest, closed with its last reference
PyObject* OpenDigest(std::string_view settings) {
  msprobe_digest* digest = nullptr;
  if (const int code = msprobe_digest_open(Text(settings), &digest); code != MSPROBE_OK) {
    return Fail(code);
  }
  PyObject* capsule = PyCapsule_New(digest, kDigestCapsule, CloseDigest);
  if (capsule == nullptr) msprobe_digest_close(digest);
  return capsule;
}

// digest_add(digest, place of the parameter, offset, tensor on the host)
PyObject* AddToDigest(msprobe_digest* digest, long long parameter, Tuple offset, PyObject* tensor) {
  std::vector<int64_t> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_Size(offset); ++i) {
    numbers.push_back(PyLong_AsLongLong(PyTuple_GetItem(offset, i)));
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  const InsideGuard inside(ThisThread());
  const ModesAside modes;
  int code = MSPROBE_ERROR_USAGE;
  if (!UseTensor(tensor, [&](const msprobe_tensor& described, bool /*on_device*/) {
        code = msprobe_digest_add(digest, static_cast<size_t>(parameter), numbers.data(),
                                  numbers.size(), &described);
      })) {
    return nullptr;
  }
  if (code != MSPROBE_OK) return Fail(code);
  Py_RETURN_NONE;
}

// digest_text(digest) -> the content of its file
PyObject* DigestText(msprobe_digest* digest) {
  const char* text = nullptr;
  size_t length = 0;
  if (const int code = msprobe_digest_text(digest, &text, &length); code != MSPROBE_OK) {
    return Fail(code);
  }
  return PyUnicode_FromStringAndSize(text, static_cast<Py_ssize_t>(length));
}

PyMethodDef digest_methods[] = {
    Method<"digest_open", OpenDigest>(),
    Method<"digest_add", AddToDigest>(),
    Method<"digest_text", DigestText>(),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* DigestMethods() { return digest_methods; }

}  // namespace msprobe::python
