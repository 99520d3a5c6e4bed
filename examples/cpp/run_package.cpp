// Runs a model that AOTInductor has compiled (.pt2), with an operator of opsmith's inside, which this program links.
#include <iostream>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: run_package FILE.pt2" << std::endl;
    return 2;
  }
  const c10::InferenceMode guard;
  torch::inductor::AOTIModelPackageLoader model(arguments[1]);
  const at::Tensor x = at::linspace(0, 1, 4 * 3 * 9).reshape({4, 3, 9});
  for (const at::Tensor& result : model.run({x})) {
    std::cout << result.sizes() << " " << result.sum().item<double>() << std::endl;
  }
}
