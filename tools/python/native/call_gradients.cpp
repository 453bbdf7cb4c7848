#include "tools/python/native/call_gradients.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/python/native/arguments.h"
#include "tools/python/native/graph_walk.h"
#include "tools/python/native/guard.h"
#include "tools/python/native/state.h"

namespace msprobe::python {
namespace {

// Nodes of one call that are looked at. One node costs about half a microsecond.
constexpr size_t kMostNodes = 50000;
constexpr int kMaxDepth = 50;

struct Names {
  PyObject* grad_fn = Interned("grad_fn");
  PyObject* output_number = Interned("output_nr");
  PyObject* version = Interned("_version");
  PyObject* requires_grad = Interned("requires_grad");
  PyObject* register_hook = Interned("register_hook");
  PyObject* register_prehook = Interned("register_prehook");
  PyObject* begin = Interned("begin");
  PyObject* end = Interned("end");
  PyObject* sent = Interned("sent");
  PyObject* leaves = Interned("leaves");
  PyObject* remove = Interned("remove");
};
const Names& Known() {
  static const Names* names = new Names;
  return *names;
}

// A Python error is set: what happens here stops, as in Python.
struct PythonError {};

Ref OrThrow(Ref value) {
  if (!value) throw PythonError();
  return value;
}

Ref ItemOf(PyObject* sequence, size_t index) {
  const auto place = static_cast<Py_ssize_t>(index);
  return OrThrow(PyTuple_Check(sequence) ? Ref::Borrow(PyTuple_GetItem(sequence, place)) : Ref(PySequence_GetItem(sequence, place)));
}

// None stands for a missing gradient: empty.
Ref GradientOf(PyObject* value) { return value == Py_None ? Ref() : Ref::Borrow(value); }
Ref GradientAt(PyObject* gradients, size_t position) { return GradientOf(ItemOf(gradients, position).get()); }
PyObject* OrNone(const Ref& gradient) { return gradient ? gradient.get() : Py_None; }

long long VersionOf(PyObject* tensor) {
  const Ref version = OrThrow(Attribute(tensor, Known().version));
  const long long number = PyLong_AsLongLong(version.get());
  if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return number;
}

// ---- how a framework's graph is read ----

struct Edge {
  Ref node;  // that made the tensor; empty where a leaf has none
  long number = 0;  // which of the node's results it is
};

// A reader's functions, looked up once. Empty ones have the default, PyTorch's graph, whose nodes are compared by identity.
class Reader {
 public:
  static const Reader& Of(PyObject* reader) {
    static auto* known = new std::vector<std::pair<PyObject*, std::unique_ptr<Reader>>>;  // one of each framework, held for good
    for (const auto& [object, made] : *known) {
      if (object == reader) return *made;
    }
    auto made = std::make_unique<Reader>();
    const std::pair<const char*, Ref*> places[] = {{"edge", &made->edge_},         {"is_leaf", &made->is_leaf_},
                                                   {"watch_leaf", &made->watch_},  {"sequence_number", &made->sequence_number_},
                                                   {"walk", &made->walk_},         {"is_view", &made->is_view_},
                                                   {"plus", &made->plus_},         {"minus", &made->minus_}};
    for (const auto& [name, place] : places) {
      *place = OrThrow(Ref(PyObject_GetAttrString(reader, name)));
      if (place->get() == Py_None) *place = Ref();
    }
    const Ref late = OrThrow(Ref(PyObject_GetAttrString(reader, "has_late_hooks")));
    made->has_late_hooks_ = late.get() == Py_True;
    known->emplace_back(reader, std::move(made));
    Py_INCREF(reader);
    return *known->back().second;
  }

  // Whether hooks of a script that are put on a result later see its gradient behind ours.
  bool has_late_hooks() const { return has_late_hooks_; }

  Edge EdgeOf(PyObject* tensor) const {
    Edge edge;
    if (!edge_) {
      edge.node = OrThrow(Attribute(tensor, Known().grad_fn));
      const Ref number = OrThrow(Attribute(tensor, Known().output_number));
      edge.number = PyLong_AsLong(number.get());
    } else {
      const Ref pair = OrThrow(Call(edge_.get(), tensor));
      if (!PyTuple_Check(pair.get()) || PyTuple_Size(pair.get()) != 2) {
        PyErr_SetString(PyExc_TypeError, "an edge is a node and a number");
        throw PythonError();
      }
      edge.node = Ref::Borrow(PyTuple_GetItem(pair.get(), 0));
      edge.number = PyLong_AsLong(PyTuple_GetItem(pair.get(), 1));
    }
    if (edge.number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    if (edge.node.get() == Py_None) edge.node = Ref();
    return edge;
  }

  bool Same(const Ref& left, const Ref& right) const {
    if (left.get() == right.get()) return true;
    return edge_ && left && right && PyObject_RichCompareBool(left.get(), right.get(), Py_EQ) == 1;
  }

  bool IsLeaf(const Ref& node) const { return !node || (is_leaf_ && OrThrow(Call(is_leaf_.get(), node.get())).get() == Py_True); }

  // What is to be kept, and the handle to remove; empty where the gradient of a leaf cannot be had.
  Ref WatchLeaf(PyObject* tensor, PyObject* hook) const {
    Ref watched = OrThrow(Ref(PyObject_CallFunctionObjArgs(watch_.get(), tensor, hook, nullptr)));
    return watched.get() == Py_None ? Ref() : std::move(watched);
  }

  // The number that the next node of this thread gets: what is below was made before. -1 where it is unknown.
  long long SequenceNumber() const {
    if (!sequence_number_) return -1;
    const Ref number = OrThrow(Ref(PyObject_CallObject(sequence_number_.get(), nullptr)));
    const long long value = PyLong_AsLongLong(number.get());
    if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    return value;
  }

  // Whether writing to another tensor may give it another node.
  bool IsView(PyObject* tensor) const { return is_view_ && OrThrow(Call(is_view_.get(), tensor)).get() == Py_True; }

  // A new tensor: their sum, or a copy of `gradient` where nothing is known. A copy, because what autograd does with its own must not
  // depend on who looks at it.
  Ref Plus(const Ref& known, const Ref& gradient) const {
    return OrThrow(Ref(PyObject_CallFunctionObjArgs(plus_.get(), OrNone(known), gradient.get(), nullptr)));
  }

  // A new tensor, or nothing where both are equal.
  Ref Minus(const Ref& gradient, const Ref& inside) const {
    const Ref left = OrThrow(Ref(PyObject_CallFunctionObjArgs(minus_.get(), gradient.get(), inside.get(), nullptr)));
    return GradientOf(left.get());
  }

  std::vector<FoundNode> Walk(const std::vector<GraphEdge>& results, const std::vector<GraphEdge>& targets, long long since,
                              bool& complete) const {
    std::vector<FoundNode> found;
    if (!walk_) {
      if (!WalkGraph(results, targets, since, kMostNodes, found, complete)) throw PythonError();
      return found;
    }
    const Ref came_out = ListOf(results);
    const Ref went_in = ListOf(targets);
    const Ref number = OrThrow(Ref(PyLong_FromLongLong(since)));
    const Ref answer = OrThrow(Ref(PyObject_CallFunctionObjArgs(walk_.get(), came_out.get(), went_in.get(), number.get(), nullptr)));
    PyObject* nodes = nullptr;
    PyObject* is_complete = nullptr;
    if (!ReadTuple<"a walk">(answer.get(), &nodes, &is_complete) || !PyList_Check(nodes)) throw PythonError();
    complete = is_complete == Py_True;
    for (Py_ssize_t i = 0; i < PyList_Size(nodes); ++i) {
      PyObject* node = nullptr;
      PyObject* ways = nullptr;
      PyObject* inner_ways = nullptr;
      if (!ReadTuple<"a node">(PyList_GetItem(nodes, i), &node, &ways, &inner_ways)) throw PythonError();
      found.push_back({Ref::Borrow(node), WaysOf(ways), WaysOf(inner_ways)});
    }
    return found;
  }

 private:
  static Ref ListOf(const std::vector<GraphEdge>& edges) {
    Ref list = OrThrow(Ref(PyList_New(0)));
    for (const GraphEdge& edge : edges) {
      const Ref one = OrThrow(Ref(Py_BuildValue("(OlO)", edge.node == nullptr ? Py_None : edge.node, edge.number, edge.tensor)));
      if (PyList_Append(list.get(), one.get()) != 0) throw PythonError();
    }
    return list;
  }

  static FoundNode::Ways WaysOf(PyObject* list) {
    FoundNode::Ways ways;
    for (Py_ssize_t i = 0; i < PySequence_Size(list); ++i) {
      const Ref pair = OrThrow(Ref(PySequence_GetItem(list, i)));
      unsigned long long position = 0;
      unsigned long long index = 0;
      if (!ReadTuple<"a way">(pair.get(), &position, &index)) throw PythonError();
      ways.emplace_back(static_cast<size_t>(position), static_cast<size_t>(index));
    }
    return ways;
  }

  bool has_late_hooks_ = false;
  Ref edge_;
  Ref is_leaf_;
  Ref watch_;
  Ref sequence_number_;
  Ref walk_;
  Ref is_view_;
  Ref plus_;
  Ref minus_;
};

// ---- one call ----

class ObservedCall;
using CallRef = std::shared_ptr<ObservedCall>;

// The boundaries that one tensor crossed without being computed anew, in the order of the forward pass. Gradients pass them in the opposite
// order.
struct Point {
  static constexpr size_t kEnd = std::numeric_limits<size_t>::max();
  struct Step {
    CallRef call;
    size_t index;  // of its result, or kEnd
  };

  size_t number = 0;  // of the tensor among the results of its node
  std::vector<Step> steps;
  std::weak_ptr<ObservedCall> around;  // the tensor is its argument
  size_t index = 0;
  Ref sent;  // in this pass, by calls that ended before the gradient is known

  void Run(const Ref& gradient);
  // What is known of the gradient while it is not complete.
  Ref SoFar() const;
};
using PointRef = std::shared_ptr<Point>;

// Where a tensor goes into a call or comes out of it.
struct Boundary {
  Ref tensor;  // weak
  long long version = 0;
  CallRef call;
  size_t index = 0;
  PointRef point;  // of a result; empty: of an argument
};

// What the forward pass of one thread is in: the last boundary of a call that each tensor crossed.
class Boundaries {
 public:
  static Boundaries& OfThisThread() {
    // Nothing of Python may be released where a thread ends: what it leaves is given up by the next one that asks.
    static auto* all = new std::vector<std::unique_ptr<Boundaries>>;
    struct Mark {
      std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
      Boundaries* own = nullptr;
      ~Mark() { ended->store(true); }
    };
    static thread_local Mark mark;
    if (mark.own == nullptr) {
      auto made = std::make_unique<Boundaries>();
      made->ended_ = mark.ended;
      mark.own = made.get();
      std::vector<std::unique_ptr<Boundaries>> living;
      std::vector<std::unique_ptr<Boundaries>> given_up;
      for (auto& each : *all) (each->ended_->load() ? given_up : living).push_back(std::move(each));
      living.push_back(std::move(made));
      all->swap(living);
    }
    return *mark.own;
  }

  // Null where the tensor crossed none, or was written to since.
  const Boundary* Find(PyObject* tensor) const {
    const auto found = of_.find(tensor);
    if (found == of_.end() || PyWeakref_GetObject(found->second.tensor.get()) != tensor) return nullptr;
    return found->second.version == VersionOf(tensor) ? &found->second : nullptr;
  }

  std::optional<Boundary> Take(PyObject* tensor) {
    const auto found = of_.find(tensor);
    if (found == of_.end()) return std::nullopt;
    std::optional<Boundary> taken(std::move(found->second));
    of_.erase(found);
    return taken;
  }

  void Set(PyObject* tensor, Boundary boundary) {
    std::swap(of_[tensor], boundary);  // the former one goes when the table is in order
    if (of_.size() >= sweep_at_) Sweep();
  }

  void Clear() {
    const auto given_up = std::exchange(of_, {});
    sweep_at_ = kLeastSweep;
  }

 private:
  static constexpr size_t kLeastSweep = 256;

  // Removes boundaries of tensors that are gone.
  void Sweep() {
    std::vector<Boundary> given_up;
    for (auto at = of_.begin(); at != of_.end();) {
      if (PyWeakref_GetObject(at->second.tensor.get()) == Py_None) {
        given_up.push_back(std::move(at->second));
        at = of_.erase(at);
      } else {
        ++at;
      }
    }
    sweep_at_ = std::max(kLeastSweep, 2 * of_.size());
  }

  std::shared_ptr<std::atomic<bool>> ended_;
  std::unordered_map<PyObject*, Boundary> of_;
  size_t sweep_at_ = kLeastSweep;
};

// The calls whose gradients began to come, in that order, and (node of a leaf, handle of our hook) of leaves, which outlive the graph.
struct UnderWay {
  std::vector<CallRef> unfinished;
  std::vector<Ref> on_leaves;
};
UnderWay& Current() {
  static auto* current = new UnderWay;
  return *current;
}

class ObservedCall : public std::enable_shared_from_this<ObservedCall> {
 public:
  ObservedCall(const Reader& reader, Ref listener, bool nested) : reader_(reader), listener_(std::move(listener)), nested_(nested) {}
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

  bool complete() const { return complete_; }

  // ---- in the forward pass ----

  void SeeInputs(PyObject* tensors) {
    since_ = reader_.SequenceNumber();
    for (Py_ssize_t i = 0; i < PyList_Size(tensors); ++i) {
      tensors_.push_back(Ref::Borrow(PyList_GetItem(tensors, i)));
      edges_.push_back(reader_.EdgeOf(tensors_.back().get()));
      versions_.push_back(VersionOf(tensors_.back().get()));
    }
    places_ = FirstPlaces(tensors_);
    if (!nested_) return;
    Boundaries& boundaries = Boundaries::OfThisThread();
    for (const size_t index : places_) {
      PyObject* tensor = tensors_[index].get();
      saved_.emplace_back(tensor, boundaries.Take(tensor));
      boundaries.Set(tensor, BoundaryOf(tensor, index, nullptr));
    }
  }

  void Leave() {
    if (!nested_) return;
    Boundaries& boundaries = Boundaries::OfThisThread();
    for (auto& [tensor, before] : std::exchange(saved_, {})) {
      if (before) {
        boundaries.Set(tensor, *std::move(before));
      } else {
        const std::optional<Boundary> own = boundaries.Take(tensor);
      }
    }
  }

  void SeeOutputs(PyObject* outputs, PyObject* own) {
    Leave();
    // No node is held by what is held by nodes.
    struct Release {
      ObservedCall& call;
      ~Release() {
        const auto tensors = std::exchange(call.tensors_, {});
        const auto edges = std::exchange(call.edges_, {});
        call.versions_.clear();
        call.places_.clear();
      }
    } const release{*this};
    std::vector<Ref> results;
    for (Py_ssize_t i = 0; i < PyList_Size(outputs); ++i) results.push_back(Ref::Borrow(PyList_GetItem(outputs, i)));
    if (!results.empty()) Observe(results, own == Py_None ? nullptr : own);
  }

  void Attach(size_t index, PyObject* record, bool of_input) {
    (of_input ? records_of_inputs_ : records_of_outputs_).emplace_back(index, Ref::Borrow(record));
  }

  // ---- in the backward pass ----

  // The part of the gradient of a result that calls behind this one sent, where the result is an argument.
  Ref PassedOn(size_t index, const Ref& gradient) {
    if (!open_ || Through(index) == nullptr) return Ref::Borrow(gradient.get());
    return Without(gradient, OfInput(DirectOf(index)->front()));
  }

  // The same while it is not complete, by the place of the argument; nothing: nothing is known.
  Ref PassedThrough(size_t at) const {
    for (const auto& [index, weak] : through_) {
      const std::vector<size_t>* places = DirectOf(index);
      if (std::find(places->begin(), places->end(), at) == places->end()) continue;
      const PointRef point = weak.lock();
      return point != nullptr ? point->SoFar() : Ref();
    }
    return {};
  }

  // What arrives at a result. `whole`: with what was taken away for calls behind this one.
  void SeeGradient(size_t index, const Ref& gradient, const Ref& whole) {
    if (index >= outputs_) return;
    const auto late = std::find(late_.begin(), late_.end(), index);
    if (late != late_.end() && !open_) {  // it has been recorded
      late_.erase(late);
    } else if (gradient || !whole || open_) {
      Take(index, Ref::Borrow(gradient.get()));
    }
    TellRecords(records_of_outputs_, index, whole);
  }

  // What the node of a result was given in the end.
  void SeeChanged(size_t index, Ref gradient) {
    if (open_ && index < arrived_.size() && arrived_[index] && InsideOf(index) == 0) std::swap(of_outputs_[index], gradient);
  }

  // What a node of the call sends.
  void SeeNode(const FoundNode::Ways& ways, const FoundNode::Ways& inner_ways, PyObject* gradients) {
    if (!open_) return;
    ++fired_;
    for (const auto& [position, at] : ways) Add(at, GradientAt(gradients, position), parts_[at] + direct_.size());
    for (const auto& [position, at] : inner_ways) {
      if (const Ref gradient = GradientAt(gradients, position)) {
        Ref sum = Sum(TakeInside(at), gradient, InsideOf(at));
        of_inside_.emplace_back(at, std::move(sum));
      }
    }
    EndIfKnown();
  }

  // The gradients that came are all.
  void Finish() {
    if (!open_) return;
    open_ = false;
    const CallRef self = shared_from_this();
    std::vector<CallRef>& unfinished = Current().unfinished;
    unfinished.erase(std::remove(unfinished.begin(), unfinished.end(), self), unfinished.end());
    PassThrough();
    const std::vector<Ref> of_outputs = std::exchange(of_outputs_, {});
    const std::vector<Ref> of_inputs = std::exchange(of_inputs_, {});
    const auto inside = std::exchange(of_inside_, {});
    arrived_.clear();
    const auto inner = inner_;
    for (const auto& [at, point] : inner) {
      if (at < of_inputs.size() && of_inputs[at]) point->Run(of_inputs[at]);
    }
    const Ref outputs = ListOf(of_outputs);
    const Ref inputs = ListOf(of_inputs);
    OrThrow(Ref(PyObject_CallMethodObjArgs(listener_.get(), Known().end, outputs.get(), inputs.get(), complete_ ? Py_True : Py_False,
                                           nullptr)));
    const Ref none;
    Places told;
    for (size_t i = 0; i < records_of_inputs_.size(); ++i) {
      const size_t at = records_of_inputs_[i].first;
      if (std::find(told.begin(), told.end(), at) != told.end()) continue;
      told.push_back(at);
      TellRecords(records_of_inputs_, at, at < of_inputs.size() ? of_inputs[at] : none);
    }
  }

  // What is known and one more; either may be nothing.
  Ref SumOf(const Ref& known, const Ref& more) const {
    if (!known || !more) return Ref::Borrow(known ? known.get() : more.get());
    return Sum(Ref::Borrow(known.get()), more, 2);
  }

 private:
  using Places = std::vector<size_t>;

  static Places FirstPlaces(const std::vector<Ref>& tensors) {
    Places places;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool again = std::any_of(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Ref& earlier) { return earlier.get() == tensors[i].get(); });
      if (!again) places.push_back(i);
    }
    return places;
  }

  static Ref ListOf(const std::vector<Ref>& gradients) {
    Ref list = OrThrow(Ref(PyList_New(static_cast<Py_ssize_t>(gradients.size()))));
    for (size_t i = 0; i < gradients.size(); ++i) {
      PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), Ref::Borrow(OrNone(gradients[i])).release());
    }
    return list;
  }

  Boundary BoundaryOf(PyObject* tensor, size_t index, PointRef point) {
    return {OrThrow(Ref(PyWeakref_NewRef(tensor, nullptr))), VersionOf(tensor), shared_from_this(), index, std::move(point)};
  }

  // The places of the arguments that a result is; null where the call computed it.
  const Places* DirectOf(size_t index) const {
    const auto found = std::find_if(direct_.begin(), direct_.end(), [index](const auto& each) { return each.first == index; });
    return found == direct_.end() ? nullptr : &found->second;
  }
  const std::weak_ptr<Point>* Through(size_t index) const {
    const auto found = std::find_if(through_.begin(), through_.end(), [index](const auto& each) { return each.first == index; });
    return found == through_.end() ? nullptr : &found->second;
  }
  // How many parts the gradient of a result has that other results of the call send.
  size_t InsideOf(size_t index) const {
    return static_cast<size_t>(std::count(inside_.begin(), inside_.end(), index));
  }
  Ref OfInput(size_t at) const { return at < of_inputs_.size() ? Ref::Borrow(of_inputs_[at].get()) : Ref(); }
  bool IsReturned(size_t at) const {
    return std::any_of(direct_.begin(), direct_.end(), [at](const auto& each) {
      return std::find(each.second.begin(), each.second.end(), at) != each.second.end();
    });
  }

  void Observe(const std::vector<Ref>& outputs, PyObject* own) {
    const Places results = FirstPlaces(outputs);
    std::vector<Edge> made;
    for (const Ref& output : outputs) made.push_back(reader_.EdgeOf(output.get()));
    FindUnchanged(outputs, made, results);
    if (reader_.has_late_hooks()) WatchLateHooks(made, results);
    results_ = results.size();
    outputs_ = outputs.size();
    nodes_ = HookNodes(outputs, made, results, own);
    if (IsOverwritten()) CompleteOrNot();
    const bool has_through = !direct_.empty() && nodes_ > 0;
    for (const size_t index : results) WatchOutput(index, outputs[index].get(), made[index], has_through);
    // Something that is not used leaves nodes that never run: the call ends when the gradient arrives at what made its arguments.
    if (results.size() > 1 && nodes_ > 0) {
      for (const size_t index : places_) {
        if (!IsReturned(index)) PointAt(tensors_[index].get(), edges_[index])->steps.push_back({shared_from_this(), Point::kEnd});
      }
    }
  }

  void FindUnchanged(const std::vector<Ref>& outputs, const std::vector<Edge>& made, const Places& results) {
    for (const size_t index : results) {
      Places same;
      for (const size_t at : places_) {
        if (!reader_.Same(edges_[at].node, made[index].node)) continue;
        if (made[index].node ? edges_[at].number == made[index].number : outputs[index].get() == tensors_[at].get()) same.push_back(at);
      }
      if (!same.empty()) direct_.emplace_back(index, std::move(same));
    }
  }

  void WatchLateHooks(const std::vector<Edge>& made, const Places& results);

  // Hooks the nodes of the call that send a gradient to its arguments, or to one of its results from another one; how many there are.
  size_t HookNodes(const std::vector<Ref>& outputs, const std::vector<Edge>& made, const Places& results, PyObject* own);
  FoundNode::Ways HookLeaves(PyObject* own, PyObject* node, const FoundNode::Ways& ways) const;

  bool IsOverwritten() const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (VersionOf(tensors_[i].get()) != versions_[i]) return true;
    }
    return false;
  }

  // A view whose base was overwritten has another node since.
  void CompleteOrNot() {
    for (const size_t at : places_) {
      if (parts_[at] == 0 && !IsReturned(at) && reader_.IsView(tensors_[at].get())) complete_ = false;
    }
  }

  void WatchOutput(size_t index, PyObject* tensor, const Edge& edge, bool has_through) {
    const PointRef point = PointAt(tensor, edge);
    point->steps.push_back({shared_from_this(), index});
    if (has_through && DirectOf(index) != nullptr) through_.emplace_back(index, point);
    if (nested_) Boundaries::OfThisThread().Set(tensor, BoundaryOf(tensor, index, point));
  }

  // Where gradients of a tensor pass on their way to what made it.
  PointRef PointAt(PyObject* tensor, const Edge& edge);

  void Take(size_t index, Ref gradient) {
    if (open_ && arrived_[index]) Finish();  // of another pass
    if (!open_) {
      open_ = true;
      of_outputs_ = std::vector<Ref>(outputs_);
      of_inputs_ = std::vector<Ref>(parts_.size());
      of_inside_.clear();
      arrived_.assign(outputs_, false);
      arrived_count_ = 0;
      fired_ = 0;
      Current().unfinished.push_back(shared_from_this());
      OrThrow(CallMethod(listener_.get(), Known().begin));
      if (!open_) return;  // another thread ended it meanwhile
    }
    if (const Ref inside = TakeInside(index)) gradient = Without(gradient, inside);
    arrived_[index] = true;
    ++arrived_count_;
    const Places* direct = DirectOf(index);
    if (Through(index) != nullptr) {
      // Whatever leads to the argument has been, and most of it was this call's.
      Ref passed = PassedOn(index, gradient);
      if (!open_) return;
      of_outputs_[index] = std::move(passed);
      if (gradient) {
        for (const size_t at : *direct) of_inputs_[at] = Ref::Borrow(gradient.get());
      }
      Finish();
      return;
    }
    of_outputs_[index] = Ref::Borrow(gradient.get());
    if (direct != nullptr) {
      for (const size_t at : *direct) Add(at, gradient, parts_[at] + direct_.size());
    }
    EndIfKnown();
  }

  // Hands over the inner gradient of a result.
  Ref TakeInside(size_t index) {
    const auto found = std::find_if(of_inside_.begin(), of_inside_.end(), [index](const auto& each) { return each.first == index; });
    if (found == of_inside_.end()) return {};
    Ref taken = std::move(found->second);
    of_inside_.erase(found);
    return taken;
  }

  void Add(size_t at, const Ref& gradient, size_t parts) {
    if (!gradient) return;
    Ref sum = Sum(OfInput(at), gradient, parts);
    if (at < of_inputs_.size()) std::swap(of_inputs_[at], sum);
  }

  // A gradient of several parts with one more of them.
  Ref Sum(const Ref& known, const Ref& gradient, size_t parts) const {
    return !known && parts == 1 ? Ref::Borrow(gradient.get()) : reader_.Plus(known, gradient);
  }

  // The gradient of a result without what other results of the same call sent to it; nothing where there is nothing else.
  Ref Without(const Ref& gradient, const Ref& inside) const {
    if (!gradient || !inside) return Ref::Borrow(gradient.get());
    return gradient.get() == inside.get() ? Ref() : reader_.Minus(gradient, inside);
  }

  void EndIfKnown() {
    if (open_ && fired_ == nodes_ && arrived_count_ == results_) Finish();
  }

  // Arguments that are results, too, and get their gradient after the call has ended.
  void PassThrough() {
    for (const auto& [index, weak] : std::vector(through_)) {
      const PointRef point = weak.lock();
      if (point == nullptr || arrived_[index]) continue;
      const size_t at = DirectOf(index)->front();
      const Ref sent = OfInput(at);
      const Ref behind = point->SoFar();
      late_.push_back(index);
      of_outputs_[index] = Ref::Borrow(behind.get());
      of_inputs_[at] = SumOf(behind, sent);
      point->sent = SumOf(point->sent, sent);
    }
  }

  using Records = std::vector<std::pair<size_t, Ref>>;
  static void TellRecords(const Records& records, size_t index, const Ref& gradient) {
    for (size_t i = 0; i < records.size(); ++i) {
      if (records[i].first != index) continue;
      const Ref record = Ref::Borrow(records[i].second.get());
      OrThrow(Call(record.get(), OrNone(gradient)));
    }
  }

  const Reader& reader_;
  const Ref listener_;
  const bool nested_;
  bool complete_ = true;

  // While the call lasts.
  long long since_ = -1;
  std::vector<Ref> tensors_;
  std::vector<Edge> edges_;
  std::vector<long long> versions_;
  Places places_;
  std::vector<std::pair<PyObject*, std::optional<Boundary>>> saved_;

  // From then on.
  std::vector<std::pair<size_t, Places>> direct_;  // place of a result: the places of the arguments that it is
  Places inside_;                                  // of the results to which others send something, once for each part
  std::vector<std::pair<size_t, PointRef>> inner_; // of arguments that cross boundaries inside
  std::vector<std::pair<size_t, std::weak_ptr<Point>>> through_;
  std::vector<size_t> parts_;  // of the gradient of each argument
  size_t nodes_ = 0;
  size_t results_ = 0;
  size_t outputs_ = 0;
  Records records_of_inputs_;
  Records records_of_outputs_;

  // In a backward pass.
  bool open_ = false;
  std::vector<Ref> of_outputs_;
  std::vector<Ref> of_inputs_;
  std::vector<std::pair<size_t, Ref>> of_inside_;
  std::vector<bool> arrived_;
  size_t arrived_count_ = 0;
  size_t fired_ = 0;
  Places late_;
};

void Point::Run(const Ref& gradient) {
  sent = Ref();
  const std::vector<Step> passed = steps;
  std::vector<Ref> shares;
  Ref share = Ref::Borrow(gradient.get());
  for (const Step& step : passed) {
    shares.push_back(Ref::Borrow(share.get()));
    if (step.index != kEnd && share) share = step.call->PassedOn(step.index, share);
  }
  for (size_t i = passed.size(); i-- > 0;) {
    if (passed[i].index == kEnd) {
      passed[i].call->Finish();
    } else {
      passed[i].call->SeeGradient(passed[i].index, shares[i], gradient);
    }
  }
}

Ref Point::SoFar() const {
  const CallRef outer = around.lock();
  return outer == nullptr ? Ref::Borrow(sent.get()) : outer->SumOf(outer->PassedThrough(index), sent);
}

// ---- the hooks on nodes ----

class GraphHook {
 public:
  GraphHook() = default;
  GraphHook(const GraphHook&) = delete;
  GraphHook& operator=(const GraphHook&) = delete;
  virtual ~GraphHook() = default;
  // `before`: what the node sends, or what it is given where it has not run; `after`: what it was given, null for the latter.
  virtual void Run(PyObject* before, PyObject* after) = 0;
};

class PointHook : public GraphHook {
 public:
  explicit PointHook(PointRef point) : point_(std::move(point)) {}
  void Run(PyObject* given, PyObject* /*none*/) override {
    point_->Run(GradientAt(given, point_->number));
  }

 private:
  const PointRef point_;
};

// At a node of a call that sends gradients to its arguments, or to one of its results from another one.
class NodeHook : public GraphHook {
 public:
  NodeHook(CallRef call, FoundNode::Ways ways, FoundNode::Ways inner_ways)
      : call_(std::move(call)), ways_(std::move(ways)), inner_ways_(std::move(inner_ways)) {}
  void Run(PyObject* sent, PyObject* /*given*/) override { call_->SeeNode(ways_, inner_ways_, sent); }

 private:
  const CallRef call_;
  const FoundNode::Ways ways_;
  const FoundNode::Ways inner_ways_;
};

// At the node of a result, behind all that the script put in front of it.
class LateHook : public GraphHook {
 public:
  LateHook(CallRef call, size_t index, size_t number) : call_(std::move(call)), index_(index), number_(number) {}
  void Run(PyObject* /*sent*/, PyObject* given) override {
    if (given != nullptr) call_->SeeChanged(index_, GradientAt(given, number_));
  }

 private:
  const CallRef call_;
  const size_t index_;
  const size_t number_;
};

// At a node of a call that sends gradients to leaves which are not its arguments: its module's parameters.
class LeafHook : public GraphHook {
 public:
  LeafHook(PyObject* own, FoundNode::Ways ways) : own_(Ref::Borrow(own)), ways_(std::move(ways)) {}
  void Run(PyObject* sent, PyObject* /*given*/) override {
    for (const auto& [position, index] : ways_) {
      const Ref gradient = ItemOf(sent, position);
      const Ref place = OrThrow(Ref(PyLong_FromSize_t(index)));
      OrThrow(Ref(PyObject_CallMethodObjArgs(own_.get(), Known().sent, place.get(), gradient.get(), nullptr)));
    }
  }

 private:
  const Ref own_;
  const FoundNode::Ways ways_;
};

struct HookObject {
  PyObject head;
  GraphHook* hook;
};
PyTypeObject* hook_type = nullptr;

Ref MakeHook(std::unique_ptr<GraphHook> hook) {
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(hook_type, Py_tp_alloc));
  Ref made = OrThrow(Ref(allocate(hook_type, 0)));  // of zeros
  reinterpret_cast<HookObject*>(made.get())->hook = hook.release();
  return made;
}

// Runs in the training's backward pass: what fails is reported, and nothing is raised.
PyObject* CallHook(PyObject* object, PyObject* args, PyObject* /*kwargs*/) noexcept {
  const Ref held = Ref::Borrow(object);
  try {
    PyObject* before = PyTuple_GetItem(args, 0);
    if (before == nullptr) throw PythonError();
    reinterpret_cast<HookObject*>(object)->hook->Run(before, PyTuple_Size(args) > 1 ? PyTuple_GetItem(args, 1) : nullptr);
  } catch (const PythonError&) {
    ReportPythonError("gradients of a call");
    PyErr_Clear();
  } catch (...) {
    PyErr_Clear();
    CountLostRecord();
  }
  Py_RETURN_NONE;
}

void DeallocateHook(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  delete reinterpret_cast<HookObject*>(object)->hook;
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyType_Slot hook_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocateHook)},
    {Py_tp_call, reinterpret_cast<void*>(CallHook)},
    {0, nullptr},
};
PyType_Spec hook_spec = {"msprobe._native.GraphHook", sizeof(HookObject), 0, Py_TPFLAGS_DEFAULT, hook_slots};

void Hook(PyObject* node, PyObject* method, std::unique_ptr<GraphHook> hook) {
  const Ref made = MakeHook(std::move(hook));
  OrThrow(Ref(PyObject_CallMethodObjArgs(node, method, made.get(), nullptr)));
}

void ObservedCall::WatchLateHooks(const std::vector<Edge>& made, const Places& results) {
  for (const size_t index : results) {
    if (DirectOf(index) != nullptr || reader_.IsLeaf(made[index].node)) continue;
    Hook(made[index].node.get(), Known().register_hook, std::make_unique<LateHook>(shared_from_this(), index, static_cast<size_t>(made[index].number)));
  }
}

size_t ObservedCall::HookNodes(const std::vector<Ref>& outputs, const std::vector<Edge>& made, const Places& results, PyObject* own) {
  parts_.assign(edges_.size(), 0);
  Places computed;  // the places of the results that nodes of the call made
  std::vector<GraphEdge> came_out;
  for (const size_t at : results) {
    const bool is_end = std::any_of(edges_.begin(), edges_.end(), [&](const Edge& edge) { return reader_.Same(edge.node, made[at].node); });
    if (DirectOf(at) != nullptr || !made[at].node || is_end) continue;
    computed.push_back(at);
    came_out.push_back({made[at].node.get(), made[at].number, outputs[at].get()});
  }
  const Ref leaves = own != nullptr ? OrThrow(CallMethod(own, Known().leaves)) : Ref();
  const bool has_leaves = leaves && PyList_Check(leaves.get()) && PyList_Size(leaves.get()) > 0;
  const bool only_leaves = edges_.empty() && computed.size() == 1;
  if (computed.empty() || (only_leaves && !has_leaves)) return 0;
  std::vector<GraphEdge> went_in;
  for (const size_t at : places_) went_in.push_back({edges_[at].node.get(), edges_[at].number, tensors_[at].get()});
  for (Py_ssize_t i = 0; has_leaves && i < PyList_Size(leaves.get()); ++i) went_in.push_back({nullptr, 0, PyList_GetItem(leaves.get(), i)});
  bool complete = true;
  std::vector<FoundNode> found = reader_.Walk(came_out, went_in, since_, complete);
  if (!complete) {
    complete_ = only_leaves;
    return 0;
  }
  size_t hooked = 0;
  for (FoundNode& node : found) {
    FoundNode::Ways ways = has_leaves ? HookLeaves(own, node.node.get(), node.ways) : std::move(node.ways);
    if (ways.empty() && node.inner_ways.empty()) continue;
    for (auto& [position, target] : ways) {
      target = places_[target];
      ++parts_[target];
    }
    for (auto& [position, result] : node.inner_ways) {
      result = computed[result];
      inside_.push_back(result);
    }
    Hook(node.node.get(), Known().register_hook,
         std::make_unique<NodeHook>(shared_from_this(), std::move(ways), std::move(node.inner_ways)));
    ++hooked;
  }
  return hooked;
}

// The ways that lead to arguments.
FoundNode::Ways ObservedCall::HookLeaves(PyObject* own, PyObject* node, const FoundNode::Ways& ways) const {
  const size_t arguments = places_.size();
  FoundNode::Ways to_arguments;
  FoundNode::Ways to_leaves;
  for (const auto& [position, target] : ways) {
    if (target < arguments) {
      to_arguments.emplace_back(position, target);
    } else {
      to_leaves.emplace_back(position, target - arguments);
    }
  }
  if (!to_leaves.empty()) Hook(node, Known().register_hook, std::make_unique<LeafHook>(own, std::move(to_leaves)));
  return to_arguments;
}

PointRef ObservedCall::PointAt(PyObject* tensor, const Edge& edge) {
  if (const Boundary* known = Boundaries::OfThisThread().Find(tensor)) {
    if (known->point != nullptr) return known->point;
    // An argument of the call around: its gradient within that call.
    const CallRef around = known->call;
    const size_t index = known->index;
    for (const auto& [at, point] : around->inner_) {
      if (at == index) return point;
    }
    auto point = std::make_shared<Point>();
    point->around = around;
    point->index = index;
    around->inner_.emplace_back(index, point);
    return point;
  }
  auto point = std::make_shared<Point>();
  point->number = static_cast<size_t>(edge.number);
  if (!reader_.IsLeaf(edge.node)) {
    Hook(edge.node.get(), Known().register_prehook, std::make_unique<PointHook>(point));
    return point;
  }
  // The hook of a leaf is given its gradient alone.
  point->number = 0;
  const Ref hook = MakeHook(std::make_unique<PointHook>(point));
  if (Ref watched = reader_.WatchLeaf(tensor, hook.get())) Current().on_leaves.push_back(std::move(watched));
  return point;
}

// ---- the type ----

struct Object {
  PyObject head;
  CallRef* call;
};

ObservedCall& CallOf(PyObject* object) { return **reinterpret_cast<Object*>(object)->call; }

// For what Python calls: its errors are its own.
template <typename Body>
PyObject* OrRaise(Body body) {
  try {
    body();
  } catch (const PythonError&) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace

template <>
struct Receiver<ObservedCall*> {
  static ObservedCall* From(PyObject* self) { return &CallOf(self); }
};

namespace {

PyObject* SeeInputs(ObservedCall* call, List tensors) {
  return OrRaise([&] { call->SeeInputs(tensors); });
}
PyObject* Leave(ObservedCall* call) {
  return OrRaise([&] { call->Leave(); });
}
PyObject* SeeOutputs(ObservedCall* call, List outputs, Optional<PyObject*, nullptr> own) {
  return OrRaise([&] { call->SeeOutputs(outputs, own == nullptr ? Py_None : static_cast<PyObject*>(own)); });
}
PyObject* IsComplete(PyObject* object, void* /*closure*/) { return PyBool_FromLong(CallOf(object).complete() ? 1 : 0); }

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) noexcept {
  try {
    ArgumentReader<"CallGradients", PyObject*, PyObject*, Optional<int, 1>> arguments;
    if (!arguments.Read(args)) return nullptr;
    const auto [reader, listener, nested] = arguments.Values();
    auto call = std::make_shared<ObservedCall>(Reader::Of(reader), Ref::Borrow(listener), nested != 0);
    auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    Ref made(allocate(type, 0));  // of zeros
    if (!made) return nullptr;
    reinterpret_cast<Object*>(made.get())->call = new CallRef(std::move(call));
    return made.release();
  } catch (const PythonError&) {
    return nullptr;
  } catch (...) {
    return RaiseCaught();
  }
}

void Deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  delete reinterpret_cast<Object*>(object)->call;
  auto* release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyMethodDef methods[] = {
    Method<"see_inputs", SeeInputs>(),
    Method<"leave", Leave>(),
    Method<"see_outputs", SeeOutputs>(),
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef attributes[] = {
    {"complete", IsComplete, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, nullptr},
};
PyType_Spec spec = {"msprobe._native.CallGradients", sizeof(Object), 0, Py_TPFLAGS_DEFAULT, slots};

void Collect(PyObject* value, PyObject* found, int depth) {
  if (KindOf(value) == Kind::kTensor) {
    if (OrThrow(Attribute(value, Known().requires_grad)).get() == Py_True && PyList_Append(found, value) != 0) throw PythonError();
    return;
  }
  if (depth >= kMaxDepth) return;
  if (PyTuple_Check(value) || PyList_Check(value)) {
    const bool is_list = PyList_Check(value) != 0;
    // Lists may change under us: the length is asked for each time.
    for (Py_ssize_t i = 0; i < (is_list ? PyList_Size(value) : PyTuple_Size(value)); ++i) {
      const Ref item = Ref::Borrow(is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i));
      Collect(item.get(), found, depth + 1);
    }
  } else if (PyDict_Check(value) && PyDict_Size(value) > 0) {
    const Ref items = OrThrow(Ref(PyDict_Values(value)));
    for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) Collect(PyList_GetItem(items.get(), i), found, depth + 1);
  }
}

}  // namespace

PyObject* SettleGradients() {
  return OrRaise([] {
    for (const CallRef& call : std::vector(Current().unfinished)) call->Finish();
  });
}

PyObject* LetGoOfGradients() {
  return OrRaise([] {
    for (const CallRef& call : std::vector(Current().unfinished)) call->Finish();
    for (const Ref& watched : std::exchange(Current().on_leaves, {})) {
      OrThrow(CallMethod(PyTuple_GetItem(watched.get(), 1), Known().remove));
    }
    Boundaries::OfThisThread().Clear();
  });
}

PyObject* AttachUnchanged(PyObject* tensor, PyObject* record) {
  bool attached = false;
  PyObject* done = OrRaise([&] {
    const Boundary* boundary = Boundaries::OfThisThread().Find(tensor);
    attached = boundary != nullptr;
    if (attached) boundary->call->Attach(boundary->index, record, boundary->point == nullptr);
  });
  if (done == nullptr) return nullptr;
  Py_DECREF(done);
  return PyBool_FromLong(attached ? 1 : 0);
}

PyObject* CollectTensors(PyObject* value, PyObject* found) {
  if (!PyList_Check(found)) {
    PyErr_SetString(PyExc_TypeError, "the tensors found go to a list");
    return nullptr;
  }
  return OrRaise([&] { Collect(value, found, 0); });
}

PyObject* MakeCallGradientsType() { return PyType_FromSpec(&spec); }

bool MakeGraphHookType() {
  hook_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&hook_spec));
  return hook_type != nullptr;
}

}  // namespace msprobe::python
