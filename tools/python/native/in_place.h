// Functions that are observed where they are: the object stays the same one, with its name, text, signature, hash and pickle. Only the
// pointer through which the interpreter calls it is exchanged.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// InPlace(function): a layer of observation over one function. TypeError where a function of this kind cannot be observed.
//   observe(handler, choose=None)  handler: what is called in its place, or a tuple of Apis of which choose(frame of the caller) gives
//                                  the index; -1 from choose: this call is not observed. None: nothing is held any more.
//   put(), take()                  layers lie over each other in the order in which they were put
//   layer(...)                     calls what lies below: the next layer, or the function itself
// All other attributes are those of the function, to which a layer is equal.
PyObject* MakeInPlaceType();

bool IsInPlace(PyObject* object);
void PutInPlace(PyObject* layer);
void TakeInPlace(PyObject* layer);

}  // namespace msprobe::python
