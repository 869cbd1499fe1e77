# Thin: every target is one or two commands that can be typed as well. 'make' lists them.
JOBS := $(shell sh .ci/jobs.sh)
SOURCES = find apps lib kernels tests \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -type f

.PHONY: help packages build demo test debug test-quick test-nightly test-text-reference test-arch-reference test-weights-reference test-verdicts test-verdict-parts test-verdicts-measured test-demo test-real test-real-scales test-real-table test-fold-reference test-torch test-race-mutants test-action test-ptx test-ptx-selection test-clusters site arm64 dist dist-cuda dist-arm64 test-dist test-dist-arm64 format format-check asan tsan fuzz cuda-compile clean

help:
	@echo 'make demo          install what is missing, build, calibrate the two demo models'
	@echo 'make test          install what is missing, build everything, run all tests but the nightly ones'
	@echo 'make test-quick    format, and of the tests that take seconds those that a change can turn red (since BASE=COMMIT)'
	@echo 'make test-nightly  every order of threads, PTX, mutants, comparisons with the reference framework; hours'
	@echo 'make build         build the program: build/release/kvcal'
	@echo 'make packages      install the Debian packages for building and testing'
	@echo 'make debug         compile each source of the program alone and unoptimized'
	@echo 'make asan, tsan    unit and parity tests, fuzz corpora, and (asan) cases of the command line, under sanitizers'
	@echo 'make fuzz          build the fuzz programs with clang, run each for FUZZ_SECONDS (60)'
	@echo 'make test-text-reference  compare tokenizers and templates with the Python libraries on generated input'
	@echo 'make test-arch-reference  compare architectures with the reference framework on random tiny models'
	@echo 'make test-weights-reference  compare decoded weights of random quantized checkpoints with the tools that write them'
	@echo 'make test-verdicts  compare verdicts with what rounding does to attention, on layers drawn at random'
	@echo 'make test-verdict-parts  take each part out of the rule on verdicts: some case must turn red; long'
	@echo 'make test-verdicts-measured  print verdicts beside what rounding a layer does to predictions, of tiny models'
	@echo 'make test-demo      answers of the demo models at right and wrong scales, beside the reference'
	@echo 'make test-real      measure what an FP8 cache does to a small trained model; fetches it, half an hour the first time'
	@echo 'make test-real-scales  compare scales of absmax and powers of two with 1.0 on it, over calibration sets drawn at random'
	@echo 'make test-real-table  the table of docs/evidence.md: what formats and scales cost three trained models; fetches 750 MB, an hour'
	@echo 'make test-fold-reference  fold every golden, compare files in numpy and logits with the reference framework'
	@echo 'make test-torch    kvcal.torch against kvcal: every golden in f32, batches, caches, processes, states'
	@echo 'make test-race-mutants  leave out each barrier of the CUDA kernels: the race check must notice; long'
	@echo 'make test-plugins  what the server plug-ins decide without a server, in Python'
	@echo 'make test-action  the GitHub Action, the pre-commit hook and the pipelines of docs/ci.md, on a repository made for it'
	@echo 'make site          the documents, a page for every finding and an example report as a site: build/site/html'
	@echo 'make test-loaders  read exports and plug-ins with the loading code of the servers; installs them, about 20 GB'
	@echo 'make test-clusters  submit what launch prints to a Slurm of this machine, run --mpi, check manifests; installs them'
	@echo 'make cuda-compile  compile the CUDA kernels with nvcc for all architectures (CUDA_ARCHS="sm_90a" for one)'
	@echo 'make test-ptx-selection  run what nvcc makes of the kernels in an interpreter of PTX; test-ptx: and with deliberate faults'
	@echo 'make arm64         cross-compile for arm64, on Debian x86-64: build/arm64'
	@echo 'make dist          wheel, Debian package and tarball into build/dist'
	@echo 'make dist-cuda     the wheel of the CUDA backend too; needs nvcc'
	@echo 'make dist-arm64    wheel and Debian package for arm64 too, cross-compiled'
	@echo 'make test-dist     install what make dist left, calibrate the demo with each'
	@echo 'make test-dist-arm64  the same with what is for arm64, in a Debian of its own under qemu; needs root, half an hour'
	@echo 'make format        format all sources; format-check only says which differ'
	@echo 'make clean         remove build/'

# build/release with its tests, once.
configure_tests = grep -qs '^KVCAL_TESTS:BOOL=ON' build/release/CMakeCache.txt && test -f build/release/build.ninja \
  || cmake --preset release -DKVCAL_TESTS=ON

packages:
	@sh .ci/packages.sh build test ci

build/release/build.ninja:
	@cmake --preset release -DKVCAL_TESTS=OFF

build: | build/release/build.ninja
	@cmake --build --preset release --parallel $(JOBS) --target kvcal

# Packages first: configuring needs them.
demo:
	@echo '== step 1 of 3: Debian packages'
	@sh .ci/packages.sh build
	@echo '== step 2 of 3: building the program'
	@$(MAKE) --no-print-directory build
	@echo '== step 3 of 3: calibrating the demo models'
	@sh .ci/demo.sh build/release/kvcal

test:
	@sh .ci/packages.sh build test
	@$(configure_tests)
	@cmake --build --preset release --parallel $(JOBS)
	@ctest --test-dir build/release -LE nightly --output-on-failure --no-label-summary --no-tests=error --parallel $(JOBS)

test-quick:
	@sh .ci/packages.sh build test ci
	@$(configure_tests)
	@$(MAKE) --no-print-directory format-check
	@python3 .ci/quick.py $(BASE)

# What no merge waits for; docs/development.md says what each would have caught.
test-nightly:
	@$(MAKE) --no-print-directory test
	@sh .ci/ptx.sh
	@ctest --test-dir build/release -L nightly -LE ptx --output-on-failure --no-label-summary --no-tests=error --parallel $(JOBS)
	@$(MAKE) --no-print-directory test-ptx test-race-mutants test-verdict-parts test-verdicts
	@$(MAKE) --no-print-directory test-text-reference test-arch-reference test-weights-reference test-fold-reference asan tsan

# PYTHON=... uses an environment that has the packages of tests/reference/requirements.txt already. OPTIONS are those of
# tests/reference/*/differential.py: OPTIONS='--quantized --models 1' for quantized checkpoints.
# text: STRINGS (of each structure) and TEMPLATES make the run shorter. arch: MODELS of each class, CLASSES=... for some of
# them, SEED=... for others than the last time.
STRINGS = 20000
TEMPLATES = 2000
MODELS = 20
SEED = 0
text_options = $(STRINGS) $(TEMPLATES)
arch_options = $(CLASSES) --models $(MODELS) --seed $(SEED)
test-text-reference test-arch-reference test-weights-reference: test-%-reference:
	@sh .ci/packages.sh build test
	@$(configure_tests)
	@cmake --build --preset release --parallel $(JOBS) --target $*_reference_driver
	@sh tests/reference/run.sh $* build/release/tests/$*_reference_driver $($*_options) $(OPTIONS)

# SITES=..., SEED=... for others than the last time; OPTIONS=--engineered for the committed cases, OPTIONS=--all for every site.
SITES = 300
test-verdicts: build
	@sh tests/reference/run.sh verdicts build/release/kvcal --sites $(SITES) --seed $(SEED) $(OPTIONS)

# Each part of the rule is taken out of a copy of the tree: some case must turn red. Long; OPTIONS='--only TEXT' for some parts.
test-verdict-parts:
	@$(or $(PYTHON),python3) tests/verdicts/break_parts.py $(OPTIONS)

test-verdicts-measured: build
	@$(or $(PYTHON),python3) tests/reference/verdicts/measured.py build/release/kvcal $(OPTIONS)

test-demo: build
	@$(or $(PYTHON),python3) tests/reference/demo/accuracy.py build/release/kvcal $(OPTIONS)

test-real: build
	@sh tests/reference/real/run.sh layers build/release/kvcal

# MODELS='FOLDER ...' for others.
test-real-table: build
	@sh tests/reference/real/run.sh table build/release/kvcal $(MODELS)

test-real-scales: build
	@sh tests/reference/real/run.sh scales build/release/kvcal

# CASES=... for some goldens. OPTIONS='--balance head' for one of three.
test-fold-reference: build
	@sh tests/reference/run.sh fold build/release/kvcal $(CASES) $(OPTIONS)

# CASES=... for some goldens.
test-torch: build
	@sh tests/torch/run.sh $(CURDIR)/build/release/kvcal $(CASES)

# OPTIONS='--only routing.cu' for some barriers; --update writes the table.
test-race-mutants:
	@sh .ci/packages.sh build test
	@$(configure_tests)
	@cmake --build --preset release --parallel $(JOBS) --target test_parity_races
	@$(or $(PYTHON),python3) tests/emulator/mutate_barriers.py build/release/tests/parity/test_parity_races $(OPTIONS)

test-plugins: build
	@KVCAL=$(CURDIR)/build/release/kvcal $(or $(PYTHON),python3) tests/plugins/test_plugins.py
	@KVCAL=$(CURDIR)/build/release/kvcal $(or $(PYTHON),python3) tests/plugins/test_recorder.py || [ $$? = 77 ]

test-action: build
	@sh .ci/action.sh build/release/kvcal

# KVCAL_SITE=https://.../ is where it will be published.
site: build
	@sh .ci/site.sh build/release/kvcal

# REF=... names the folder where the servers are, or will be, installed; see tests/loaders/README.md.
test-loaders: build
	@sh tests/loaders/run.sh $(CURDIR)/build/release/kvcal

# Slurm, Open MPI and the checkers are Debian's; the schemas of Kubernetes come from PyPI.
test-clusters:
	@sh .ci/packages.sh build clusters
	@grep -qs '^MPI_CXX_COMPILER' build/release/CMakeCache.txt || cmake --preset release -DKVCAL_MPI=ON
	@cmake --build --preset release --parallel $(JOBS) --target kvcal kvcal_mpi
	@sh tests/clusters/run.sh $(CURDIR)/build/release/kvcal

# SANITIZED=reader_tests LABELS=unit_reader: those that read files of others.
SANITIZED = unit_tests
LABELS = unit|fuzz|selected|parity
asan tsan:
	@sh .ci/packages.sh build test fuzz
	@test -f build/$@/build.ninja || cmake --preset $@
	@cmake --build --preset $@ --parallel $(JOBS) --target $(SANITIZED)
	@ctest --test-dir build/$@ -L '$(LABELS)' --output-on-failure --no-label-summary --no-tests=error --parallel $(JOBS)

# The program with each source compiled alone, with no precompiled header and nothing optimized. By clang, which takes three
# fifths of GCC's time for it.
debug:
	@sh .ci/packages.sh build fuzz
	@test -f build/debug/build.ninja || cmake --preset debug -DKVCAL_TESTS=OFF -DCMAKE_CXX_COMPILER=clang++ \
	  -DCMAKE_CXX_FLAGS_DEBUG=-g1
	@cmake --build --preset debug --parallel $(JOBS) --target kvcal
	@build/debug/kvcal validate --list-rules >/dev/null

FUZZ_SECONDS = 60
fuzz:
	@sh .ci/packages.sh build test fuzz
	@test -f build/asan/build.ninja || cmake --preset asan
	@cmake --build --preset asan --parallel $(JOBS) --target fuzzers
	@sh .ci/fuzz.sh $(FUZZ_SECONDS)

cuda-compile:
	@sh .ci/cuda_compile.sh $(CUDA_ARCHS)
	@sh .ci/machine_code.sh
	@sh .ci/cudnn_graphs.sh

test-ptx-selection:
	@sh .ci/ptx.sh
	@ctest --test-dir build/release -L ptx --output-on-failure --no-label-summary --parallel $(JOBS)

# NAMES=... for some of the faults.
test-ptx: test-ptx-selection
	@$(or $(PYTHON),python3) tests/ptx/mutants.py build/release $(NAMES)

# TARGETS='kvcal test_ops' for some.
arm64:
	@sh .ci/arm64.sh $(TARGETS)

dist:
	@sh .ci/dist.sh

dist-cuda:
	@sh .ci/dist_cuda.sh

dist-arm64:
	@sh .ci/dist_arm64.sh

test-dist:
	@sh .ci/packages.sh build dist
	@sh tests/packages/check.sh

test-dist-arm64:
	@sh .ci/packages.sh dist arm64 arm64-root
	@sh tests/packages/check_arm64.sh

format:
	@$(SOURCES) -print0 | xargs -0 clang-format -i

format-check:
	@$(SOURCES) -print0 | xargs -0 clang-format --dry-run -Werror

clean:
	rm -rf build
