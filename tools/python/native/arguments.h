// Functions of Python's tables as ordinary C++ functions: the types of the parameters say how the arguments are read.
//
//   PyObject* Save(msprobe_capture* capture, std::string_view name, PyObject* value);
//   {..., Recorded<"save", Save>(), ...}
//
// A first parameter that is not an argument (`Receiver`) stands for what the call needs: the open capture, the engine behind `self`.
// The others become one format of PyArg_ParseTuple when the extension is compiled, so that a call costs what it did when that format was
// written by hand. The limited API of 3.8 has neither vectorcall nor PyUnicode_AsUTF8AndSize, which rules out anything quicker.
// Python reports wrong arguments itself, under the function's name: "save() takes exactly 2 arguments (1 given)".
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/python/native/guard.h"
#include "tools/python/native/python_api.h"

namespace msprobe::python {

// A text in a template argument.
template <size_t size>
struct Literal {
  char text[size] = {};
  consteval Literal(const char (&given)[size]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < size; ++i) text[i] = given[i];
  }
};

// An argument of exactly this type of Python or one below it.
template <PyTypeObject* type>
struct Instance {
  PyObject* object = nullptr;
  operator PyObject*() const { return object; }  // NOLINT(google-explicit-constructor)
};
using List = Instance<&PyList_Type>;
using Tuple = Instance<&PyTuple_Type>;
using Dict = Instance<&PyDict_Type>;
using Str = Instance<&PyUnicode_Type>;

// How PyArg_ParseTuple reads a parameter of type T: its piece of the format, the places that it fills, and the value that they give.
template <typename T>
struct Unit;

template <typename T, char letter>
struct PlainUnit {
  static constexpr std::array kFormat = {letter};
  T value = {};
  std::tuple<T*> Places() { return {&value}; }
  T Get() const { return value; }
};
template <>
struct Unit<PyObject*> : PlainUnit<PyObject*, 'O'> {};
template <>
struct Unit<int> : PlainUnit<int, 'i'> {};
template <>
struct Unit<unsigned int> : PlainUnit<unsigned int, 'I'> {};
template <>
struct Unit<long> : PlainUnit<long, 'l'> {};
template <>
struct Unit<long long> : PlainUnit<long long, 'L'> {};
template <>
struct Unit<unsigned long long> : PlainUnit<unsigned long long, 'K'> {};
template <>
struct Unit<double> : PlainUnit<double, 'd'> {};

template <>
struct Unit<bool> {
  static constexpr std::array kFormat = {'p'};
  int value = 0;
  std::tuple<int*> Places() { return {&value}; }
  bool Get() const { return value != 0; }
};

// str as UTF-8, or bytes; lives as long as the arguments.
template <>
struct Unit<std::string_view> {
  static constexpr std::array kFormat = {'s', '#'};
  const char* data = nullptr;
  Py_ssize_t length = 0;
  std::tuple<const char**, Py_ssize_t*> Places() { return {&data, &length}; }
  std::string_view Get() const { return {data, static_cast<size_t>(length)}; }
};

template <PyTypeObject* type>
struct Unit<Instance<type>> {
  static constexpr std::array kFormat = {'O', '!'};
  PyObject* value = nullptr;
  std::tuple<PyTypeObject*, PyObject**> Places() { return {type, &value}; }
  Instance<type> Get() const { return {value}; }
};

// An argument that may be left out.
template <typename T, T otherwise>
struct Optional {
  T value = otherwise;
  operator T() const { return value; }  // NOLINT(google-explicit-constructor)
};
template <typename T, T otherwise>
struct Unit<Optional<T, otherwise>> : Unit<T> {
  static constexpr bool kOptional = true;
  Unit() { this->value = otherwise; }
  Optional<T, otherwise> Get() const { return {this->value}; }
};

// A value that `convert` makes of an argument: 1, or 0 with a Python error.
template <typename T, int (*convert)(PyObject*, void*)>
struct ConvertedUnit {
  static constexpr std::array kFormat = {'O', '&'};
  T value = {};
  std::tuple<int (*)(PyObject*, void*), T*> Places() { return {convert, &value}; }
  T Get() { return std::move(value); }
};

// A list of numbers.
using Numbers = std::vector<double>;
inline int ReadNumbers(PyObject* list, void* out) {
  if (PyList_Check(list) == 0) {
    PyErr_SetString(PyExc_TypeError, "numbers must be a list");
    return 0;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    static_cast<Numbers*>(out)->push_back(PyFloat_AsDouble(PyList_GetItem(list, i)));
  }
  return PyErr_Occurred() == nullptr ? 1 : 0;
}
template <>
struct Unit<Numbers> : ConvertedUnit<Numbers, ReadNumbers> {};

// A parameter that is not an argument: `static T From(PyObject* self)`, null with a Python error.
template <typename T>
struct Receiver;

// The open capture.
template <>
struct Receiver<msprobe_capture*> {
  static msprobe_capture* From(PyObject* /*self*/) {
    msprobe_capture* capture = Global().capture;
    if (capture == nullptr) PyErr_SetString(PyExc_RuntimeError, "no capture is open");
    return capture;
  }
};

template <typename T>
concept IsReceiver = requires { Receiver<T>::From(nullptr); };

// The units of all parameters under the name that messages use.
template <Literal name, typename... Parameters>
class ArgumentReader {
 public:
  // False with a Python error.
  bool Read(PyObject* args) {
    return std::apply([args](auto... place) { return PyArg_ParseTuple(args, kFormat.data(), place...) != 0; }, Places());
  }

  auto Values() {
    return std::apply([](auto&... unit) { return std::tuple<Parameters...>(unit.Get()...); }, units_);
  }

 private:
  auto Places() {
    return std::apply([](auto&... unit) { return std::tuple_cat(unit.Places()...); }, units_);
  }

  static constexpr auto kFormat = [] {
    std::array<char, (Unit<Parameters>::kFormat.size() + ... + 0) + 2 + sizeof(name.text)> format = {};
    size_t end = 0;
    [[maybe_unused]] bool may_end = false;
    const auto append = [&](const auto& piece) {
      for (const char letter : piece) format[end++] = letter;
    };
    [[maybe_unused]] const auto append_unit = [&]<typename T>() {
      if constexpr (requires { T::kOptional; }) {
        if (!std::exchange(may_end, true)) format[end++] = '|';
      }
      append(T::kFormat);
    };
    (append_unit.template operator()<Unit<Parameters>>(), ...);
    append(std::array{':'});
    append(name.text);  // with its closing 0
    return format;
  }();

  std::tuple<Unit<Parameters>...> units_;
};

// The elements of a tuple inside of an argument, by the same rules. False with a Python error.
template <Literal name, typename... Parameters>
bool ReadTuple(PyObject* tuple, Parameters*... out) {
  if (PyTuple_Check(tuple) == 0) {
    PyErr_Format(PyExc_TypeError, "%s must be a tuple", name.text);
    return false;
  }
  ArgumentReader<name, Parameters...> arguments;
  if (!arguments.Read(tuple)) return false;
  std::tie(*out...) = arguments.Values();
  return true;
}

template <Literal name, auto function>
class Binder {
 public:
  static constexpr int Flags() { return Flags(function); }
  static PyObject* Call(PyObject* self, PyObject* args) { return CallWith(function, self, args); }

 private:
  template <typename... Parameters>
  static constexpr int Flags(PyObject* (*)(Parameters...)) {
    return sizeof...(Parameters) > 0 ? METH_VARARGS : METH_NOARGS;
  }
  template <IsReceiver First, typename... Parameters>
  static constexpr int Flags(PyObject* (*)(First, Parameters...)) {
    return sizeof...(Parameters) > 0 ? METH_VARARGS : METH_NOARGS;
  }

  template <typename... Parameters>
  static PyObject* CallWith(PyObject* (*)(Parameters...), PyObject* /*self*/, PyObject* args) {
    ArgumentReader<name, Parameters...> arguments;
    if (sizeof...(Parameters) > 0 && !arguments.Read(args)) return nullptr;
    return std::apply(function, arguments.Values());
  }
  template <IsReceiver First, typename... Parameters>
  static PyObject* CallWith(PyObject* (*)(First, Parameters...), PyObject* self, PyObject* args) {
    ArgumentReader<name, Parameters...> arguments;
    if (sizeof...(Parameters) > 0 && !arguments.Read(args)) return nullptr;
    const First receiver = Receiver<First>::From(self);
    if (!receiver) return nullptr;
    return std::apply(function, std::tuple_cat(std::tuple<First>(receiver), arguments.Values()));
  }
};

// A row of a table of functions or methods.
template <Literal name, auto function>
constexpr PyMethodDef Method() {
  using Bound = Binder<name, function>;
  return {name.text, Guarded<Bound::Call>, Bound::Flags(), nullptr};
}

// The same for one that records something: a C++ exception in it counts as a lost record.
template <Literal name, auto function>
constexpr PyMethodDef Recorded() {
  using Bound = Binder<name, function>;
  return {name.text, GuardedRecord<Bound::Call>, Bound::Flags(), nullptr};
}

}  // namespace msprobe::python
