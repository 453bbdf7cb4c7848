#include "tools/python/native/stack_walk.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <dlfcn.h>

#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

constexpr size_t kMaxFrames = 512;
// Code made anew without end (eval, templates) must not grow the table without end.
constexpr size_t kMaxKnownFrames = 1U << 16U;

struct Position {
  PyObject* code;
  long instruction;
  bool operator==(const Position&) const = default;
};
struct PositionHash {
  size_t operator()(const Position& position) const {
    return std::hash<const void*>()(position.code) * 0x9E3779B97F4A7C15U ^
           static_cast<size_t>(position.instruction);
  }
};

struct FrameTexts {
  std::string file;
  std::string function;
  int32_t line = 0;
  bool own = false;
};

struct StackHash {
  size_t operator()(const std::vector<const FrameTexts*>& stack) const {
    size_t hash = stack.size();
    for (const FrameTexts* frame : stack) {
      hash = (hash ^ reinterpret_cast<size_t>(frame)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29U;
    }
    return hash;
  }
};

// Functions of the interpreter that the limited interface does not show: what they give is had without a look at attributes and without
// numbers as objects. Each is null where this interpreter does not have it.
template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}
struct FrameFunctions {
  PyObject* (*back)(PyObject*) = Find<PyObject* (*)(PyObject*)>("PyFrame_GetBack");
  PyObject* (*code)(PyObject*) = Find<PyObject* (*)(PyObject*)>("PyFrame_GetCode");
  int (*instruction)(PyObject*) = Find<int (*)(PyObject*)>("PyFrame_GetLasti");
};

struct Walker {
  FrameFunctions functions;
  PyObject* back = Interned("f_back");
  PyObject* code = Interned("f_code");
  PyObject* instruction = Interned("f_lasti");
  PyObject* line = Interned("f_lineno");
  PyObject* file = Interned("co_filename");
  PyObject* function = Interned("co_name");
  // Code objects in here are held, so that addresses stay theirs.
  std::unordered_map<Position, FrameTexts, PositionHash> frames;
  std::unordered_map<std::vector<const FrameTexts*>, uint32_t, StackHash> stacks;
};
Walker& Known() {
  static Walker* walker = new Walker;
  return *walker;
}

Ref CodeOf(const Walker& walker, PyObject* frame) {
  return walker.functions.code != nullptr ? Ref(walker.functions.code(frame)) : Attribute(frame, walker.code);
}

std::optional<long> InstructionOf(const Walker& walker, PyObject* frame) {
  if (walker.functions.instruction != nullptr) return walker.functions.instruction(frame);
  const Ref instruction = Attribute(frame, walker.instruction);
  return instruction ? std::optional(PyLong_AsLong(instruction.get())) : std::nullopt;
}

// Empty, or None, for the outermost.
Ref BackOf(const Walker& walker, PyObject* frame) {
  return walker.functions.back != nullptr ? Ref(walker.functions.back(frame)) : Attribute(frame, walker.back);
}

const FrameTexts* TextsOf(Walker& walker, PyObject* frame) {
  const Ref code = CodeOf(walker, frame);
  const std::optional<long> instruction = InstructionOf(walker, frame);
  if (!code || !instruction) return nullptr;
  const Position position{code.get(), *instruction};
  if (const auto found = walker.frames.find(position); found != walker.frames.end()) {
    return &found->second;
  }
  FrameTexts texts;
  const Ref file = Attribute(code.get(), walker.file);
  const Ref function = Attribute(code.get(), walker.function);
  const Ref line = Attribute(frame, walker.line);
  if (!file || !function) return nullptr;
  texts.file = ToText(file.get());
  texts.function = ToText(function.get());
  if (line && line.get() != Py_None) texts.line = static_cast<int32_t>(PyLong_AsLong(line.get()));
  PyErr_Clear();
  for (const std::string& folder : Global().own_folders) {
    texts.own = texts.own || texts.file.compare(0, folder.size(), folder) == 0;
  }
  Py_INCREF(position.code);
  return &walker.frames.emplace(position, std::move(texts)).first->second;
}

}  // namespace

void ForgetStacks() {
  Walker& walker = Known();
  walker.stacks.clear();
  if (walker.frames.size() < kMaxKnownFrames) return;
  for (const auto& [position, unused] : walker.frames) Py_DECREF(position.code);
  walker.frames.clear();
}

void RecordStack(std::string_view name) {
  Walker& walker = Known();
  std::vector<const FrameTexts*> stack;
  Ref frame = Ref::Borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && frame.get() != Py_None && stack.size() < kMaxFrames) {
    const FrameTexts* texts = TextsOf(walker, frame.get());
    if (texts == nullptr) break;
    if (!texts->own) stack.push_back(texts);
    frame = BackOf(walker, frame.get());
  }
  PyErr_Clear();
  auto found = walker.stacks.find(stack);
  if (found == walker.stacks.end()) {
    std::vector<msprobe_frame> frames;
    frames.reserve(stack.size());
    for (const FrameTexts* texts : stack) {
      frames.push_back({Text(texts->file), Text(texts->function), texts->line});
    }
    uint32_t id = 0;
    if (msprobe_capture_stack(Global().capture, frames.data(), frames.size(), &id) != MSPROBE_OK) {
      return;
    }
    found = walker.stacks.emplace(std::move(stack), id).first;
  }
  msprobe_capture_set_stack(Global().capture, Text(name), found->second);
}

}  // namespace msprobe::python
