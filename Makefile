# make run   sets everything up and executes every notebook into build/
# make test  sets everything up and runs every test but the slow ones
# make slow  runs those: processes that are killed, panels in a browser, a pretended device
# make triton  installs Triton (690 MB) and holds its programs against the reference, without a GPU
# make gpu   tests and times all of it on a GPU, in at most 20 minutes, into benchmarks/gpu.json
# make lab   opens the workbook in JupyterLab
# make docs  writes docs/api.md again, from the docstrings

PYTHON ?= python3
BIN := .venv/bin
# pyproject.toml is the one place that names the version
TORCH := $(shell sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
TRITON := $(shell sed -n 's/^triton = \["\(triton==[^;"]*\).*/\1/p' pyproject.toml)
# installing is a matter of minutes: once, and again when what is installed has changed
INSTALLED := .venv/.installed

# else every process would compile the same files again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run docs test slow triton gpu lab lock lint clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml setup.py requirements.lock
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'lnlab needs Python 3.11 or newer, this is %d.%d: make setup PYTHON=/path/to/python3.12' % sys.version_info[:2])"
	$(PYTHON) -m venv .venv
	@# first and without the lock: the index that pip is configured for decides CPU or CUDA
	$(BIN)/python -m pip install "$(TORCH)"
	$(BIN)/python -m pip install --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	@touch $@

run: setup
	$(BIN)/lnlab run --out build

# three processes on two cores, as browsers and kernels are waited for, each with whole files
CORES := --numprocesses $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
FILES := --dist loadfile --no-loadscope-reorder --durations=10
CELLS := --nbval-lax --nbval-current-env --nbval-cell-timeout=300

# one thread a process, as in every run: with more threads than cores they wait for each other
test slow triton: export OMP_NUM_THREADS := 1
test: export LNLAB_BUDGET := smoke
test: setup
	$(BIN)/python -m pytest $(CORES) $(FILES) $(CELLS) -m "not slow" tests notebooks

# what is meant for a GPU runs on a device that tests/pretend.py makes up
slow: setup
	@failed=0; \
	$(BIN)/python -m pytest $(CORES) $(FILES) -p no:nbval -m slow || failed=1; \
	$(BIN)/python -m pytest $(CORES) -p no:nbval --dist worksteal -m gpu --device pretend \
		$$(grep -rl --include='*.py' 'mark\.gpu' tests) || failed=1; \
	exit $$failed

# a build of torch for CUDA has brought it; one for the CPU has no use for it but these tests
triton: setup
	$(BIN)/python -m pip install --no-deps "$(TRITON)"
	$(BIN)/python -m pytest $(CORES) -p no:nbval --dist worksteal tests/kernels/test_triton.py

# some builds of torch for CUDA come without Triton; without a GPU nothing is installed
gpu: setup
	@$(BIN)/python -c "import importlib.util as i, sys, torch; sys.exit(torch.cuda.is_available() and not i.find_spec('triton'))" \
		|| $(BIN)/python -m pip install --no-deps "$(TRITON)"
	$(BIN)/python -m benchmarks.gpu $(GPU_ARGS)

# the address that it prints opens the first notebook; the settings leave out the question about
# Jupyter's news. More arguments: make lab LAB_ARGS="--no-browser --port=8889"
lab: setup
	$(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb --LabApp.app_settings_dir=lnlab/panels/lab/settings $(LAB_ARGS)

docs: setup
	$(BIN)/python docs/make_api.py

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

# torch is excluded, for no hash fits every build of it; the group "torch" has what it needs
lock: setup
	$(BIN)/python -m pip install --quiet uv
	echo torch > .venv/excluded.txt
	$(BIN)/uv pip compile pyproject.toml --extra workbook --extra speech --extra text --extra cluster --group dev --group torch --python-version 3.11 \
		--universal --fork-strategy fewest --generate-hashes --excludes .venv/excluded.txt \
		--upgrade --no-annotate --custom-compile-command "make lock" -o requirements.lock

clean:
	rm -rf build .pytest_cache .ruff_cache
