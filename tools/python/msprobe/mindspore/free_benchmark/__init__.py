"""free_benchmark for MindSpore in dynamic-graph mode; pytorch.free_benchmark says what it is.

| file | what |
| --- | --- |
| session | which calls are made twice, and what becomes of their results |
| calls | one call and its second run |
| backward | the gradients of a call |
| perturbation | changed arguments |
| comparison | results against each other |

What is the same for every framework is in msprobe._free_benchmark.
"""
