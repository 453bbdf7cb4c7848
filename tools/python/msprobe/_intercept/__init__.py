"""Everything of a training that msprobe observes or replaces goes through this package.

It alone owns the attributes that are replaced: functions, Module.__call__, optimizer steps,
collectives. Whoever wants to observe or change a call subscribes here and knows nothing of the
others: the capture, the monitor, the check of configurations.

| file | what |
| --- | --- |
| runtime | the guard around our own work, when to keep out, subscribers that fail |
| in_place | functions that are observed where they are, and which of their callers are recorded |
| slots | one observed or replaced attribute: what is given back is only what is still ours |
| modules | calls of modules: before(call) and after(call) |
| functions | stand-ins for functions of a framework |
| collectives | communication, and what is still under way when its call returns |
| gradients | gradients at both ends of a call, observed in the autograd graph |
| optimizer_steps | the steps of one optimizer, or of all |
| compilers | torch.compile, tracing and export find everything as it was |
"""
