# Everything that people and CI run here. `make` lists it.
#
# Only Go and make must be there. What else a target needs it asks tools/need for, which installs it with apt-get where
# it may and says what is missing where it may not.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-print-directory

# The version comes from git where the tree has one. The go command's own stamp is off: it fails the build in a clone
# that belongs to another user.
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
BUILD     := -buildvcs=false
LDFLAGS   := -X main.version=$(VERSION)
TOOL      := go tool -modfile='$(CURDIR)/tools/go.mod'

# The product needs no C. Only the race detector and the C SQLite that bench measures against do.
export CGO_ENABLED := 0

# More flags for `go test`, such as TESTFLAGS='-run TestTrees -v'.
TESTFLAGS ?=
# More flags for `make bench`, such as BENCHFLAGS=-quick; `make bench BENCHFLAGS=-help` lists them.
BENCHFLAGS ?=

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build bin/migrate
	go build $(BUILD) -ldflags '$(LDFLAGS)' -o bin/migrate ./cmd/migrate

.PHONY: demo
demo: build ## import a sample tree, list its runs, show one, ask a question in SQL
	examples/demo

.PHONY: test
test: ## run all tests but those that need root or a server
	@tools/need sqlite3
	go test -timeout 20m -skip ^TestRoot $(TESTFLAGS) ./...

.PHONY: test-root
test-root: ## run the tests that mount file systems, make namespaces or become another user, as root
	@tools/need mkfs.ext4 setpriv
	go test -timeout 20m -run ^TestRoot $(TESTFLAGS) ./...

.PHONY: test-postgres
test-postgres: ## run the tests that need a PostgreSQL server, on one that is started for them
	tools/postgres run go test -tags postgres -run Postgres -timeout 20m $(TESTFLAGS) ./...

# Where `make cluster` has its servers, and what it does with them: start, status or stop.
CLUSTER_DIR ?= /tmp/selvedge-cluster
CLUSTER     ?= start

.PHONY: cluster
cluster: ## start three PostgreSQL servers under Patroni (CLUSTER=status says how they are, CLUSTER=stop ends them)
	@tools/cluster $(CLUSTER) '$(CLUSTER_DIR)'

.PHONY: failover
failover: ## kill, stop and cut off the primary of such clusters under load, lose etcd and packets, and judge what is left (30 minutes)
	go test -tags postgres -run TestFailover -count=1 -timeout 90m -v $(TESTFLAGS) ./test/failover

.PHONY: long
long: ## race for checkpoints 60,000 times, judge 200 histories of killed and stopped processes, and kill an agent 360 times
	SELVEDGE_LONG=1 go test -count=1 -timeout 60m -v -run 'TestOneClaimerWins|TestHistoriesAreLinearizable|TestHistoriesOf(Reservations|Inputs)|TestSurvive' $(TESTFLAGS) . ./checkpoints ./db ./workers

.PHONY: long-postgres
long-postgres: ## the same on a PostgreSQL server, whose connections are cut besides, and all stores in a storm of that (10 minutes)
	SELVEDGE_LONG=1 tools/postgres run go test -tags postgres -count=1 -timeout 90m -v \
		-run '^TestPostgres(DoesWhat|ReservesAs)TheFileDoes$$/^(TestOneClaimerWins|TestHistories|TestLeases_Linearizable|TestSurvive)|^TestPostgresTheStoresStandAStorm$$' $(TESTFLAGS) \
		. ./checkpoints ./db ./agents ./workers ./test/failover

# The first seed of `make unseen`, and how many trees it makes, and transcripts of each store; how long it makes novel
# trees then.
UNSEEN ?= 1000+200
FUZZTIME ?= 30m

.PHONY: unseen
unseen: ## change recorded trees and transcripts at random, and compare what a file and a server answer (UNSEEN=1000+200: from which seed, how many of each kind); then move novel trees there and back (FUZZTIME=30m)
	SELVEDGE_UNSEEN=$(UNSEEN) tools/postgres run go test -tags postgres -count=1 -timeout 60m -run 'TreesThatNobodyRecorded|UnseenTranscripts' $(TESTFLAGS) \
		./cmd/migrate ./runs ./runs/live ./agents ./checkpoints ./workers
	go test -run '^$$' -fuzz '^FuzzTrees$$' -fuzztime $(FUZZTIME) ./legacy

.PHONY: damage
damage: ## flip 2,000 bits of a file with data of all stores, and count which are noticed; damage it in all ways, and salvage it
	SELVEDGE_FLIPS=2000 go test -count=1 -timeout 60m -v -run TestAFlippedBitIsNoticed $(TESTFLAGS) ./maintenance
	SELVEDGE_SALVAGES=all go test -count=1 -timeout 60m -run TestSalvage_ResultIsWhole $(TESTFLAGS) ./maintenance

# How long `make soak` lasts.
SOAK ?= 20m

.PHONY: soak
soak: ## use a file for 20 minutes in every way at once, and judge that nothing grows; draws docs/soak.svg (SOAK=20m)
	SELVEDGE_SOAK=$(SOAK) go test -count=1 -timeout 0 -v -run TestSoak $(TESTFLAGS) ./test/soak

# More flags for `make mutants`; `make mutants MUTANTSFLAGS=-help` lists them.
MUTANTSFLAGS ?=

.PHONY: mutants
mutants: ## change the code of leases, claims, adoption, cursors and caps a line at a time: nine in ten must fail a test, in a file or on a server
	go build $(BUILD) -o bin/mutants ./test/mutants
	tools/postgres run bin/mutants $(MUTANTSFLAGS)

.PHONY: datasette
datasette: ## install Datasette into bin/datasette, and ask it for pages of a file
	python3 -m venv bin/datasette
	bin/datasette/bin/pip install --quiet --disable-pip-version-check 'datasette==0.65.5'
	DATASETTE='$(CURDIR)/bin/datasette/bin/datasette' go test -count=1 -tags datasette -timeout 5m -v -run Datasette $(TESTFLAGS) ./cmd/migrate

# More flags for `make torture`; `make torture TORTUREFLAGS=-help` lists them.
TORTUREFLAGS ?=

.PHONY: torture
torture: ## kill, fail and cut the power at every system call of every public write (TORTUREFLAGS='-for 2m' draws some)
	go build $(BUILD) -o bin/torture ./test/torture
	bin/torture $(TORTUREFLAGS)

# What the race detector would only slow down: replays, of falsified answers too, faults that the conformance
# suite must notice, and commands that make one call after another; what measures memory or room on a disk; what
# reads a whole damaged file again and again, or only sources and pages; what only starts, kills or traces other
# processes, which are their own race. Of the scripts, those that follow, report progress, import, migrate and
# move run with it.
NO_RACE := ^Test(Transcripts|Trees|RandomTrees|TheJudge|Judge_|Image_|TheDemo|TheProgramInTheREADME)
NO_RACE := $(NO_RACE)|^Test(EveryCommand|Pages_SQLite3|StorePages_|Check_EveryImportedTree)
NO_RACE := $(NO_RACE)|^Test(EveryFaultIsNoticed|Foreign_EveryStep|MemoryStaysFlat|Import_LineOf64MB)
NO_RACE := $(NO_RACE)|^Test(ALineThatIsTooLong|APageOfATraceIsWeighed|WhatADeletionFreed)
NO_RACE := $(NO_RACE)|^TestRoot(FullDisk_EmptiedByDeleting|FullDisk_HasAWayOut|GiveBack_)
NO_RACE := $(NO_RACE)|^Test(AFlippedBit|NoStatementGoes|Salvage|EightProcessesOpen|Import_KilledAnywhere)
NO_RACE := $(NO_RACE)|^Test(AGrowingFile|AnswersHaveTheDocumented)|^Test.*Falsified
NO_RACE := $(NO_RACE)|^Test(EveryChangedCell|AMoveNoticesEveryCell|ADamagedImport|Upgrade_TwentyInstances)
NO_RACE := $(NO_RACE)|^Test(Open_ForeignWAL|Constants_|Functions_EachHasARow|Parity|WhatPagesAndComments|Quick_)
NO_RACE := $(NO_RACE)|^Test(ExportsAreTheSameBehind|AMovedFileAnswers|DownGoesBack|ACheckComparesARun)
NO_RACE := $(NO_RACE)|^Test(Redact_FindsSecret|SettingsBesideATree)
NO_RACE := $(NO_RACE)|^Test(NoPublicNameIs|PackagesImport|CommentsFollow)
NO_RACE := $(NO_RACE)|^Test(AFailedSyncOfTheFolder|Normal_FailedSync)
NO_RACE := $(NO_RACE)|^TestScripts$$/^(agents|backup|check.*|com.*|cutover|d.*|export|frame|gc|health)$$
NO_RACE := $(NO_RACE)|^FuzzTrees$$|^TestScripts$$/^(imports|live|near|pin|qu.*|re.*|runs|runs_pin|s.*|terminal|ve.*|workers.*)$$

.PHONY: upgrades
upgrades: ## upgrade a server fifty times beside programs of the release before (an hour)
	SELVEDGE_UPGRADES=50 tools/postgres run go test -tags postgres -count=1 -timeout 3h -v -run TestPostgresUpgrade_ $(TESTFLAGS) ./test/failover

.PHONY: nightly
nightly: ## run whole what .ci/run samples or leaves out (hours; docs/guarantees.md has the last figures)
	$(MAKE) long
	$(MAKE) long-postgres
	$(MAKE) race-postgres
	$(MAKE) unseen
	$(MAKE) damage
	$(MAKE) soak
	$(MAKE) upgrades
	$(MAKE) failover
	$(MAKE) mutants MUTANTSFLAGS='-for 12h'
	$(MAKE) torture

.PHONY: quick
quick: ## test what a change most likely broke, for a minute: changed packages, then those that import them
	@QUICK_SKIP='^TestRoot|$(NO_RACE)' tools/quick

# SQLite itself, which is C made into Go, has locks of its own. Watched by the detector it takes six times as long.
NOT_OURS := -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

.PHONY: race
race: ## run the tests with the race detector, but for those that it would only slow down
	@tools/need sqlite3 gcc
	CGO_ENABLED=1 go test -race $(NOT_OURS) -skip '$(NO_RACE)' -timeout 40m $(TESTFLAGS) ./...
# As in a user's tests, where it watches SQLite too, and ends a program that gives it Go's memory.
	CGO_ENABLED=1 go test -race -run '^TestValues_' -timeout 40m $(TESTFLAGS) ./db

.PHONY: race-postgres
race-postgres: ## run the server's engine, db, two stores and the stores' suite with the race detector, on a PostgreSQL server
	@tools/need gcc
	CGO_ENABLED=1 tools/postgres run go test -race $(NOT_OURS) -tags postgres -run Postgres -timeout 40m $(TESTFLAGS) ./internal/postgres ./test/storetest ./db ./workers ./runs

.PHONY: lint
lint: ## check the format, vet, and run the linters of .golangci.yml on every module
	$(TOOL) golangci-lint fmt --diff
	$(TOOL) golangci-lint run --allow-parallel-runners
	cd bench && $(TOOL) golangci-lint run --allow-parallel-runners
	cd adapters/adk && $(TOOL) golangci-lint run --allow-parallel-runners
	cd test/browser && $(TOOL) golangci-lint run --allow-parallel-runners
	@tools/need gcc
	cd bench/csqlite && CGO_ENABLED=1 $(TOOL) golangci-lint run --allow-parallel-runners
	cd bench/peers && CGO_ENABLED=1 $(TOOL) golangci-lint run --allow-parallel-runners

.PHONY: format
format: ## rewrite the Go files in the project's format
	$(TOOL) golangci-lint fmt

.PHONY: generate
generate: ## make the script of a new file, PostgreSQL's twins of simple steps, docs/SCHEMA.md and docs/CLI.md anew
	go test -count=1 -run TestEveryStepHasATwin ./migrations -update
	go test -count=1 -run 'TestNewFile_EqualsAllSteps|TestViewsDigest_IsThatOfTheScript' ./internal/sqlite -update
	go run ./test/schemadoc/cmd > docs/SCHEMA.md.new
	mv docs/SCHEMA.md.new docs/SCHEMA.md
	go test -count=1 -run TestTheReferenceIsWhatTheProgramSays ./cmd/migrate -update

.PHONY: peers
peers: ## measure beside tables by other drivers, a queue, two key-value stores, a workflow engine and ADK-Go (PEERSFLAGS=-quick for a short look)
	@tools/need gcc
	cd bench/peers && CGO_ENABLED=1 go build $(BUILD) -o ../../bin/bench-peers .
	bin/bench-peers $(PEERSFLAGS)

.PHONY: bench
bench: ## measure against the original stores, C SQLite and work by hand on PostgreSQL, and print a table of ratios (BENCHFLAGS=-quick for a short look)
	@tools/need gcc
	cd bench/csqlite && CGO_ENABLED=1 go build $(BUILD) -o ../../bin/bench-csqlite .
	cd bench && go build $(BUILD) -o ../bin/bench .
	SELVEDGE_POSTGRES_FSYNC=on tools/postgres run bin/bench -csqlite bin/bench-csqlite $(BENCHFLAGS)

.PHONY: adapters
adapters: ## test the adapters for agent frameworks by the frameworks' own suites, on files and on a PostgreSQL server
	tools/postgres run env -C adapters/adk go test -tags postgres -timeout 10m $(TESTFLAGS) ./...

.PHONY: browser
browser: ## test the pages of migrate serve in Chromium (SCREENSHOTS=folder keeps pictures, RUNS=100000 makes so many runs)
	cd test/browser && go test -timeout 20m $(TESTFLAGS) ./...

.PHONY: clean
clean: ## remove what the targets above made
	rm -rf bin demo
