// The fast entry: what happens between a Python call of an operator and PyTorch's dispatcher.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace opsmith::bridge {

// Returns what parses calls of one operator; `description` is runtime/entry.py's EntryPlan.
pybind11::object make_entry(const pybind11::object& description);

// Makes calls of a type's instances use the entry that lies in their slot of the given name, where one lies there.
void accelerate(const pybind11::object& type, const std::string& slot);

}  // namespace opsmith::bridge
