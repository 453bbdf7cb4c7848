"""Noise floors: every recorded call is made several times more, so that a comparison knows how much of
its result is noise.

Each time its inputs are rounded up or down at random in the last place, and every other time its sums run in another
order; its results are rounded at random as well. Nothing of the training changes: what a call writes is
copied beforehand, and random numbers go on as they were.

| file | what |
| --- | --- |
| repeats | when calls are repeated, forward and backward, and what is recorded of it |
| rounding | arguments, rounded up or down at random |
| orders | the same call with its sums in another order |
"""
