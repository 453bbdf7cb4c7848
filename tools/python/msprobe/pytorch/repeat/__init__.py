"""Noise floors: every recorded call is made several times more, so that a comparison knows how much of
its result is noise.

Each time its inputs are rounded by lot in the last place, and every other time its sums run in another
order; what comes out is rounded by lot as well. Nothing of the training changes: what a call writes is
copied beforehand, and random numbers go on as they were.

| file | what |
| --- | --- |
| repeats | when calls are repeated, forward and backward, and what is recorded of it |
| rounding | arguments, rounded by lot |
| orders | the same call with its sums in another order |
"""
