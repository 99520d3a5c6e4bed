// Names a source for nvcc before CUDA 13, which is told to include this first, with a name for each source.
//
// What is in anonymous namespaces gets names of the first symbol that others may link to. Where a source has none, that
// nvcc puts the number of its process there, and each build has other bytes.
#pragma once

extern "C" __attribute__((visibility("hidden"))) void OPSMITH_UNIT() {}
