"""free_benchmark as far as it is the same for every framework; pytorch.free_benchmark says what it does.

| file | what |
| --- | --- |
| settings | the section free_benchmark of a configuration, checked |
| session | start, stop, step: when calls are made twice, and where rows go |
| attempts | work beside the training, and what becomes of its failures |
| structures | lists, tuples and dicts of tensors |
| comparison | two results, as verdicts |
| preheat | thresholds that adapt in the first steps |
| rows | free_benchmark.csv |
"""
