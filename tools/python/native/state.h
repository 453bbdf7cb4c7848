// What the hooks of one process share, and what belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// How a value of a Python type is described. The Python side has these as KIND_....
enum class Kind : long {
  kNull = 0,
  kTensor = 1,
  kNumber = 2,  // int, float, str, bool and their subclasses
  kSequence = 3,
  kNamedTuple = 4,
  kDataclass = 5,
  kMapping = 6,
  kSlice = 7,
  kEllipsis = 8,
  kSize = 9,
  kDtype = 10,
  kDevice = 11,
  kMemoryFormat = 12,
  kArray = 13,
  kArrayScalar = 14,
  kSpecial = 15,      // msprobe's Python side turns it into plain objects
  kOtherTensor = 16,  // a tensor of another framework: the Python side gives an array of its values
};

struct DtypeEntry {
  std::string text;
  int32_t code = MSPROBE_DTYPE_UNKNOWN;
};

// A piece of an entry that is dropped unless it is taken.
class OpenPiece {
 public:
  OpenPiece() = default;
  explicit OpenPiece(msprobe_entry* piece) : piece_(piece) {}
  OpenPiece(OpenPiece&& other) noexcept : piece_(other.take()) {}
  OpenPiece& operator=(OpenPiece&& other) noexcept {
    std::swap(piece_, other.piece_);
    return *this;
  }
  ~OpenPiece() {
    if (piece_ != nullptr) msprobe_entry_discard(piece_);
  }

  msprobe_entry* take() { return std::exchange(piece_, nullptr); }

 private:
  msprobe_entry* piece_ = nullptr;
};

// One open module call, or a pseudo parent such as "optimizer".
struct OpenCall {
  std::string name;
  std::string parent;
  OpenPiece inputs;  // described before the call, which may overwrite them
  bool has_parent = false;
  bool written = false;
};

struct ThreadState {
  bool inside = false;  // a wrapped API or our own code runs
  int recompute = 0;    // depth of re-run forwards (activation checkpointing)
  uint64_t generation = 0;
  std::vector<OpenCall> forward;
  std::vector<OpenCall> backward;
};

// The state of this thread; what a former step left in it is dropped.
ThreadState& ThisThread();

// While it lives, wrapped APIs of this thread run unrecorded. Left on every path.
class InsideGuard {
 public:
  explicit InsideGuard(ThreadState& thread) : thread_(thread), before_(thread.inside) {
    thread_.inside = true;
  }
  ~InsideGuard() { thread_.inside = before_; }
  InsideGuard(const InsideGuard&) = delete;
  InsideGuard& operator=(const InsideGuard&) = delete;

 private:
  ThreadState& thread_;
  bool before_;
};

// Numbers from 0 on in every step.
class Counter {
 public:
  int64_t Next(uint64_t generation) {
    if (std::exchange(generation_, generation) != generation) next_ = 0;
    return next_++;
  }

 private:
  int64_t next_ = 0;
  uint64_t generation_ = 0;
};

struct State {
  msprobe_capture* capture = nullptr;
  std::vector<msprobe_capture*> retired;  // another one took their place; still to be closed

  bool recording = false;   // start() to stop(): forwards, modules, parameters
  bool step_open = false;   // start() to step(): gradients of recorded APIs too
  bool apis = false;        // APIs are recorded (levels L1 and mix)
  bool constructs = false;  // construct.json is wanted (levels L0 and mix)
  bool one_piece = false;   // both halves of a call are judged together (overflow_check, bench_path, online_run_ut)
  bool has_budget = false;  // both halves of a call are recorded or left out together, and hooks tell
                            // how long they take
  bool gradients_of_inputs = false;
  bool mindspore = false;          // its dtypes, no is_recompute
  bool any_module_called = false;  // in this step of PyTorch: parents are null from then on, "" before
  uint64_t generation = 1;         // grows with every step
  uint64_t step_records = 0;

  // Given by the Python side, see configure().
  Ref classify;         // type -> Kind
  Ref plain;            // object of Kind::kSpecial -> plain objects
  Ref grad_enabled;     // () -> bool
  Ref strided;          // the ordinary layout
  Ref device_tensor;    // tensor -> what it takes to describe one of an accelerator
  Ref other_tensor;     // tensor of Kind::kOtherTensor -> (type, dtype, code, shape, array)
  Ref input_gradients;  // (args, kwargs, name, generation) -> (args, kwargs, closing hook)
  Ref is_traced;        // () -> whether the program is read by a tracer or compiler
  Ref unchanged;        // (tensor, name) -> whether its gradient is recorded elsewhere
  Ref owed;             // list of errors of the training that reading a value brought to light
  Ref later_output;     // (handle, name, args, kwargs): output of a call that is under way
  Ref modes_enabled;    // () -> whether a mode of the training sees the framework's functions
  Ref modes_below;      // () -> how many modes of the training see its operators
  Ref modes_aside;      // () -> what modes_back takes; from then on none sees them
  Ref modes_back;
  Ref twice;            // (original, name, in_place, args, kwargs) -> result: makes the calls of APIs
  Ref repeats;          // (original, name, in_place, args, kwargs) -> (result) or None: repeats a call
  Ref method_type;
  const void* exchange = nullptr;              // the framework's functions of DLPack, where it has them
  std::vector<PyTypeObject*> exchanged_types;  // the framework's own classes of tensors, held
  std::vector<std::string> own_folders;  // frames of these files are not shown in stacks

  std::unordered_map<PyTypeObject*, Kind> kinds;
  std::unordered_map<PyObject*, DtypeEntry> dtypes;
  std::unordered_map<std::string, Counter> counters;
  std::unordered_set<std::string> gradients;  // entries of this step, while calls are repeated
};
State& Global();

// While it lives, modes of the training that see every function of the framework do not see what
// this thread reads of tensors. Nothing happens where there are none. May be nested.
class ModesAside {
 public:
  ModesAside() noexcept;
  ~ModesAside();
  ModesAside(const ModesAside&) = delete;
  ModesAside& operator=(const ModesAside&) = delete;

  // What PutBack takes, where modes were put aside: they stay there.
  Ref Release() { return std::move(token_); }
  static void PutBack(PyObject* token) noexcept;

 private:
  Ref token_;
};

// While it lives, this thread works for the capture.
class HookTime {
 public:
  HookTime() : capture_(Global().has_budget ? Global().capture : nullptr) {
    if (capture_ != nullptr) msprobe_hook_begin(capture_);
  }
  ~HookTime() {
    if (capture_ != nullptr) msprobe_hook_end(capture_);
  }
  HookTime(const HookTime&) = delete;
  HookTime& operator=(const HookTime&) = delete;

 private:
  msprobe_capture* const capture_;
  const ModesAside modes_;
};

// The kind of a value, asked once per type.
Kind KindOf(PyObject* value);

// Appends to dump_error_info.log what the pending Python error says, and clears it. Where memory ran
// out, a record is lost.
void ReportPythonError(std::string_view name) noexcept;

// Parents: what construct.json gets for an API call or a module call of this thread.
void WriteConstruct(ThreadState& thread, std::string_view name, bool backward);
void OpenModuleCall(std::vector<OpenCall>& stack, std::string name);
void CloseModuleCall(std::vector<OpenCall>& stack, std::string_view name);

}  // namespace msprobe::python
