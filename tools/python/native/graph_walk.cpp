#include "tools/python/native/graph_walk.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace msprobe::python {
namespace {

struct Names {
  PyObject* next_functions = Interned("next_functions");
  PyObject* variable = Interned("variable");
  PyObject* sequence_number = Interned("_sequence_nr");
  PyObject* name = Interned("__name__");
};
const Names& Known() {
  static const Names* names = new Names;
  return *names;
}

struct Target {
  PyObject* node;  // borrowed; null for a leaf
  long number;
  PyObject* tensor;  // borrowed
  Py_ssize_t index;
};

// Whether nodes of this type add a gradient to a leaf.
bool IsAccumulator(PyObject* node) {
  static std::unordered_map<PyTypeObject*, bool>& known =
      *new std::unordered_map<PyTypeObject*, bool>;
  PyTypeObject* type = Py_TYPE(node);
  if (const auto found = known.find(type); found != known.end()) return found->second;
  const Ref name = Attribute(reinterpret_cast<PyObject*>(type), Known().name);
  const bool is = name && PyUnicode_Check(name.get()) &&
                  PyUnicode_CompareWithASCIIString(name.get(), "AccumulateGrad") == 0;
  PyErr_Clear();
  // Types of custom functions come and go; those of PyTorch itself stay.
  if ((PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) == 0) known.emplace(type, is);
  return is;
}

class Walk {
 public:
  Walk(std::vector<Target> targets, std::vector<Target> results, long long since, Py_ssize_t limit)
      : targets_(std::move(targets)),
        results_(std::move(results)),
        since_(since),
        limit_(limit),
        found_(PyList_New(0)) {
    for (const Target& target : targets_) {
      if (target.node == nullptr) {
        leaves_ = true;
      } else {
        ends_.insert(target.node);
      }
    }
  }

  // False with a Python error.
  bool Run() {
    if (!found_) return false;
    for (const Target& result : results_) {
      if (result.node != nullptr) Push(result.node);
    }
    // `held_` grows while it is walked: it is the list of what is still to be looked at, too.
    for (size_t next = 0; next < held_.size(); ++next) {
      if (held_.size() > static_cast<size_t>(limit_)) {
        complete_ = false;
        return true;
      }
      if (!Visit(held_[next].get())) return false;
    }
    return true;
  }

  PyObject* Result() { return Py_BuildValue("(OO)", found_.get(), complete_ ? Py_True : Py_False); }

 private:
  void Push(PyObject* node) {
    if (ends_.count(node) != 0 || !seen_.insert(node).second || IsOlder(node)) return;
    held_.push_back(Ref::Borrow(node));
  }

  bool IsOlder(PyObject* node) {
    if (since_ < 0) return false;
    const Ref number = CallMethod(node, Known().sequence_number);
    const long long value = number ? PyLong_AsLongLong(number.get()) : -1;
    if (PyErr_Occurred() != nullptr) {  // of a leaf: larger than any
      PyErr_Clear();
      return false;
    }
    return value >= 0 && value < since_;
  }

  bool Visit(PyObject* node) {
    const Ref next = Attribute(node, Known().next_functions);
    if (!next || !PyTuple_Check(next.get())) return false;
    Ref places;
    Ref inside;
    for (Py_ssize_t i = 0; i < PyTuple_Size(next.get()); ++i) {
      PyObject* edge = PyTuple_GetItem(next.get(), i);
      PyObject* to = PyTuple_GetItem(edge, 0);
      if (to == Py_None) continue;
      const long number = PyLong_AsLong(PyTuple_GetItem(edge, 1));
      if (const Py_ssize_t target = Find(to, number); target >= 0) {
        if (!Append(places, i, target)) return false;
        continue;
      }
      if (const Py_ssize_t result = FindResult(to, number); result >= 0) {
        if (!Append(inside, i, result)) return false;
      }
      if (!IsAccumulator(to)) Push(to);
    }
    if (!places && !inside) return true;
    const Ref none(PyTuple_New(0));
    if (!none) return false;
    const Ref entry(Py_BuildValue("(OOO)", node, places ? places.get() : none.get(),
                                  inside ? inside.get() : none.get()));
    return entry && PyList_Append(found_.get(), entry.get()) == 0;
  }

  static bool Append(Ref& places, Py_ssize_t position, Py_ssize_t index) {
    if (!places) places = Ref(PyList_New(0));
    const Ref place(Py_BuildValue("(nn)", position, index));
    return places && place && PyList_Append(places.get(), place.get()) == 0;
  }

  Py_ssize_t Find(PyObject* to, long number) {
    if (ends_.count(to) != 0) {
      for (const Target& target : targets_) {
        if (target.node == to && target.number == number) return target.index;
      }
      return -1;
    }
    if (!leaves_ || !IsAccumulator(to)) return -1;
    const Ref leaf = Attribute(to, Known().variable);
    if (!leaf) PyErr_Clear();
    for (const Target& target : targets_) {
      if (target.node == nullptr && target.tensor == leaf.get()) return target.index;
    }
    return -1;
  }

  Py_ssize_t FindResult(PyObject* to, long number) {
    for (const Target& result : results_) {
      if (result.node == to && result.number == number) return result.index;
    }
    return -1;
  }

  std::vector<Target> targets_;
  std::vector<Target> results_;
  long long since_;
  Py_ssize_t limit_;
  Ref found_;
  bool leaves_ = false;
  bool complete_ = true;
  std::unordered_set<PyObject*> ends_;
  std::unordered_set<PyObject*> seen_;
  std::vector<Ref> held_;  // what was visited stays alive, so that no address comes back
};

// Reads a list of (node or None, output number, tensor). False with a Python error.
bool ReadEdges(PyObject* list, std::vector<Target>& edges) {
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    Target edge = {nullptr, 0, nullptr, i};
    if (!ReadTuple<"an edge">(PyList_GetItem(list, i), &edge.node, &edge.number, &edge.tensor)) return false;
    if (edge.node == Py_None) edge.node = nullptr;
    edges.push_back(edge);
  }
  return true;
}

}  // namespace

PyObject* GraphWalk(List came_out, List went_in, long long since, long limit) {
  std::vector<Target> targets;
  std::vector<Target> results;
  if (!ReadEdges(went_in, targets) || !ReadEdges(came_out, results)) return nullptr;
  Walk walk(std::move(targets), std::move(results), since, limit);
  return walk.Run() ? walk.Result() : nullptr;
}

}  // namespace msprobe::python
