// Gradients at both ends of a call, observed at the nodes of the autograd graph of any framework.
//
// Nothing is put in their way: arguments and results stay the objects they are, and no node is added.
// When a call ends, the graph is walked from its results back to the edges that lead to its arguments.
// The nodes with such an edge are hooked: what they send over it, summed, is the gradient of the
// argument within this call. The gradient of a result is what its node is given.
//
// Autograd cannot tell some things apart, and then neither can this:
//
// - a tensor given at several places has its gradient at the first of them, zero at the others;
// - a result that the call did not compute (its argument, or the result of a call inside it) shows the
//   gradient of that tensor in all its uses; of an argument that is returned beside computed results,
//   what the call itself sent to it is taken away, and what nothing observed sends comes too late where
//   the call's other arguments were made later;
// - a view whose base was overwritten during the call has no gradient.
//
// Where one result of a call was computed from another one, what flows between them inside the call is
// taken away from the gradient of the latter: exactly where nothing else uses it, else by subtraction.
//
// What is made for a call is held by the hooks on its nodes, and by nothing else once the call has ended: it goes with the graph, without
// waiting for Python's collector of garbage, which sees none of it.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// CallGradients(reader, listener, nested=True): one call, and who listens. `reader` says how a framework's graph is read
// (msprobe/_intercept/gradients.py); `nested`: calls inside this one are observed as well.
//
//   see_inputs(tensors)        the call begins; what it is given, as far as it requires a gradient
//   leave()                    the call has ended, perhaps by an exception
//   see_outputs(tensors, own)  the call has ended well. own.leaves(): leaves beside its arguments; own.sent(index, gradient) receives what
//                              nodes of the call send to them
//   complete                   whether all gradients can be seen; it is known once the call has ended
//
// listener.begin() runs when the first gradient of what came out is there, before anything that the call computed gets one;
// listener.end(of_outputs, of_inputs, complete) when those of what went in are known, lists with None where no gradient came. Both may run
// again: every backward pass does. What is called must not hold this object.
PyObject* MakeCallGradientsType();
// The type of the hooks on nodes. False with a Python error.
bool MakeGraphHookType();

// settle_gradients(): calls whose gradients began to come get no more; their listeners get those that came.
PyObject* SettleGradients();
// let_go_of_gradients(): also takes away what would stay at leaves after their graph is gone.
PyObject* LetGoOfGradients();
// attach_unchanged(tensor, record): for a function that returned its argument as it was: record(gradient) is called when the gradient
// passes the boundary that the tensor crossed last. False where it crossed none, or was computed since: then its node belongs to the
// function.
PyObject* AttachUnchanged(PyObject* tensor, PyObject* record);
// collect_tensors(value, found): appends the tensors in `value` that require a gradient, in order.
PyObject* CollectTensors(PyObject* value, PyObject* found);

}  // namespace msprobe::python
