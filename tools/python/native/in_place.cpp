#include "tools/python/native/in_place.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>

#include "tools/python/native/arguments.h"
#include "tools/python/native/guard.h"
#include "tools/python/native/intercept.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

// ---- what the limited interface does not show: the same in every CPython from 3.8 on; CheckLayout holds it against this one ----

using Vectorcall = PyObject* (*)(PyObject*, PyObject* const*, size_t, PyObject*);
constexpr size_t kArgumentsOffset = size_t{1} << (8 * sizeof(size_t) - 1);

struct BuiltinLayout {
  PyObject head;
  PyMethodDef* definition;
};
struct DescriptorLayout {  // of a method, or of a slot of a type
  PyObject head;
  PyObject* type;
  PyObject* name;
  PyObject* qualified_name;
  PyMethodDef* definition;  // of a slot: the row of the interpreter's table
  void* wrapped;            // of a slot: its function
};
struct TypeLayout {
  PyVarObject head;
  const char* name;
  Py_ssize_t basic_size;
  Py_ssize_t item_size;
  void* deallocate;
  Py_ssize_t vectorcall_offset;
  std::array<void*, 6> between;
  void** mapping;  // length, subscript, assignment to a subscript
};
using AssignSubscript = int (*)(PyObject*, PyObject*, PyObject*);

TypeLayout* LayoutOf(PyTypeObject* type) { return reinterpret_cast<TypeLayout*>(type); }

void*& AssignmentOf(PyObject* type) {
  return LayoutOf(reinterpret_cast<PyTypeObject*>(type))->mapping[2];
}

// Where the object keeps the pointer through which it is called; null where it has none.
Vectorcall* VectorcallOf(PyObject* callable) {
  const TypeLayout* type = LayoutOf(Py_TYPE(callable));
  const Py_ssize_t offset = type->vectorcall_offset;
  if (offset < static_cast<Py_ssize_t>(sizeof(PyObject)) ||
      offset + static_cast<Py_ssize_t>(sizeof(Vectorcall)) > type->basic_size) {
    return nullptr;
  }
  return reinterpret_cast<Vectorcall*>(reinterpret_cast<char*>(callable) + offset);
}

template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

// CPython 3.11 runs a Python function that is called from Python without a look at that pointer, unless somebody asked to evaluate frames.
// So we ask, and have them evaluated as ever. From 3.12 on there is a function to set the pointer, and calls heed it.
class Frames {
 public:
  static Frames& Get() {
    static Frames* frames = new Frames;
    return *frames;
  }

  bool CanObserve() const { return set_vectorcall_ != nullptr || !needed_ || set_ != nullptr; }

  void Set(PyObject* function, Vectorcall* place, Vectorcall value) const {
    if (set_vectorcall_ != nullptr) {
      set_vectorcall_(function, value);
    } else {
      *place = value;
    }
  }

  void Enter() {
    if (needed_ && ++users_ == 1 && get_(interpreter_()) == evaluate_) set_(interpreter_(), Evaluate);
  }
  void Leave() {
    if (needed_ && --users_ == 0 && get_(interpreter_()) == Evaluate) set_(interpreter_(), evaluate_);
  }

 private:
  using Evaluator = PyObject* (*)(void*, void*, int);
  static PyObject* Evaluate(void* thread, void* frame, int raises) {
    Frames& frames = Get();
    if (HasStack() || frames.get_(frames.interpreter_()) != Evaluate) return frames.evaluate_(thread, frame, raises);
    // Calls that are not asked for take no stack, and a program may rely on that: from here on nothing asks.
    frames.set_(frames.interpreter_(), frames.evaluate_);
    PyObject* result = frames.evaluate_(thread, frame, raises);
    if (frames.users_ > 0 && frames.get_(frames.interpreter_()) == frames.evaluate_) frames.set_(frames.interpreter_(), Evaluate);
    return result;
  }

  struct Stack {
    uintptr_t lowest = 0;
    uintptr_t middle = 0;
  };

  // Whether at least half of this thread's stack is left; yes where it is unknown, as for the stack of a coroutine.
  static bool HasStack() {
    static thread_local const Stack stack = StackOfThread();
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return here > stack.middle || here < stack.lowest;
  }
  // Looked up: where these functions are linked to, older C libraries do not have them.
  static Stack StackOfThread() {
    static const auto get = Find<int (*)(pthread_t, pthread_attr_t*)>("pthread_getattr_np");
    static const auto bounds = Find<int (*)(const pthread_attr_t*, void**, size_t*)>("pthread_attr_getstack");
    static const auto destroy = Find<int (*)(pthread_attr_t*)>("pthread_attr_destroy");
    pthread_attr_t attributes;
    if (get == nullptr || bounds == nullptr || destroy == nullptr || get(::pthread_self(), &attributes) != 0) return {};
    void* lowest = nullptr;
    size_t size = 0;
    const bool known = bounds(&attributes, &lowest, &size) == 0;
    destroy(&attributes);
    const auto begin = reinterpret_cast<uintptr_t>(lowest);
    return known ? Stack{begin, begin + size / 2} : Stack{};
  }

  Frames() {
    PyObject* version = PySys_GetObject("hexversion");
    needed_ = set_vectorcall_ == nullptr && version != nullptr && PyLong_AsLong(version) >= 0x030B0000;
    if (get_ == nullptr || evaluate_ == nullptr || interpreter_ == nullptr) set_ = nullptr;
  }

  void (*set_vectorcall_)(PyObject*, Vectorcall) = Find<void (*)(PyObject*, Vectorcall)>("PyFunction_SetVectorcall");
  void* (*interpreter_)() = Find<void* (*)()>("PyInterpreterState_Get");
  Evaluator (*get_)(void*) = Find<Evaluator (*)(void*)>("_PyInterpreterState_GetEvalFrameFunc");
  void (*set_)(void*, Evaluator) = Find<void (*)(void*, Evaluator)>("_PyInterpreterState_SetEvalFrameFunc");
  Evaluator evaluate_ = Find<Evaluator>("_PyEval_EvalFrameDefault");
  bool needed_ = false;
  int users_ = 0;
};

// ---- one observed object ----

enum class Door { kFunction, kBuiltin, kMethod, kAssignment };

struct Layer;
struct Observed {
  PyObject* callable = nullptr;  // owned
  Door door = Door::kFunction;
  Vectorcall vectorcall = nullptr;      // of a function: its own
  PyMethodDef* definition = nullptr;    // of a builtin or a method: its own
  PyMethodDef through_us = {};          // of a method, in place of it
  AssignSubscript assign = nullptr;     // of a slot: its own
  std::vector<Layer*> layers;           // borrowed: a layer that is put is held by who put it, and by itself
  ~Observed() { Py_XDECREF(callable); }
};
using ObservedRef = std::shared_ptr<Observed>;

struct Layer {
  PyObject head;
  ObservedRef* observed;
  PyObject* handler;
  PyObject* choose;
  uint64_t id;
};
PyTypeObject* layer_type = nullptr;

Layer* Self(PyObject* object) { return reinterpret_cast<Layer*>(object); }
}  // namespace

template <>
struct Receiver<Layer*> {
  static Layer* From(PyObject* self) { return Self(self); }
};

namespace {

PyObject* ObjectOf(Layer* layer) { return reinterpret_cast<PyObject*>(layer); }

// Methods are called with nothing that names them: each has a number, and a function of its own that knows it.
constexpr size_t kMostMethods = 1024;

struct Registry {
  std::unordered_map<PyObject*, ObservedRef> of;
  std::array<ObservedRef, kMostMethods> methods;  // held for good: what was bound to an object meanwhile calls them
  size_t method_count = 0;
  ObservedRef assignment;
  uint64_t next_id = 1;
};
Registry& Known() {
  static Registry* registry = new Registry;
  return *registry;
}

// ---- one call ----

// The arguments in the form in which the interpreter gave them; as a tuple and a dictionary when somebody asks.
class Arguments {
 public:
  static Arguments OfVector(PyObject* const* values, size_t count, PyObject* names) {
    Arguments made;
    made.values_ = values;
    made.count_ = count;
    made.names_ = names;
    return made;
  }
  static Arguments OfMethod(PyObject* self, PyObject* args, PyObject* kwargs) {
    Arguments made;
    made.self_ = self;
    made.rest_ = args;
    made.kwargs_ = kwargs;
    return made;
  }
  static Arguments Packed(PyObject* args, PyObject* kwargs) {
    Arguments made;
    made.args_ = args;
    made.kwargs_ = kwargs;
    return made;
  }

  bool Pack() {
    if (args_ != nullptr) return true;
    owned_args_ = self_ != nullptr ? WithSelf() : FromVector();
    args_ = owned_args_.get();
    if (args_ == nullptr || names_ == nullptr || PyTuple_Size(names_) == 0) return args_ != nullptr;
    owned_kwargs_ = Ref(PyDict_New());
    for (Py_ssize_t i = 0; owned_kwargs_ && i < PyTuple_Size(names_); ++i) {
      if (PyDict_SetItem(owned_kwargs_.get(), PyTuple_GetItem(names_, i), values_[count_ + static_cast<size_t>(i)]) != 0) return false;
    }
    kwargs_ = owned_kwargs_.get();
    return kwargs_ != nullptr;
  }
  PyObject* args() const { return args_; }
  PyObject* kwargs() const { return kwargs_; }

  PyObject* CallItself(const Observed& observed) {
    switch (observed.door) {
      case Door::kFunction:
        return CallVector(observed);
      case Door::kBuiltin:
        if (!Pack()) return nullptr;
        return CallDefinition(*observed.definition, PyCFunction_GetSelf(observed.callable), args_, kwargs_);
      case Door::kMethod:
        return CallMethodItself(observed);
      case Door::kAssignment:
        return Assign(observed);
    }
    return nullptr;
  }

 private:
  static bool HasKeywords(PyObject* kwargs) { return kwargs != nullptr && PyDict_Size(kwargs) > 0; }

  static PyObject* CallDefinition(const PyMethodDef& definition, PyObject* self, PyObject* args, PyObject* kwargs) {
    if ((definition.ml_flags & METH_KEYWORDS) != 0) {
      auto* function = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(definition.ml_meth));
      return function(self, args, kwargs);
    }
    if (HasKeywords(kwargs)) {
      PyErr_Format(PyExc_TypeError, "%.200s() takes no keyword arguments", definition.ml_name);
      return nullptr;
    }
    return definition.ml_meth(self, args);
  }

  Ref WithSelf() const {
    const Py_ssize_t size = rest_ == nullptr ? 0 : PyTuple_Size(rest_);
    Ref made(PyTuple_New(size + 1));
    if (!made) return made;
    for (Py_ssize_t i = 0; i <= size; ++i) {
      PyObject* item = i == 0 ? self_ : PyTuple_GetItem(rest_, i - 1);
      Py_INCREF(item);
      PyTuple_SetItem(made.get(), i, item);
    }
    return made;
  }

  Ref FromVector() const {
    Ref made(PyTuple_New(static_cast<Py_ssize_t>(count_)));
    for (size_t i = 0; made && i < count_; ++i) {
      Py_INCREF(values_[i]);
      PyTuple_SetItem(made.get(), static_cast<Py_ssize_t>(i), values_[i]);
    }
    return made;
  }

  PyObject* CallVector(const Observed& observed) {
    if (values_ != nullptr || args_ == nullptr) {
      return observed.vectorcall(observed.callable, values_, count_, names_);
    }
    const auto positional = static_cast<size_t>(PyTuple_Size(args_));
    const auto named = static_cast<size_t>(kwargs_ == nullptr ? 0 : PyDict_Size(kwargs_));
    // The callee may overwrite the first. The buffer on the stack keeps calls of usual size from failing by an allocation made here.
    std::array<PyObject*, 64> few;
    std::vector<PyObject*> many(positional + named < few.size() ? 0 : positional + named + 1);
    PyObject** values = many.empty() ? few.data() : many.data();
    for (size_t i = 0; i < positional; ++i) values[i + 1] = PyTuple_GetItem(args_, static_cast<Py_ssize_t>(i));
    Ref names;
    if (named > 0) {
      names = Ref(PyTuple_New(static_cast<Py_ssize_t>(named)));
      if (!names) return nullptr;
      Py_ssize_t position = 0;
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      for (size_t i = 0; i < named && PyDict_Next(kwargs_, &position, &key, &value) != 0; ++i) {
        if (!PyUnicode_Check(key)) {
          PyErr_SetString(PyExc_TypeError, "keywords must be strings");
          return nullptr;
        }
        Py_INCREF(key);
        PyTuple_SetItem(names.get(), static_cast<Py_ssize_t>(i), key);
        values[positional + 1 + i] = value;
      }
    }
    return observed.vectorcall(observed.callable, values + 1, positional | kArgumentsOffset, names.get());
  }

  PyObject* CallMethodItself(const Observed& observed) {
    const PyMethodDef& definition = *observed.definition;
    PyObject* self = self_;
    Ref owned_rest = Ref::Borrow(rest_);
    if (self == nullptr) {
      const Py_ssize_t size = PyTuple_Size(args_);
      if (size < 1) {
        PyErr_Format(PyExc_TypeError, "unbound method %.200s() needs an argument", definition.ml_name);
        return nullptr;
      }
      self = PyTuple_GetItem(args_, 0);
      owned_rest = Ref(PyTuple_GetSlice(args_, 1, size));
      if (!owned_rest) return nullptr;
    }
    if ((definition.ml_flags & METH_VARARGS) != 0) {
      if (!owned_rest) owned_rest = Ref(PyTuple_New(0));
      return owned_rest ? CallDefinition(definition, self, owned_rest.get(), kwargs_) : nullptr;
    }
    const Py_ssize_t expected = (definition.ml_flags & METH_O) != 0 ? 1 : 0;
    const Py_ssize_t given = owned_rest ? PyTuple_Size(owned_rest.get()) : 0;
    if (given != expected || HasKeywords(kwargs_)) {
      PyErr_Format(PyExc_TypeError, "%.200s() takes %zd arguments", definition.ml_name, expected);
      return nullptr;
    }
    return definition.ml_meth(self, expected == 1 ? PyTuple_GetItem(owned_rest.get(), 0) : nullptr);
  }

  PyObject* Assign(const Observed& observed) {
    if (!Pack()) return nullptr;
    if (PyTuple_Size(args_) != 3) {
      PyErr_SetString(PyExc_TypeError, "an assignment has three arguments");
      return nullptr;
    }
    if (observed.assign(PyTuple_GetItem(args_, 0), PyTuple_GetItem(args_, 1), PyTuple_GetItem(args_, 2)) != 0) return nullptr;
    Py_RETURN_NONE;
  }

  PyObject* const* values_ = nullptr;
  size_t count_ = 0;
  PyObject* names_ = nullptr;
  PyObject* self_ = nullptr;
  PyObject* rest_ = nullptr;
  PyObject* args_ = nullptr;
  PyObject* kwargs_ = nullptr;
  Ref owned_args_;
  Ref owned_kwargs_;
};

// ---- where it is called from ----

struct Place {
  PyObject* code;
  long instruction;
  uint64_t layer;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  size_t operator()(const Place& place) const {
    return (std::hash<const void*>()(place.code) * 0x9E3779B97F4A7C15U ^ static_cast<size_t>(place.instruction)) * 0x9E3779B97F4A7C15U ^
           place.layer;
  }
};
constexpr size_t kMostPlaces = 1U << 16U;  // code made anew without end must not fill the memory

// What `choose` says of the caller, asked once per place. 0 where it is unknown.
long Choice(const Layer* layer) {
  static auto* places = new std::unordered_map<Place, long, PlaceHash>;
  static PyObject* code_name = Interned("f_code");
  static PyObject* instruction_name = Interned("f_lasti");
  if (layer->choose == nullptr) return 0;
  PyObject* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  if (frame == nullptr) return 0;
  const Ref code = Attribute(frame, code_name);
  const Ref instruction = Attribute(frame, instruction_name);
  if (!code || !instruction) {
    PyErr_Clear();
    return 0;
  }
  const Place place{code.get(), PyLong_AsLong(instruction.get()), layer->id};
  if (const auto found = places->find(place); found != places->end()) return found->second;
  const Ref answer = Call(layer->choose, frame);
  const long choice = answer ? PyLong_AsLong(answer.get()) : 0;
  if (PyErr_Occurred() != nullptr) {
    ReportPythonError("a place that calls a function");
    return 0;
  }
  if (places->size() >= kMostPlaces) {
    for (const auto& [known, unused] : *places) Py_DECREF(known.code);
    places->clear();
  }
  try {
    places->emplace(place, choice);
    Py_INCREF(place.code);
  } catch (const std::bad_alloc&) {
    // It is asked again at the next call.
  }
  return choice;
}

// While it lives, calls of this object in this thread pass: a call that is not recorded is not recorded either where the framework hands
// the function to a subclass of tensors, which calls it.
class Passing {
 public:
  explicit Passing(const Observed* observed) : before_(std::exchange(passing, observed)) {}
  ~Passing() { passing = before_; }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
  static bool Is(const Observed* observed) { return passing == observed; }

 private:
  static thread_local const Observed* passing;
  const Observed* before_;
};
thread_local const Observed* Passing::passing = nullptr;

// The call, seen by the first `below` layers from the top.
PyObject* Enter(const ObservedRef& observed, size_t below, Arguments& arguments) {
  bool passes = false;
  for (size_t i = below; i-- > 0;) {
    if (i >= observed->layers.size()) continue;
    const Ref held = Ref::Borrow(ObjectOf(observed->layers[i]));  // it may be taken meanwhile
    const Layer* layer = Self(held.get());
    if (layer->handler == nullptr) continue;
    const bool apis = PyTuple_Check(layer->handler) != 0;
    if (apis && (!ApisAreWanted() || Passing::Is(observed.get()))) continue;
    const long choice = Choice(layer);
    if (choice < 0) {
      passes = passes || apis;
      continue;
    }
    Ref handler = Ref::Borrow(layer->handler);
    if (apis) handler = Ref::Borrow(PyTuple_GetItem(layer->handler, static_cast<Py_ssize_t>(choice)));
    if (!handler || !arguments.Pack()) return nullptr;
    return apis ? CallApi(handler.get(), arguments.args(), arguments.kwargs())
                : PyObject_Call(handler.get(), arguments.args(), arguments.kwargs());
  }
  if (!passes) return arguments.CallItself(*observed);
  const Passing passing(observed.get());
  return arguments.CallItself(*observed);
}

PyObject* EnterTop(const ObservedRef& observed, Arguments arguments) noexcept {
  try {
    return Enter(observed, observed->layers.size(), arguments);
  } catch (...) {
    return RaiseCaught();
  }
}

// ---- the doors ----

PyObject* ThroughVectorcall(PyObject* callable, PyObject* const* values, size_t flags, PyObject* names) noexcept {
  const auto found = Known().of.find(callable);
  if (found == Known().of.end()) {
    PyErr_SetString(PyExc_SystemError, "a defect in msprobe: a function that is not observed");
    return nullptr;
  }
  const ObservedRef observed = found->second;
  // A function may use the place before its arguments, as its caller allowed; ours is given on where nothing looks.
  if (observed->layers.empty() && observed->door == Door::kFunction) {
    return observed->vectorcall(callable, values, flags, names);
  }
  return EnterTop(observed, Arguments::OfVector(values, flags & ~kArgumentsOffset, names));
}

PyObject* ThroughMethod(size_t number, PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
  const ObservedRef& observed = Known().methods[number];
  if ((observed->definition->ml_flags & METH_O) != 0) {
    const Ref one(PyTuple_New(1));
    if (!one) return nullptr;
    Py_INCREF(args);
    PyTuple_SetItem(one.get(), 0, args);
    return EnterTop(observed, Arguments::OfMethod(self, one.get(), nullptr));
  }
  return EnterTop(observed, Arguments::OfMethod(self, args, kwargs));
}

template <size_t number>
PyObject* TwoArguments(PyObject* self, PyObject* args) {
  return ThroughMethod(number, self, args, nullptr);
}
template <size_t number>
PyObject* ThreeArguments(PyObject* self, PyObject* args, PyObject* kwargs) {
  return ThroughMethod(number, self, args, kwargs);
}
template <size_t... numbers>
constexpr std::array<PyCFunction, kMostMethods> AllOfTwo(std::index_sequence<numbers...> /*all*/) {
  return {TwoArguments<numbers>...};
}
template <size_t... numbers>
constexpr std::array<PyCFunctionWithKeywords, kMostMethods> AllOfThree(std::index_sequence<numbers...> /*all*/) {
  return {ThreeArguments<numbers>...};
}
constexpr auto kOfTwo = AllOfTwo(std::make_index_sequence<kMostMethods>());
constexpr auto kOfThree = AllOfThree(std::make_index_sequence<kMostMethods>());

int ThroughAssignment(PyObject* self, PyObject* key, PyObject* value) noexcept {
  const ObservedRef& observed = Known().assignment;
  if (value == nullptr) return observed->assign(self, key, value);  // del x[key]
  const Ref rest(PyTuple_New(2));
  if (!rest) return -1;
  Py_INCREF(key);
  PyTuple_SetItem(rest.get(), 0, key);
  Py_INCREF(value);
  PyTuple_SetItem(rest.get(), 1, value);
  const Ref result(EnterTop(observed, Arguments::OfMethod(self, rest.get(), nullptr)));
  return result ? 0 : -1;
}

// A list; empty where the type cannot say.
Ref SubclassesOf(PyObject* type) {
  Ref made(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", type));
  PyErr_Clear();
  return made;
}

// Every type that has this assignment, made from `type` or from one that was made from it.
void ExchangeAssignments(PyObject* type, void* from, void* to) {
  if (PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type), Py_mp_ass_subscript) == from && AssignmentOf(type) == from) {
    AssignmentOf(type) = to;
  }
  const Ref made = SubclassesOf(type);
  for (Py_ssize_t i = 0; made && i < PyList_Size(made.get()); ++i) ExchangeAssignments(PyList_GetItem(made.get(), i), from, to);
}

void Exchange(Observed& observed, bool put) {
  PyObject* callable = observed.callable;
  if (observed.door == Door::kMethod) {
    PyMethodDef*& now = reinterpret_cast<DescriptorLayout*>(callable)->definition;
    if (now == (put ? observed.definition : &observed.through_us)) now = put ? &observed.through_us : observed.definition;
    return;
  }
  if (observed.door == Door::kAssignment) {
    auto* own = reinterpret_cast<void*>(observed.assign);
    auto* ours = reinterpret_cast<void*>(ThroughAssignment);
    auto* descriptor = reinterpret_cast<DescriptorLayout*>(callable);
    if (descriptor->wrapped == (put ? own : ours)) descriptor->wrapped = put ? ours : own;
    // Types that are not heap types are left alone: tensors are never made of them.
    const Ref made = SubclassesOf(descriptor->type);
    for (Py_ssize_t i = 0; made && i < PyList_Size(made.get()); ++i) {
      ExchangeAssignments(PyList_GetItem(made.get(), i), put ? own : ours, put ? ours : own);
    }
    return;
  }
  Vectorcall* place = VectorcallOf(callable);
  if (*place != (put ? observed.vectorcall : ThroughVectorcall)) return;
  if (observed.door == Door::kFunction) {
    Frames::Get().Set(callable, place, put ? ThroughVectorcall : observed.vectorcall);
  } else {
    *place = put ? ThroughVectorcall : nullptr;
  }
}

// ---- which objects have a door ----

PyObject* Probe(PyObject* /*self*/, PyObject* /*args*/) { Py_RETURN_NONE; }

struct Doors {
  PyTypeObject* function = nullptr;
  PyTypeObject* builtin = nullptr;
  PyTypeObject* method = nullptr;
  PyTypeObject* slot = nullptr;
};

// A door is open if a probe object has the expected layout.
Doors OpenDoors() {
  static PyMethodDef definitions[] = {{"probe", Probe, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_methods, definitions}, {0, nullptr}};
  static PyType_Spec spec = {"msprobe._native.Probe", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
  Doors doors;
  const Ref builtin(PyCFunction_NewEx(&definitions[0], nullptr, nullptr));
  const Ref type(PyType_FromSpec(&spec));
  const Ref method(type ? PyObject_GetAttrString(type.get(), "probe") : nullptr);
  if (builtin && reinterpret_cast<BuiltinLayout*>(builtin.get())->definition == &definitions[0] &&
      VectorcallOf(builtin.get()) != nullptr && *VectorcallOf(builtin.get()) == nullptr) {
    doors.builtin = Py_TYPE(builtin.get());
  }
  if (method && reinterpret_cast<DescriptorLayout*>(method.get())->definition == &definitions[0]) {
    doors.method = Py_TYPE(method.get());
  }
  const Ref slot(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__"));
  if (slot) doors.slot = Py_TYPE(slot.get());
  const Ref types(PyImport_ImportModule("types"));
  const Ref function(types ? PyObject_GetAttrString(types.get(), "FunctionType") : nullptr);
  if (function && Frames::Get().CanObserve()) doors.function = reinterpret_cast<PyTypeObject*>(function.get());
  PyErr_Clear();
  return doors;
}

// The assignment that the subclasses of the type inherit and the descriptor wraps; null where the layout is another one.
AssignSubscript AssignmentBehind(PyObject* descriptor) {
  const Ref name(PyObject_GetAttrString(descriptor, "__name__"));
  const auto* layout = reinterpret_cast<DescriptorLayout*>(descriptor);
  if (!name || PyUnicode_CompareWithASCIIString(name.get(), "__setitem__") != 0) return nullptr;
  const Ref made = SubclassesOf(layout->type);
  void* found = nullptr;
  for (Py_ssize_t i = 0; made && i < PyList_Size(made.get()) && found == nullptr; ++i) {
    PyObject* type = PyList_GetItem(made.get(), i);
    void* slot = PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type), Py_mp_ass_subscript);
    PyErr_Clear();  // a static type, before 3.10
    if (slot == layout->wrapped && LayoutOf(reinterpret_cast<PyTypeObject*>(type))->mapping != nullptr && AssignmentOf(type) == slot) {
      found = slot;
    }
  }
  PyErr_Clear();
  return reinterpret_cast<AssignSubscript>(found);
}

bool SetDoor(const ObservedRef& made) {
  Observed& observed = *made;
  static const Doors doors = OpenDoors();
  PyObject* callable = observed.callable;
  const PyTypeObject* type = Py_TYPE(callable);
  if (type == doors.function) {
    Vectorcall* place = VectorcallOf(callable);
    if (place == nullptr || *place == nullptr) return false;
    observed.vectorcall = *place;
    return true;
  }
  if (type == doors.builtin) {
    observed.door = Door::kBuiltin;
    observed.definition = reinterpret_cast<BuiltinLayout*>(callable)->definition;
    // With another convention it has such a pointer, or calls of it that the interpreter has specialised pass it by.
    return (observed.definition->ml_flags & METH_VARARGS) != 0 && *VectorcallOf(callable) == nullptr;
  }
  if (type == doors.method) {
    observed.door = Door::kMethod;
    observed.definition = reinterpret_cast<DescriptorLayout*>(callable)->definition;
    const int convention = observed.definition->ml_flags & ~METH_COEXIST;
    size_t& count = Known().method_count;
    if (count == kMostMethods) return false;
    observed.through_us = *observed.definition;
    if (convention == (METH_VARARGS | METH_KEYWORDS)) {
      observed.through_us.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kOfThree[count]));
    } else if (convention == METH_VARARGS || convention == METH_NOARGS || convention == METH_O) {
      observed.through_us.ml_meth = kOfTwo[count];
    } else {
      return false;
    }
    Known().methods[count++] = made;
    return true;
  }
  if (type == doors.slot && Known().assignment == nullptr) {
    observed.door = Door::kAssignment;
    observed.assign = AssignmentBehind(callable);
    if (observed.assign == nullptr) return false;
    Known().assignment = made;
    return true;
  }
  return false;
}

// ---- the type ----

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) noexcept {
  try {
    ArgumentReader<"InPlace", PyObject*> arguments;
    if (!arguments.Read(args)) return nullptr;
    const auto [function] = arguments.Values();
    Registry& known = Known();
    ObservedRef observed;
    if (const auto found = known.of.find(function); found != known.of.end()) {
      observed = found->second;
    } else {
      observed = std::make_shared<Observed>();
      Py_INCREF(function);
      observed->callable = function;
      if (!SetDoor(observed)) {
        PyErr_Format(PyExc_TypeError, "%R cannot be observed in place", function);
        return nullptr;
      }
      known.of.emplace(function, observed);
    }
    auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    Ref made(allocate(type, 0));  // of zeros
    if (!made) return nullptr;
    Self(made.get())->observed = new ObservedRef(std::move(observed));
    Self(made.get())->id = known.next_id++;
    return made.release();
  } catch (...) {
    return RaiseCaught();
  }
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Layer* layer = Self(object);
  Py_XDECREF(layer->handler);
  Py_XDECREF(layer->choose);
  if (layer->observed != nullptr) {
    const ObservedRef observed = *layer->observed;
    delete layer->observed;
    if (observed.use_count() == 2) Known().of.erase(observed->callable);
  }
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

size_t IndexOf(const Layer* layer) {
  const std::vector<Layer*>& layers = (*layer->observed)->layers;
  size_t index = 0;
  while (index < layers.size() && layers[index] != layer) ++index;
  return index;
}

PyObject* CallBelow(PyObject* object, PyObject* args, PyObject* kwargs) noexcept {
  try {
    const Ref held = Ref::Borrow(object);
    const ObservedRef observed = *Self(object)->observed;
    const size_t index = IndexOf(Self(object));
    Arguments arguments = Arguments::Packed(args, kwargs);
    return Enter(observed, index < observed->layers.size() ? index : 0, arguments);
  } catch (...) {
    return RaiseCaught();
  }
}

// observe(handler, choose=None)
PyObject* Observe(Layer* layer, PyObject* handler, Optional<PyObject*, nullptr> choose) {
  const auto held = [](PyObject* given) {
    return given == nullptr || given == Py_None ? nullptr : Ref::Borrow(given).release();
  };
  const Ref before(std::exchange(layer->handler, held(handler)));
  const Ref chose_before(std::exchange(layer->choose, held(choose)));
  Py_RETURN_NONE;
}

PyObject* Put(Layer* layer) {
  PutInPlace(&layer->head);
  Py_RETURN_NONE;
}

PyObject* Take(Layer* layer) {
  TakeInPlace(&layer->head);
  Py_RETURN_NONE;
}

PyObject* GetAttribute(PyObject* object, PyObject* name) {
  PyObject* function = (*Self(object)->observed)->callable;
  if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) return Ref::Borrow(function).release();
  for (const char* own : {"__class__", "observe", "put", "take"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) return PyObject_GenericGetAttr(object, name);
  }
  return PyObject_GetAttr(function, name);
}

PyObject* FunctionOf(PyObject* object) {
  return Py_TYPE(object) == layer_type ? (*Self(object)->observed)->callable : object;
}

PyObject* Compare(PyObject* left, PyObject* right, int operation) {
  if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  return PyObject_RichCompare(FunctionOf(left), FunctionOf(right), operation);
}

Py_hash_t Hash(PyObject* object) { return PyObject_Hash(FunctionOf(object)); }
PyObject* Represent(PyObject* object) { return PyObject_Repr(FunctionOf(object)); }

PyMethodDef methods[] = {
    Method<"observe", Observe>(),
    Method<"put", Put>(),
    Method<"take", Take>(),
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot type_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate)},
    {Py_tp_call, reinterpret_cast<void*>(CallBelow)},
    {Py_tp_getattro, reinterpret_cast<void*>(GetAttribute)},
    {Py_tp_richcompare, reinterpret_cast<void*>(Compare)},
    {Py_tp_hash, reinterpret_cast<void*>(Hash)},
    {Py_tp_repr, reinterpret_cast<void*>(Represent)},
    {Py_tp_methods, methods},
    {0, nullptr},
};
PyType_Spec type_spec = {"msprobe._native.InPlace", sizeof(Layer), 0, Py_TPFLAGS_DEFAULT, type_slots};

}  // namespace

bool IsInPlace(PyObject* object) { return Py_TYPE(object) == layer_type; }

void PutInPlace(PyObject* object) {
  Layer* layer = Self(object);
  Observed& observed = **layer->observed;
  if (IndexOf(layer) < observed.layers.size()) return;
  observed.layers.push_back(layer);
  Py_INCREF(object);
  if (observed.layers.size() > 1) return;
  if (observed.door == Door::kFunction) Frames::Get().Enter();
  Exchange(observed, true);
}

void TakeInPlace(PyObject* object) {
  Layer* layer = Self(object);
  const ObservedRef observed = *layer->observed;
  const size_t index = IndexOf(layer);
  if (index >= observed->layers.size()) return;
  observed->layers.erase(observed->layers.begin() + static_cast<std::ptrdiff_t>(index));
  if (observed->layers.empty()) {
    Exchange(*observed, false);
    if (observed->door == Door::kFunction) Frames::Get().Leave();
  }
  Py_DECREF(object);
}

PyObject* MakeInPlaceType() {
  PyObject* type = PyType_FromSpec(&type_spec);
  layer_type = reinterpret_cast<PyTypeObject*>(type);
  return type;
}

}  // namespace msprobe::python
