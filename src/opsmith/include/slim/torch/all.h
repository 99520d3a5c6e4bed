// As torch/extension.h beside it: <torch/torch.h> includes this, and so do extensions that need no Python.

#pragma once

#include <torch/extension.h>
