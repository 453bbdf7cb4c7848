// Tensors and arrays for the engine: addresses, shapes and flags, read through Python attributes.
#pragma once

#include <functional>
#include <span>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// A tensor of the framework. What has no readable values (sparse, meta, quantised, nested) is
// described without them.
void PutTensor(msprobe_entry* entry, std::string_view name, PyObject* tensor);
// A tensor of another framework, by way of an array of its values.
void PutOtherTensor(msprobe_entry* entry, std::string_view name, PyObject* tensor);
// A numpy array.
void PutArray(msprobe_entry* entry, std::string_view name, PyObject* array);

// The same of all tensors of a list, in its order.
bool UseAllTensors(PyObject* tensors,
                   const std::function<void(std::span<const msprobe_tensor>)>& use);

// (max, min, mean, norm) of a tensor as numbers of float32, those of halves rounded to their own
// type with `keeps_half`; None when it has no values on the host. A new reference; null with a
// Python error when it is not a tensor at all.
PyObject* HostStatistics(PyObject* tensor, bool keeps_half);

// Queues the reduction of a tensor of an accelerator on its stream (msprobe_reduce_on_device); false
// where that cannot be done, without a Python error.
bool ReduceOnDevice(PyObject* tensor, int device, int index, void* stream, void* row,
                    void* scratch);

// Gives `use` the description of a tensor of any framework. Its bytes, if it has readable ones, stay
// until `use` returns; those of an accelerator (`on_device`) are not pointed to. While many bytes
// of the host are read, other Python threads run: `use` may not touch Python then. False with a
// Python error when it cannot be described.
bool UseTensor(PyObject* tensor,
               const std::function<void(const msprobe_tensor&, bool on_device)>& use);

// The same for the place of its bytes alone, which are not read.
bool DescribeRange(PyObject* tensor, const std::function<void(const msprobe_tensor&)>& use);

// The same of two tensors, both described before `use` runs.
bool UseTensors(PyObject* first, PyObject* second,
                const std::function<void(const msprobe_tensor&, const msprobe_tensor&)>& use);

}  // namespace msprobe::python
