#include "tools/python/native/graph_walk.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

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
  Walk(const std::vector<GraphEdge>& results, const std::vector<GraphEdge>& targets, long long since)
      : targets_(targets), results_(results), since_(since) {
    for (const GraphEdge& target : targets_) leaves_ = leaves_ || target.node == nullptr;
  }

  // False with a Python error.
  bool Run(size_t limit, std::vector<FoundNode>& found, bool& complete) {
    complete = true;
    for (const GraphEdge& result : results_) {
      if (result.node != nullptr) Push(result.node);
    }
    // `held_` grows while it is walked: it is the list of what is still to be looked at, too.
    for (size_t next = 0; next < held_.size(); ++next) {
      if (held_.size() > limit) {
        complete = false;
        return true;
      }
      if (!Visit(held_[next].get(), found)) return false;
    }
    return true;
  }

 private:
  static const GraphEdge* FindIn(const std::vector<GraphEdge>& edges, PyObject* node, long number) {
    const auto found = std::find_if(edges.begin(), edges.end(), [&](const GraphEdge& edge) { return edge.node == node && edge.number == number; });
    return found == edges.end() ? nullptr : &*found;
  }

  bool IsEnd(PyObject* node) const {
    return std::any_of(targets_.begin(), targets_.end(), [node](const GraphEdge& target) { return target.node == node; });
  }

  // Most calls have a few nodes, for which a set costs more than it saves.
  bool IsNew(PyObject* node) {
    constexpr size_t kFew = 16;
    if (held_.size() < kFew) return std::none_of(held_.begin(), held_.end(), [node](const Ref& held) { return held.get() == node; });
    if (seen_.empty()) {
      for (const Ref& held : held_) seen_.insert(held.get());
    }
    return seen_.insert(node).second;
  }

  void Push(PyObject* node) {
    if (!IsEnd(node) && IsNew(node) && !IsOlder(node)) held_.push_back(Ref::Borrow(node));
  }

  bool IsOlder(PyObject* node) const {
    if (since_ < 0) return false;
    const Ref number = CallMethod(node, Known().sequence_number);
    const long long value = number ? PyLong_AsLongLong(number.get()) : -1;
    if (PyErr_Occurred() != nullptr) {  // of a leaf: larger than any
      PyErr_Clear();
      return false;
    }
    return value >= 0 && value < since_;
  }

  bool Visit(PyObject* node, std::vector<FoundNode>& found) {
    const Ref next = Attribute(node, Known().next_functions);
    if (!next || !PyTuple_Check(next.get())) return false;
    FoundNode here;
    for (Py_ssize_t i = 0; i < PyTuple_Size(next.get()); ++i) {
      PyObject* edge = PyTuple_GetItem(next.get(), i);
      PyObject* to = PyTuple_GetItem(edge, 0);
      if (to == Py_None) continue;
      const long number = PyLong_AsLong(PyTuple_GetItem(edge, 1));
      const auto position = static_cast<size_t>(i);
      if (const GraphEdge* target = FindTarget(to, number)) {
        here.ways.emplace_back(position, static_cast<size_t>(target - targets_.data()));
        continue;
      }
      if (const GraphEdge* result = FindIn(results_, to, number)) {
        here.inner_ways.emplace_back(position, static_cast<size_t>(result - results_.data()));
      }
      if (!IsAccumulator(to)) Push(to);
    }
    if (here.ways.empty() && here.inner_ways.empty()) return true;
    here.node = Ref::Borrow(node);
    found.push_back(std::move(here));
    return true;
  }

  const GraphEdge* FindTarget(PyObject* to, long number) const {
    if (IsEnd(to)) return FindIn(targets_, to, number);
    if (!leaves_ || !IsAccumulator(to)) return nullptr;
    const Ref leaf = Attribute(to, Known().variable);
    if (!leaf) PyErr_Clear();
    const auto found = std::find_if(targets_.begin(), targets_.end(),
                                    [&](const GraphEdge& target) { return target.node == nullptr && target.tensor == leaf.get(); });
    return found == targets_.end() ? nullptr : &*found;
  }

  const std::vector<GraphEdge>& targets_;
  const std::vector<GraphEdge>& results_;
  const long long since_;
  bool leaves_ = false;
  std::unordered_set<PyObject*> seen_;
  std::vector<Ref> held_;  // what was visited stays alive, so that no address comes back
};

}  // namespace

bool WalkGraph(const std::vector<GraphEdge>& results, const std::vector<GraphEdge>& targets, long long since, size_t limit,
               std::vector<FoundNode>& found, bool& complete) {
  return Walk(results, targets, since).Run(limit, found, complete);
}

}  // namespace msprobe::python
