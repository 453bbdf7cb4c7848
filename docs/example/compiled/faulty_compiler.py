"""The same training, compiled by an inductor whose code of erf is wrong: one per cent too large."""
from torch._inductor.codegen import cpp

import train

for kind in (cpp.CppOverrides, cpp.CppVecOverrides):
    right = kind.erf
    kind.erf = staticmethod(lambda x, right=right: "(%s) * decltype(%s)(1.01f)" % (right(x), x))
train.main()
