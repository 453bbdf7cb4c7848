"""free_benchmark: which operators are unstable, found without a second run.

Each selected call is made twice, the second time with slightly changed inputs, in higher precision or
on the CPU. Nothing of the training changes in check mode: what a call writes is copied beforehand, the
second one runs on copies, without gradients, and random numbers go on as they were.

| file | what |
| --- | --- |
| session | what is done with a call |
| calls | one call and its second run |
| backward | the same for gradients |
| perturbation | changed arguments |
| comparison | results against each other |

What is the same for every framework is in msprobe._free_benchmark.
"""
