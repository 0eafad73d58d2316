# The entry points of gpufleet. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tests and checks run in an environment of their own, made from the dev lock.
DEV := export gpufleet_root=$(CURDIR) GPUFLEET_LOCK=dev && . setup/common.sh && gpufleet_environment &&
CLUSTER ?= local

.PHONY: help setup up down test lint bench lock

help: ## List the entry points
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

setup: ## Get the tools into the cache, without making a fleet
	@setup/bootstrap

up: ## From a fresh machine to a running local fleet
	@bin/gpufleet up $(CLUSTER)

down: ## Remove the local fleet; the cache of tools stays
	@bin/gpufleet down $(CLUSTER) --yes

test: lint ## Everything that CI runs
	@$(DEV) python -m pytest $(PYTEST_ARGS)

lint: ## Style, types and playbooks
	@GPUFLEET_LOCK=dev setup/bootstrap
	@$(DEV) ruff format --check -q . && ruff check -q . && mypy
	@# An inventory of no nodes: playbooks are read for themselves, with or without a fleet.
	@$(DEV) ANSIBLE_INVENTORY=/dev/null ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=false \
	    ansible-lint --offline --nocolor -q roles playbooks

bench: ## What a local fleet costs, measured on this machine
	@GPUFLEET_LOCK=dev setup/bootstrap
	@$(DEV) python bench/local_fleet.py

lock: ## Resolve the Python packages anew into the locks
	@GPUFLEET_LOCK=dev setup/bootstrap
	@$(DEV) cd setup/requirements && for lock in run dev; do \
	    uv pip compile -q --universal --python-version 3.12 --generate-hashes \
	        --no-emit-index-url --no-header $$lock.in -o $$lock.txt; done
