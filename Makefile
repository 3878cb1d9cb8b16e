# make tables    set up .venv and build every table of the demo scale, or of [SCALE=small] [MIRROR=DIR] [SEEDS=1,2] [ONLY=bm25,bert]
# make venv      set up .venv alone [PYTHON=python3.11]
# make test      set up .venv and run the tests
# make test-slurm the tests on a real Slurm of this machine: needs root, and installs Debian's packages
# make lint      format and lint checks
# make status    cells measured, quoted, not run and failed, by table
# make fetch     get the raw files of one table: make fetch TABLE=condenser/table5 [SCALE=paper] [MIRROR=DIR] [DRY=1]
# make estimate  what tables cost before anything runs: make estimate SCALE=paper [TABLE="condenser/table5 …"] [SEEDS=1,2] [ONLY=bm25,bert] [GPUS=8] [GPU=a100] [RATES=FILE]
# make bundle    what tables still need, for a GPU machine without a network: make bundle SCALE=small [TABLE="condenser/table5 …"] [MIRROR=DIR] [SEEDS=1] [ONLY=bm25,bert] [OUT=FILE] [LIMIT=MiB]
# make unbundle  take home what was made there: make unbundle FILE=DIR
# make report    build everything of one scale, and the report on it: results/SCALE/report.html [MIRROR=DIR] [SEEDS=1,2]
# make my-corpus what to search your own corpus with: make my-corpus DIR=path/to/dir [MINUTES=30]
# make evaluate  measure an exported model with mteb: make evaluate MODEL=DIR TASKS="DIR NanoSciFactRetrieval …" [CHECK=1] [OUT=FILE.json]
# make compare   a few rows made anew (all that is there, with another SCALE), and compared with the published run [PUBLISHED=DIR]
# make publish   finish a run, copy it to results/published/ and refresh README [SCALE=small] [MIRROR=DIR] [SEEDS=1,2] [ONLY=bm25,bert]
#                or these tables alone [TABLES=dupmae/table1,dupmae/table2]
# make site      the documentation as a static site with a search, in build/site/html (needs a package index)
# make dag       draw docs/rulegraph.svg (needs graphviz)
# make lock      write envs/requirements.lock anew from pyproject.toml; versions stay where they can [UPGRADE=package]
# make benchmarks a subset of benchmarks/: ratios beside targets [PRETRIEVE_PEERS=DIR]; JSON in results/benchmarks
# make help      this list
# make clean     remove results/SCALE and the raw files that runs put into data/; make clean-venv removes the environment

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SCALE ?= demo
LOCKS := envs/requirements.lock envs/torch.txt
# The locks' checksum is in the stamp's name: a changed lock installs anew, an unchanged one installs nothing.
STAMP := $(VENV)/.installed-$(shell cat $(LOCKS) | sha256sum | cut -c1-16)
comma := ,
# A value of the command line as one word of the shell, whatever is in it.
quoted = '$(subst ','\'',$(1))'
# An option that has a value, each word of a list, and the scale, all of them quoted.
option = $(if $(2),$(1) $(call quoted,$(2)))
each_quoted = $(foreach word,$(1),$(call quoted,$(word)))
# KEY=VALUE for --config, which reads VALUE as YAML: a text as it is. Without the blanks Snakemake would take the quotes off.
text = $(call quoted,$(1)= '$(subst ','',$(2))' )
# What a run is told beside its scale: where raw files are, seeds other than the scale's, and the encoders that count.
SETTINGS = $(if $(MIRROR),$(call text,mirror,$(MIRROR))) $(if $(SEEDS),$(call quoted,seeds=[$(SEEDS)])) \
  $(if $(ONLY),$(call quoted,only=[$(ONLY)]))
SCALED = --config $(call quoted,scale=$(SCALE)) $(SETTINGS)
# Snakemake keeps a cache in the home directory; where that cannot be written, in the checkout. It looks for settings there, too.
HOMELESS := $(shell d="$${XDG_CACHE_HOME:-$${HOME:-/nonexistent}/.cache}"; mkdir -p "$$d" 2>/dev/null && test -w "$$d" || echo yes)
PATHS := PATH=$(call quoted,$(CURDIR)/$(BIN)):"$$PATH"
SURROUNDINGS := $(PATHS) $(if $(HOMELESS),XDG_CACHE_HOME=$(call quoted,$(CURDIR)/.snakemake/cache) \
  XDG_CONFIG_HOME=$(call quoted,$(or $(XDG_CONFIG_HOME),$(CURDIR)/.snakemake/config)))
SNAKEMAKE := $(SURROUNDINGS) $(BIN)/snakemake
# A run: it first puts right what a killed one has left.
RUN := $(SURROUNDINGS) workflow/run.sh

.PHONY: tables test test-slurm benchmarks lint status fetch estimate bundle unbundle report my-corpus evaluate compare publish lock clean clean-venv venv dag site help
.DEFAULT_GOAL := tables

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

venv: $(STAMP)

$(STAMP): $(LOCKS)
	@command -v $(call quoted,$(PYTHON)) >/dev/null || { echo $(call quoted,$(PYTHON))" not found: install CPython 3.11, or name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@test ! -L $(VENV) || { echo "$(VENV) is a link to $$(readlink $(VENV)), which would be emptied. Remove the link (rm $(VENV)), or bring it up to date in its own checkout."; exit 1; }
	$(call quoted,$(PYTHON)) -m venv --clear $(VENV)
	$(PIP) --require-hashes --no-deps --requirement envs/requirements.lock
	$(PIP) --no-warn-conflicts --requirement envs/torch.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@# Python 3.11 reads this file by the locale, and does not start in a plain one where the path of the checkout is not ASCII.
	@for file in $(VENV)/lib/python*/site-packages/__editable__.pretrieve-*.pth; do echo ../../../../src > "$$file"; done
	$(BIN)/pretrieve warm-up
	@touch $@

tables: $(STAMP)
	@$(RUN) $(SCALED)

# A process per core; a file stays in one of them, as its tests share what is built for them. Fast tests first, as they are listed.
# Compiled tests are kept whatever the environment says: each process reads all of them, and would compile them again.
test: $(STAMP)
	$(PATHS) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -rs -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	  --doctest-modules src tests

test-slurm: $(STAMP)
	$(BIN)/python tests/slurm/slurm_packages.py
	$(PATHS) PRETRIEVE_SLURM_TESTS=1 $(BIN)/python -m pytest -rs tests/slurm

benchmarks: $(STAMP)
	@for words in c9_tokens_pairs c1_mlm_step "c3_encode --passages 1000" "c4_search --rows 10000" c7_gradient_cache; do \
	  PYTHONPATH=src $(BIN)/python -W ignore benchmarks/$${words%% *}.py $$(echo "$$words" | cut -s -d' ' -f2-) \
	    --rounds 3 --out results/benchmarks || exit; \
	done

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow rules
	$(SNAKEMAKE) --lint

status: $(STAMP)
	@$(BIN)/pretrieve status --results $(call quoted,results/$(SCALE))

fetch: $(STAMP)
	@$(BIN)/pretrieve fetch-table --table $(call quoted,$(TABLE)) --scale $(call quoted,$(SCALE)) $(call option,--mirror,$(MIRROR)) $(if $(DRY),--dry-run)

estimate: $(STAMP)
	@$(BIN)/pretrieve estimate --scale $(call quoted,$(SCALE)) $(if $(TABLE),--tables $(call each_quoted,$(TABLE))) $(call option,--gpus,$(GPUS)) \
	  $(call option,--gpu,$(GPU)) $(call option,--rates,$(RATES)) $(if $(MIRROR)$(SEEDS)$(ONLY),--config $(SETTINGS))

bundle: $(STAMP)
	@$(PATHS) $(BIN)/pretrieve bundle --scale $(call quoted,$(SCALE)) $(if $(TABLE),--tables $(call each_quoted,$(TABLE))) \
	  $(if $(MIRROR)$(SEEDS)$(ONLY),--config $(SETTINGS)) $(call option,--limit,$(LIMIT)) $(call option,--out,$(OUT))

unbundle: $(STAMP)
	@$(PATHS) $(BIN)/pretrieve unbundle --file $(call quoted,$(FILE))

report: $(STAMP)
	@$(RUN) $(SCALED) -- $(call quoted,results/$(SCALE)/report.html)

my-corpus: $(STAMP)
	@$(RUN) my_corpus_plan $(SCALED) $(call text,my_corpus,$(DIR)) $(if $(MINUTES),$(call quoted,my_corpus_options={minutes: $(MINUTES)}))
	@$(RUN) my_corpus_report --configfile $(call quoted,results/$(SCALE)/my_corpus/plan.yaml) $(SCALED) $(call text,my_corpus,$(DIR))

evaluate: $(STAMP)
	@$(BIN)/pretrieve evaluate-model --model $(call quoted,$(MODEL)) --tasks $(call each_quoted,$(TASKS)) $(if $(CHECK),--check) $(call option,--out,$(OUT))

# Rows of table 3 with every kind of stage behind them, and what tables 1 and 2 count: some minutes on two cores.
COMPARED := $(if $(filter demo,$(SCALE)),$(foreach size,1pct 5pct 80pct,\
  results/demo/metrics/bm25.reqa-$(size)/questions/seed0.json \
  $(foreach encoder,transformer-none bow-mlp-ict-bfs-wlp transformer-ict-bfs-wlp,results/demo/metrics/$(encoder).reqa-$(size)/questions/seed1.json)) \
  results/demo/pairs/encyclopedia-demo/stats.json)

compare: $(STAMP)
	@$(if $(COMPARED),$(RUN) $(SCALED) -- $(COMPARED))
	@$(BIN)/pretrieve compare-runs --scale $(call quoted,$(SCALE)) --at-least $(if $(COMPARED),70,1) \
	  $(call option,--published,$(PUBLISHED))

publish: $(STAMP)
	$(RUN) $(SCALED) $(if $(TABLES),$(call quoted,tables=[$(TABLES)])) \
	  $(if $(ONLY)$(TABLES),'figures=[]')
	$(PATHS) $(BIN)/pretrieve keep-scores --scale $(call quoted,$(SCALE)) \
	  $(if $(TABLES),--tables $(call each_quoted,$(subst $(comma), ,$(TABLES)))) $(if $(MIRROR)$(SEEDS)$(ONLY),--config $(SETTINGS))
	$(BIN)/pretrieve publish --scale $(call quoted,$(SCALE)) $(if $(ONLY)$(TABLES),--figures) \
	  $(if $(TABLES),--tables $(call each_quoted,$(subst $(comma), ,$(TABLES))))

dag: $(STAMP)   # needs graphviz
	$(SNAKEMAKE) --rulegraph dot results/demo/tables/pretraining_tasks/table3.csv 2>/dev/null \
	  | sed -e 's/, color = "[^"]*"//' -e 's/, style="rounded"//' -e 's/_questions[_0-9a-z]*"/"/' -e 's/penwidth=2/penwidth=1/g' \
	        -e 's/fontname=sans, */fontname="Helvetica,Arial,sans-serif", /' -e 's/margin=0/rankdir=LR, nodesep=0.2, ranksep=0.25/' \
	  | tred | dot -Tsvg > docs/rulegraph.svg

# An environment of its own: nothing else needs these packages. The pages of docs/ link to what is copied beside them; the
# reference of the public API is made of its docstrings.
SITE_BIN := .venv-site/bin
SITE_SOURCE := build/site/source
site:
	test -x $(SITE_BIN)/mkdocs || { $(call quoted,$(PYTHON)) -m venv --clear .venv-site && $(SITE_BIN)/python -c \
	  "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" \
	  | $(SITE_BIN)/python -m pip install --quiet --disable-pip-version-check --requirement /dev/stdin; }
	rm -rf build/site && mkdir -p $(SITE_SOURCE)
	cp -r --parents README.md CONTRIBUTING.md CITATION.cff LICENSE config.yaml config profiles docs resources/questions/README.md \
	  benchmarks src/pretrieve/schemas results/published $(SITE_SOURCE)
	@# A page of the site is made of each table's .md, under the name that its .html has.
	rm -f $(SITE_SOURCE)/results/published/*/*/*.html
	sed -i 's/, \[html\]([^)]*)//' $(SITE_SOURCE)/results/published/*/README.md
	PYTHONPATH=src $(SITE_BIN)/python -c "import pretrieve; print('# Python reference\n'); \
	  [print(f'::: {module}.{name}\n') for name, module in pretrieve._PLACES.items()]" > $(SITE_SOURCE)/docs/api.md
	@# With --quiet it would not count warnings, and --strict say nothing of a broken link.
	$(SITE_BIN)/mkdocs build --strict
	@echo "the site is in build/site/html; to look at it: python3 -m http.server --directory build/site/html"

lock:
	$(call quoted,$(PYTHON)) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	.venv-lock/bin/uv pip compile --quiet pyproject.toml --extra workflow --extra test --python-version 3.11 \
	  --constraint envs/torch.txt --no-emit-package torch --generate-hashes --no-annotate \
	  --custom-compile-command "make lock" $(call option,--upgrade-package,$(UPGRADE)) --output-file envs/requirements.lock
	rm -rf .venv-lock
	sed -i "s/^# lock: .*/# lock: $$(cat $(LOCKS) | sha256sum | cut -c1-64)/" envs/cpu.yaml envs/gpu.yaml

clean:
	@case $(call quoted,$(SCALE)) in ""|.*|*/*) echo "SCALE="$(call quoted,$(SCALE))" is no name of a scale, such as demo"; exit 1;; esac
	rm -rf $(call quoted,results/$(SCALE))
	test -L data || rm -rf data/sources data/hub data/rehearsal

clean-venv:
	rm -rf $(VENV) .venv-site
