// Python values as pieces of an entry: the rules for every argument and result of a call.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// One value, after a member or key or inside an array. Never raises: what cannot be described is
// null and reported in dump_error_info.log under `name`.
void Describe(msprobe_entry* entry, std::string_view name, PyObject* value);

// The members of a call. `args`: tuple; `kwargs`: dict or null.
void DescribeInputs(msprobe_entry* entry, std::string_view name, PyObject* args, PyObject* kwargs);
// A result: what is not a tuple counts as a tuple of one; named tuples and sizes stand for
// themselves.
void DescribeOutput(msprobe_entry* entry, std::string_view name, PyObject* result);
// The values of a list or tuple as one array, whatever its type.
void DescribeList(msprobe_entry* entry, std::string_view name, PyObject* values);
// {name: null or nested} in the shape of `value`: every tensor that requires a gradient is pending,
// every other leaf null. `on_tensor(tensor, ticket)` is called for each of them.
void DescribePending(msprobe_entry* entry, PyObject* value, PyObject* on_tensor);

// The first tensor in a result: of a dict its first value, of lists and tuples their first element.
// Borrowed, or null.
PyObject* FirstTensor(PyObject* result);

}  // namespace msprobe::python
