"""free_benchmark: which operators are unstable, found without a second run.

Each selected call is made twice, the second time with slightly changed inputs, in higher precision or
on the CPU. Nothing of the training changes in check mode: what a call writes is copied beforehand, the
second one runs on copies, without gradients, and random numbers go on as they were.

| file | what |
| --- | --- |
| settings | the section free_benchmark of a configuration, checked |
| session | start, stop, step: when calls are made twice, and where rows go |
| calls | one call and its second run |
| backward | the same for gradients |
| perturbation | changed arguments |
| comparison | two results, as verdicts |
| preheat | thresholds that adapt in the first steps |
| rows | free_benchmark.csv |
"""
