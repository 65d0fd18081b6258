# make book and make test are all a reader needs; both set up .venv first.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
# Where this is set, every kernel and every test process compiles each library anew, which takes most of its time.
unexport PYTHONDONTWRITEBYTECODE

# Notebooks that `make test` runs again: prose with explorers, links, and a lab. `make exhaustive` runs all.
NBVAL := $(addprefix notebooks/en/,hello-roofline.ipynb network-rooflines.ipynb lab-02.ipynb)

.PHONY: book lint check test exhaustive labs bench calibrate preview pins clean

book: $(VENV)/press
	$(RUN)/course build

preview: book
	$(RUN)/course preview

lint: $(VENV)/test
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/course check

# Within a minute: lint, and the tests of what computes and words, without those that draw, trace, fit, simulate, measure or print.
check: lint
	$(RUN)/pytest -q tests/test_architecture.py tests/test_house.py tests/course_lib tests/course_tools $(addprefix tests/course_book/,text answers) \
	  $(addprefix --ignore=tests/,course_lib/bench $(addprefix course_tools/,counting hlo calibrate/test_fit.py diagnosis/test_nsight.py serve/test_service.py train/test_evidence.py))

test: lint
	$(RUN)/pytest
	$(RUN)/pytest -o addopts= -q -n 2 --dist loadfile --nbval $(NBVAL)

# The whole matrices: every page, width, scheme and language, all fuzz cases, and every notebook; of translations, whose
# cells are the same, those that `make test` runs in English.
exhaustive: $(VENV)/test
	$(RUN)/pytest -m exhaustive
	$(RUN)/pytest -o addopts= -q -n 2 --dist loadfile --nbval notebooks/en
	$(RUN)/pytest -o addopts= -q -n 2 --dist loadfile --nbval-lax $(foreach lang,es ko,$(NBVAL:notebooks/en/%=notebooks/$(lang)/%))

labs: $(VENV)/labs
	@echo "Now: $(RUN)/course lab run 00 --device cpu --budget 60"

bench: $(VENV)/labs
	$(RUN)/python -m tests.bench

# Fits course_tools/data/calibration to the published measurements, and prints its errors on what was held out.
calibrate: $(VENV)/press
	$(RUN)/python -m tools.calibrate

# Pins for every platform. uv takes those with the hash of each file, and installs no other; pip would then ask one of
# the book itself, which is installed as it lies here, and of torch, so constraints.txt has names and versions only.
pins: $(VENV)/test
	$(RUN)/uv pip compile -q --universal --python-version 3.11 --extra press --extra explore --extra labs --extra sharding --extra models --extra assistants --extra test \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url pyproject.toml --output-file hashes.txt
	sed -n '/==/s/ *\\$$//p' hashes.txt > constraints.txt

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "The book needs Python 3.11 or newer: make PYTHON=python3.12 book"; exit 3; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv is missing: sudo apt install python3-venv"; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install -q "$$(grep '^uv==' constraints.txt)"

$(VENV)/press: $(VENV)/bin/uv pyproject.toml hashes.txt
	$(RUN)/uv pip install -q --python $(RUN)/python -c hashes.txt -e '.[press,explore]'
	@touch $@

# torch by pip, which takes a build for the CPU where its index has one; uv would take the one for CUDA.
$(VENV)/labs: $(VENV)/press
	$(RUN)/python -m pip install -q -c constraints.txt '$(shell grep -o 'torch>=[^"]*' pyproject.toml)'
	$(RUN)/uv pip install -q --python $(RUN)/python -c hashes.txt -e '.[press,explore,labs,kernels,sharding,models]'
	@touch $@

$(VENV)/test: $(VENV)/labs
	$(RUN)/uv pip install -q --python $(RUN)/python -c hashes.txt -e '.[press,explore,labs,kernels,sharding,models,assistants,test]'
	@touch $@

clean:
	rm -rf $(VENV) .cache _site _site-answers ._site-*
