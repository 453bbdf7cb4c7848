"""isolate: which modules compute wrong by themselves, all of them in one step.

Every module runs on what a reference run recorded as its inputs; its output is compared, and the
reference's output is handed on. So errors do not travel, and each module is judged alone. In the
backward pass gradients are handed on likewise. What a module computes between the modules in it is
judged by what it hands to them.

| file | what |
| --- | --- |
| reference | a dump's forward and backward calls of modules, and their tensors |
| session | start, stop, step; everything as it was afterwards |
| calls | one call of a module: what is replaced, what is compared |
| judge | how far two tensors are apart, and how much of that is noise |
| rows | isolate.csv |
"""
