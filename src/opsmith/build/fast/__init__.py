"""Runs a plan in less time, with the same result.

A plan says what must be compiled; it is what keys are made from and what CMake runs. Here some of its steps become
others that give an equal object sooner:

    objects      a source that has not changed is not compiled again
    slim         a source that needs a part of torch's headers reads that part
    precompiled  which is then read from a precompiled header
    launcher     a compiler cache of the user's (ccache, sccache) is asked first

Where one of these is not certain to hold, the step is left as it is; where it turns out wrong, the plan's own is run.
"""
