# What people and CI run; `make` alone lists it.  Needed: Python >= 3.11 and Go (or the programs it
# would build, named by KUBEBUILDER_ASSETS, HELM, HELM3, PROMTOOL, GOSHARD, LIBSHARD and GENERATOR).
# Only .venv, build, caches that git ignores, and the cache directory that `make control-plane`
# prints are written.

PYTHON ?= python3
VENV := .venv/bin
INSTALLED := .venv/installed
INSTALLED_DOCS := .venv/installed-docs

# Modules without I/O: every branch is covered.
CORE := sharder/core/*

# Compiled modules go to .venv too, not beside their sources.  They are kept even where the
# environment says otherwise: each program that a test starts would compile all it imports.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache
unexport PYTHONDONTWRITEBYTECODE

PREFLIGHT = command -v $(PYTHON) >/dev/null \
	|| { echo "error: no $(PYTHON): install Python >= 3.11, or name one with make PYTHON=..." >&2; exit 1; }; \
	$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "error: $(PYTHON) is no Python >= 3.11 with venv: install it (python3-venv), or name one with make PYTHON=..." >&2; exit 1; }

RESOLVE = $(VENV)/uv pip compile -q --no-config --no-header --no-annotate --python-version=3.11
HASHED := --universal --generate-hashes --constraints=hack/constraints.txt
BUILD_NEEDS = $(VENV)/python -c \
	'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")'

.NOTPARALLEL:
.PHONY: help check test test-long matrix simulate nemesis kind demo demo-stop bench control-plane controller-manager helm helm3 promtool goshard libshard generator release reference docs lock fmt clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; \
	do printf '%-22s %s\n' "$$target" "$$text"; done

check: $(INSTALLED) ## format, lint, types, import contracts, tests without a server (under 45 s)
	@$(VENV)/python -m hack.check

test: $(INSTALLED) control-plane helm helm3 promtool goshard libshard generator ## check with all examples, coverage, real API server (under 20 minutes)
	@rm -f .coverage .coverage.*
	@$(VENV)/python -m hack.check --coverage
	@$(VENV)/coverage combine -q
	@$(VENV)/coverage report --fail-under=90
	@echo "the core alone:"
	@$(VENV)/coverage report --fail-under=100 --include="$(CORE)"
	@$(VENV)/python -m hack.server_tests

test-long: $(INSTALLED_DOCS) control-plane controller-manager helm helm3 libshard ## a hostile tenant, random faults, any controller, the site, the chart on nodes (as root)
	@$(VENV)/python -m hack.server_tests --long

matrix: $(INSTALLED) control-plane helm goshard libshard ## the main job on each supported Kubernetes, Python, dependency (CELLS=... for some)
	@hack/matrix.sh

simulate: $(INSTALLED) ## play the whole system in memory, with faults, and judge it (SEEDS=1000 FIRST=1, or SEED=1)
	@$(VENV)/python -m tests.stage $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000) --first $(or $(FIRST),1)) \
		$(if $(MUTANT),--mutant $(MUTANT))

nemesis: $(INSTALLED) control-plane ## play random faults on real processes and judge them (MINUTES=10 SEED=1 STRATEGY=... OBJECTS=500)
	@$(VENV)/python -m tests.long.nemesis $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(STRATEGY),--strategy $(STRATEGY)) $(if $(OBJECTS),--objects $(OBJECTS)) \
		$(if $(MUTANT),--mutant $(MUTANT))

kind: ## make a cluster with kind or k3d, and run the sharder and an example of three replicas on it
	@hack/kind.sh

demo: $(INSTALLED) control-plane $(if $(filter jobs,$(CONTROLLER)),controller-manager) ## watch a real API server hand objects to shards (STRATEGY=..., KEEP=1, CONTROLLER=jobs)
	@$(VENV)/python -m $(if $(filter jobs,$(CONTROLLER)),tests.long.job_story,hack.demo)

demo-stop: $(INSTALLED) ## end what KEEP=1 left running
	@$(VENV)/python -m hack.demo --stop

bench: $(INSTALLED) control-plane generator libshard ## measure speed and size beside the goals (ROWS=... for some, ROWS=quick for a trial)
	@$(VENV)/python -m hack.bench $(ROWS)

control-plane: ## find or build etcd, kube-apiserver and kubectl; print where they are
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries control-plane

controller-manager: ## find or build kube-controller-manager, which sharder proxy is tried with
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries controller-manager

helm: ## find or build helm; print where it is
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries helm

helm3: ## the same for helm 3
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries helm3

promtool: ## find or build promtool, which tries the alerts; print where it is
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries promtool

goshard: ## find or build the shard in Go that tests put beside Python's; print where it is
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries goshard

libshard: ## the same for the shard in Go on the library of kubernetes-controller-sharding
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries libshard

generator: ## the same for the program that sends the load of the benchmark
	@$(PREFLIGHT)
	@$(PYTHON) -m hack.binaries generator

release: ## build what a release publishes into build/release: wheel, chart, SBOM, checksums (REF=v0.3.0 TO=...)
	@$(PREFLIGHT)
	@hack/release.sh

reference: $(INSTALLED) ## write the references in docs, the chart's README and its dashboard
	@$(VENV)/python -m hack.reference

docs: $(INSTALLED_DOCS) ## build the documents as a site with search
	@$(VENV)/python -m hack.docs_site

lock: $(INSTALLED) ## write what the image installs, with hashes (UPGRADE=1 takes the newest versions first)
	@$(if $(UPGRADE),{ $(BUILD_NEEDS); echo cyclonedx-bom; } | $(RESOLVE) --upgrade --all-extras -o hack/constraints.txt pyproject.toml - >/dev/null)
	@$(RESOLVE) $(HASHED) --extra=server -o hack/requirements.lock pyproject.toml >/dev/null
	@$(BUILD_NEEDS) | $(RESOLVE) $(HASHED) -o hack/build.lock - >/dev/null

fmt: $(INSTALLED) ## format, and fix what ruff can fix
	@$(VENV)/ruff format .
	@$(VENV)/ruff check --fix .

clean: ## remove .venv and caches, but not the programs that were built
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		.coverage .coverage.* build dist *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml hack/constraints.txt
	@$(PREFLIGHT)
	@echo "installing into .venv"
	@$(PYTHON) -m venv .venv
	@$(VENV)/python -m pip install -q --no-cache-dir --disable-pip-version-check \
		-c hack/constraints.txt -e '.[server,dev]' >.venv/install.log 2>&1 \
		|| { cat .venv/install.log >&2; exit 1; }
	@rm -rf sharder.egg-info
	@touch $@

# Apart from the rest, since it takes over 300 MB that no other target needs.
$(INSTALLED_DOCS): $(INSTALLED)
	@echo "installing what builds the site and checks its Python into .venv"
	@$(VENV)/python -m pip install -q --no-cache-dir --disable-pip-version-check \
		-c hack/constraints.txt -e '.[docs]' >.venv/install-docs.log 2>&1 \
		|| { cat .venv/install-docs.log >&2; exit 1; }
	@rm -rf sharder.egg-info
	@touch $@
