# The ways into the project: `make demo` and `make test` need python3 with venv, a C++ compiler and make, nothing else.

PYTHON ?= python3

# Which torch the virtual environment gets. Any build from 2.10 on will do, and pip takes what fits the machine; for a
# certain one name its index too, for example the CPU build:
#   make venv TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

# More arguments for pytest, such as "-m 'not slow'" or "-n 1".
PYTEST_FLAGS ?=

# Each worker goes through files of its own from beginning to end, so that what a file's first test builds, loads and
# traces is there for the others; a worker that is done takes tests over from one that is not.
PYTEST := -m pytest -n auto --dist worksteal --durations 25 --durations-min 5

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all test-slow test-without-bridge mutants upstream-test upstream-test-vision lint bench gpu-test gpu-sanitize gpu-demo gpu-bench clean

help:
	@echo "make demo      build an LLTM three ways, check, time and train it; report in build/demo"
	@echo "make test      the tests, in minutes; make test-all adds the slow ones"
	@echo "make lint      ruff, mypy, clang-format, generated tables"
	@echo "make bench     the README's figures, by benchmarks/ and opsmith bench"
	@echo "make gpu-test, gpu-sanitize, gpu-demo, gpu-bench   what needs a GPU, with the packages of PYTHON as they are"
	@echo "make venv, make clean"

venv: $(READY)

# torch comes first and alone, so that nothing chooses another build of it; what is there already stays as it is.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(TORCH)
	$(BIN)/python -m pip install -e ".[demo,cmake,setuptools,test,dev]"
	touch $@

demo: $(READY)
	$(BIN)/opsmith demo

# Minutes: everything but what is marked `slow`. Times by test go to build/test.xml; tests/durations.py adds them up.
test: $(READY)
	$(BIN)/python $(PYTEST) -m "not slow" --junitxml build/test.xml $(PYTEST_FLAGS)

# Everything that runs without a GPU, with the path in Python, which serves until the bridge is built.
test-all: test test-slow test-without-bridge

test-slow: $(READY)
	$(BIN)/python $(PYTEST) -m slow --junitxml build/test-slow.xml $(PYTEST_FLAGS)

test-without-bridge: $(READY)
	OPSMITH_BRIDGE=off $(BIN)/python $(PYTEST) -m "not slow" --junitxml build/test-without-bridge.xml $(PYTEST_FLAGS) \
	  tests/compose tests/runtime/test_gradients.py tests/runtime/test_mutation.py tests/runtime/test_needs_grad.py \
	  tests/runtime/test_opcheck.py

# What the tests are worth: how many of forty planted faults they find. An hour.
mutants: $(READY)
	$(BIN)/python tests/mutants/run.py

# PyTorch's own tests of torch.utils.cpp_extension, against the drop-in: make upstream-test PYTORCH=path/to/pytorch
upstream-test: $(READY)
	$(BIN)/python -m pip install -q expecttest hypothesis
	$(BIN)/python tests/upstream/run.py $(PYTORCH)

# torchvision's own tests of its operators, with these in their place, on the machine's own PyTorch and torchvision, which
# must be there: make upstream-test-vision VISION=path/to/vision
upstream-test-vision:
	PYTHONPATH=src $(PYTHON) tests/upstream/vision.py $(VISION)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	git ls-files '*.cpp' '*.cu' '*.h' ':!tests/codegen/expected' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/python benchmarks/tables.py --check
	$(BIN)/python docs/generate.py --check

# The README's figures for the CPU: half an hour in which the machine should do nothing else.
bench: $(READY)
	$(BIN)/python benchmarks/build_time.py --output benchmarks/results/build_time.json
	$(BIN)/python benchmarks/existing_build.py --output benchmarks/results/existing_build.json
	$(BIN)/python benchmarks/call_time.py --output benchmarks/results/call_time.json
	$(BIN)/opsmith bench opsmith.ops.mlp --device cpu --phase forward --phase both --size B=16,F=32,H=128,O=1 \
	  --size B=1024,F=5,H=15,O=1 --size B=256,F=256,H=1024,O=10 --seconds 75 --json benchmarks/results/mlp_cpu.json
	$(BIN)/python benchmarks/gradient_floor.py --output benchmarks/results/gradient_floor_cpu.json
	$(BIN)/opsmith bench opsmith.ops.lltm::lltm_cell --device cpu --phase forward --phase both --size B=16,I=32,S=128 \
	  --size B=64,I=512,S=512 --size B=256,I=1024,S=1024 --seconds 75 --json benchmarks/results/lltm_cell_cpu.json
	$(BIN)/opsmith bench opsmith.ops.lltm::lltm_gates --device cpu --seconds 30 --phase forward --phase both \
	  --json benchmarks/results/lltm_gates_cpu.json
	PYTHONPATH=benchmarks $(BIN)/opsmith bench opsmith.ops.lltm::lltm_sequence --examples lltm_cases:small \
	  --device cpu --phase forward --phase both --against eager --seconds 60 \
	  --json benchmarks/results/lltm_sequence_cpu.json
	PYTHONPATH=benchmarks $(BIN)/opsmith bench opsmith.ops.bias_act::bias_activation --examples bias_act_cases:small \
	  --device cpu --phase forward --phase both --seconds 60 --json benchmarks/results/bias_act_cpu.json
	PYTHONPATH=benchmarks $(BIN)/opsmith bench opsmith.ops.upfirdn2d::upfirdn2d_sized --examples upfirdn2d_cases:small \
	  --device cpu --phase forward --phase both --seconds 60 --json benchmarks/results/upfirdn2d_cpu.json
	PYTHONPATH=benchmarks $(BIN)/opsmith bench opsmith.ops.filtered_lrelu::filtered_lrelu_sized \
	  --examples filtered_lrelu_cases:small --device cpu --phase forward --phase both --seconds 90 \
	  --json benchmarks/results/filtered_lrelu_cpu.json
	$(BIN)/opsmith bench opsmith.ops.add2 --device cpu --json benchmarks/results/add2_cpu.json
	$(BIN)/opsmith bench opsmith.ops.sigmoid --device cpu --json benchmarks/results/sigmoid_cpu.json
	$(BIN)/opsmith bench opsmith.ops.sigmoid_focal_loss::focal_loss_sum --device cpu --phase forward --phase both \
	  --size shape=4194304 --seconds 60 --json benchmarks/results/focal_loss_sum_cpu.json
	$(BIN)/opsmith bench opsmith.ops.sigmoid_focal_loss::focal_loss_classes_sum --device cpu --phase forward \
	  --phase both --size n=52429,K=80 --seconds 60 --json benchmarks/results/focal_loss_classes_sum_cpu.json
	$(BIN)/python benchmarks/nms.py --output benchmarks/results/nms_cpu.json
	$(BIN)/python benchmarks/roi_align.py --output benchmarks/results/roi_align_cpu.json
	$(BIN)/python benchmarks/deform_conv2d.py --output benchmarks/results/deform_conv2d_cpu.json
	$(BIN)/python benchmarks/check_screen.py --output benchmarks/results/check_screen.json
	$(BIN)/python benchmarks/compare_trust.py --output benchmarks/results/compare_trust.json
	$(BIN)/python benchmarks/tables.py

# A GPU machine may be offline and have its own torch: nothing is installed there.
gpu-test:
	PYTHONPATH=src $(PYTHON) -m pytest -m "gpu and not sanitizer" $(PYTEST_FLAGS)

# Every operator under each tool of compute-sanitizer.
gpu-sanitize:
	PYTHONPATH=src $(PYTHON) -m pytest -m sanitizer $(PYTEST_FLAGS)

gpu-demo:
	PYTHONPATH=src $(PYTHON) -m opsmith demo

# A perceptron that a launch bounds, and one that products do.
GPU_MLP := --size B=16,F=32,H=128,O=1 --size B=1024,F=5,H=15,O=1 --size B=8192,F=1024,H=4096,O=1024

# From what a launch bounds to what memory does: 2^28 elements are far more than the caches hold.
GPU_ELEMENTWISE := --size shape=1048576 --size shape=268435456 --dtype float32 --dtype bfloat16 \
  --phase forward --phase backward --against eager --against compiled --seconds 60

# The operator's own products, where they end, and PyTorch's. bfloat16 first: compiling may end before all is compiled.
GPU_LLTM_CELL := --size B=16,I=32,S=128 --size B=256,I=256,S=256 --size B=256,I=1024,S=1024 --dtype bfloat16 \
  --dtype float32 --phase forward --phase both --against eager --against compiled --seconds 80

# 200,000 anchors and 80 classes.
GPU_FOCAL := --phase forward --phase both --dtype float32 --dtype bfloat16 --against eager --against torchvision \
  --against compiled --seconds 60

gpu-bench:
	PYTHONPATH=src $(PYTHON) benchmarks/build_time.py --cuda --output benchmarks/results/build_time_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.mlp --device cuda --phase forward --phase both $(GPU_MLP) \
	  --against eager --against compiled --seconds 90 --json benchmarks/results/mlp_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/gradient_floor.py --device cuda --output benchmarks/results/gradient_floor_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/existing_build.py --cuda --output benchmarks/results/existing_build_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/call_time.py --device cuda --output benchmarks/results/call_time_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/nms.py --device cuda --output benchmarks/results/nms_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/deform_conv2d.py --device cuda --output benchmarks/results/deform_conv2d_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/nms.py --output benchmarks/results/nms_gpu_machine_cpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/roi_align.py --device cuda --output benchmarks/results/roi_align_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.lltm::lltm_gates --device cuda --phase forward --phase both \
	  --against eager --against compiled --json benchmarks/results/lltm_gates_gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/lltm_against_lstm.py --output benchmarks/results/lltm_lstm_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.lltm::lltm_cell --device cuda $(GPU_LLTM_CELL) \
	  --json benchmarks/results/lltm_cell_gpu.json
	PYTHONPATH=src:benchmarks $(PYTHON) -m opsmith bench opsmith.ops.bias_act::bias_activation --device cuda \
	  --examples bias_act_cases:large --dtype float32 --dtype float16 --phase forward --phase backward \
	  --against eager --against compiled --seconds 90 --json benchmarks/results/bias_act_gpu.json
	PYTHONPATH=src:benchmarks $(PYTHON) -m opsmith bench opsmith.ops.upfirdn2d::upfirdn2d_sized --device cuda \
	  --examples upfirdn2d_cases:large --dtype float32 --dtype float16 --phase forward --phase backward \
	  --against eager --against compiled --seconds 90 --json benchmarks/results/upfirdn2d_gpu.json
	PYTHONPATH=src:benchmarks $(PYTHON) -m opsmith bench opsmith.ops.filtered_lrelu::filtered_lrelu_sized --device cuda \
	  --examples filtered_lrelu_cases:large --dtype float16 --dtype float32 --phase forward --phase backward \
	  --against eager --against compiled --seconds 90 --json benchmarks/results/filtered_lrelu_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.add2 --device cuda $(GPU_ELEMENTWISE) \
	  --json benchmarks/results/add2_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.sigmoid --device cuda $(GPU_ELEMENTWISE) \
	  --json benchmarks/results/sigmoid_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.sigmoid_focal_loss::focal_loss_sum --device cuda \
	  $(GPU_FOCAL) --size shape=16000000 --json benchmarks/results/focal_loss_sum_gpu.json
	PYTHONPATH=src $(PYTHON) -m opsmith bench opsmith.ops.sigmoid_focal_loss::focal_loss_classes_sum --device cuda \
	  $(GPU_FOCAL) --size n=200000,K=80 --json benchmarks/results/focal_loss_classes_sum_gpu.json

# The virtual environment stays: it takes minutes to download. `rm -r .venv` removes it.
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
