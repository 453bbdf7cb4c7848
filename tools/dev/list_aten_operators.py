#!/usr/bin/env python3
"""Adds to config/aten_operators.json the operators of this PyTorch that a file may name as `Aten.<name>`.

    list_aten_operators.py [config/aten_operators.json]

Run it with every version of PyTorch that matters; names that another version gave stay. What is listed computes: its overloads take
tensors, numbers, and words of the few operators below, and give back tensors or numbers. TorchScript's own functions, which PyTorch keeps
under the same prefix (`aten::save` writes a file), have no kernel in the dispatcher and are left out.
"""
import json
import os
import re
import sys

import torch

VALUES = {"Tensor", "int", "float", "bool", "number", "complex", "Device", "Generator"}
# Operators that take a word: of a mode, a norm, an equation, a rounding.
WORDS = re.compile(r"(fft_\w+|linalg_\w+|_linalg_\w+|gelu\w*|div_?|divide_?|scatter_?|scatter_reduce_?|index_reduce_?|_?segment_reduce\w*|conv[123]d|"
                   r"_convolution_mode|pad|einsum|meshgrid|n?a?n?quantile|searchsorted|stft|norm|pad_sequence|_sparse_mm\w*)\Z")
# What changes whose memory a tensor is, or what it is, instead of computing; what trusts its arguments instead of checking them; what
# asserts, prints, or asks for the build.
NEVER = re.compile(r"from_file|set|.*set_|set_data|data|detach_|.*resize\w*|record_stream|retains?_grad\w*|requires_grad_|_?version|output_nr|_?is_\w+|_has_\w+|"
                   r".*pin_memory|.*_assert\w*|_print|_test_\w+|_validate\w*|\w*_unsafe|_unsafe_(masked_)?index\w*|_index_put_impl_?|_debug\w*|_cslt\w*|"
                   r"_use_\w+|_nnpack\w*|cudnn_is_acceptable|_cufft\w*|can_cast|promote_types|result_type|_?fw_primal\w*|_(make|unpack)_dual|lift\w*|"
                   r"\w*_copy_from\w*|\w*nested\w*|sym_\w+|_functional_sym\w+|_backward|q_\w+|rename\w*|refine_names|align_\w+|\w*_batch_dim|_foobar|"
                   r"_make_\w+|_coalesced_?|_indices|_values|_dim[IV]|_nnz|\w*_names?|_lazy_clone|_cow\w*|get_\w+|_dyn_\w+|\w*linker_symbol\w*|"
                   r"\w*xnnpack\w*|\w*prepack\w*|miopen\w*|_?mps_\w+|fbgemm\w*|_wrapped_\w+|_triton_\w+|_reshape_alias\w*|_sparse_\w*_with_dims\w*|"
                   r"\w*mkldnn_re\w+|_cudnn_init_dropout_state|_new_zeros_with\w*|_linalg_check_errors")

def plain(kind):
    text = str(kind)
    while text.startswith(("Optional[", "List[")):
        text = text[text.index("[") + 1:-1]
    return text


def computes(schema):
    taken = {plain(argument.type) for argument in schema.arguments}
    given = {plain(value.type) for value in schema.returns}
    words = {"str"} if WORDS.match(schema.name[6:]) else set()
    return taken <= VALUES | words and "Tensor" in taken | given and given <= {"Tensor", "int", "float", "bool", "number", "complex"}


def names():
    found = {}
    for schema in torch._C._jit_get_all_schemas():  # pylint: disable=protected-access
        name = schema.name[6:]
        if not schema.name.startswith("aten::") or NEVER.fullmatch(name):
            continue
        qualified = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        # An overload of TorchScript's own, as of texts, does not say what the operator is.
        if torch._C._dispatch_has_kernel(qualified):  # pylint: disable=protected-access
            found.setdefault(name, []).append(computes(schema))
    return {name for name, overloads in found.items() if any(overloads)}


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..", "config", "aten_operators.json")
    known = set()
    if os.path.exists(path):
        with open(path) as file:
            known = set(json.load(file)["operators"])
    with open(path, "w") as file:
        json.dump({"operators": sorted(known | names())}, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
