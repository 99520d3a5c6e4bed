// The part of <torch/extension.h> that extensions really use: tensors and their operators, the dispatcher, parallel
// loops, and the conversions between Python and C++. Left out are the C++ frontend (torch::nn, torch::optim,
// torch::data), serialisation and TorchScript, which make half of its compile time.
//
// Every specialisation that pybind11 looks up (type_caster) is in torch/csrc/utils/pybind.h, so a binding cannot
// silently become another one; tests/build/fast/test_slim.py holds that for the torch that is installed.

#pragma once

#include <ATen/Parallel.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/version.h>

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_numbers.h>
#include <torch/csrc/utils/python_tuples.h>
