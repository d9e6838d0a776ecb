# The usual commands. Other ways to configure are in CMakePresets.json. Each target installs the
# packages that the machine lacks (scripts/setup.sh).
#
#   make                      build the emulated variant, and the CUDA variant where nvcc is found
#                             (on PATH, or named by CUDACXX)
#   make test                 run every suite on the emulated device, and again on a visible GPU
#   make demo [WORD=.. DIR=..]  count a word in a tree of files from a kernel, compare with grep
#   make fuzz [SECONDS=..]    run the fuzz targets for so many seconds in all, 60 by default
#   make install PREFIX=..    install one variant (PRESET=cuda|emulated; default: cuda with nvcc)
#   make fetch-data           real files for the applications into build/real-data
#                             (photographs, icons, WordNet, BLOSUM62)
#   make docs                 the site of the documents and the reference, in build/site
#   make format               format all sources
#   make clean                remove build/
#
# CONFIGURE_FLAGS is passed to cmake, e.g. CONFIGURE_FLAGS=-DCMAKE_CUDA_ARCHITECTURES=90-real. Give
# it to each call: without it, or with another one, the variant is built anew.

NVCC := $(shell scripts/find_nvcc.sh)
NO_NVCC := $(if $(NVCC),,none)
PRESETS := emulated $(if $(NVCC),cuda)
PRESET ?= $(lastword $(PRESETS))
PREFIX ?= /usr/local
SECONDS ?= 60
export NVCC CONFIGURE_FLAGS WORD DIR

.PHONY: all setup test demo fuzz install fetch-data docs format clean
.NOTPARALLEL:

all: setup
	@scripts/build.sh $(PRESETS)
	@$(if $(NVCC),:,echo "no working nvcc on PATH: built the emulated variant only")

setup:
	@scripts/setup.sh

test: setup
	@scripts/test.sh

demo: setup
	@scripts/run_demo.sh

fuzz: setup
	@scripts/fuzz.sh $(SECONDS)

install: setup
	@echo "installing the variant $(PRESET) into $(PREFIX)"
	@$(if $(and $(filter file,$(origin PRESET)),$(wildcard build/cuda/CMakeCache.txt),$(NO_NVCC)), \
		echo "warning: build/cuda exists and no nvcc is found (sudo may change PATH): CUDACXX can" \
		  "name it; PRESET=emulated takes this warning away" >&2,:)
	@BUILD_TARGET=programs scripts/build.sh $(PRESET)
	cmake --install build/$(PRESET) --prefix "$(PREFIX)"

fetch-data:
	@scripts/fetch_data.py build/real-data

docs:
	@scripts/docs.sh

format:
	@scripts/format.sh

clean:
	rm -rf build
