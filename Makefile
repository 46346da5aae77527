# The commands of this project. `make help` lists them.

SHELL := /bin/bash
GO ?= go
BIN := bin/capstan
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

# With Ceph's headers installed capstan is built with the libcephfs engine, by
# the tag of the release that they belong to; without them it is static.
CEPH_MAJOR := $(shell dpkg-query -W -f '$${Version}' libcephfs-dev 2>/dev/null | cut -d. -f1)
CEPH_TAG_16 := pacific
CEPH_TAG_17 := quincy
CEPH_TAG_18 := reef
CEPH_TAG_19 := squid
CEPH_TAG_20 := tentacle
ifneq ($(CEPH_TAG_$(CEPH_MAJOR)),)
TAGS := librados,$(CEPH_TAG_$(CEPH_MAJOR))
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install the packages that the demo and the tests need (Debian, root)
	@./integration/install-packages.sh

.PHONY: build
build: ## build bin/capstan, with the libcephfs engine if its headers are installed
	@mkdir -p bin
	$(if $(TAGS),CGO_ENABLED=1,CGO_ENABLED=0) $(GO) build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/capstan

.PHONY: static
static: ## build a static bin/capstan without Ceph's library
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS) -s -w' -o $(BIN) ./cmd/capstan

.PHONY: demo
demo: deps ## a Ceph of its own, re-exported; serves until Ctrl-C
	@$(MAKE) --no-print-directory build
	@mkdir -p bin && CGO_ENABLED=0 $(GO) build -o bin/demo ./integration/demo
	@exec ./bin/demo -capstan $(BIN)

.PHONY: check
check: ## formatting, vet, staticcheck, both builds
	@bad=$$(git ls-files '*.go' | xargs gofmt -l); [ -z "$$bad" ] || { echo "not gofmt'ed: $$bad"; exit 1; }
	CGO_ENABLED=0 $(GO) vet ./...
	$(if $(TAGS),$(GO) vet -tags '$(TAGS)' ./...)
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

.PHONY: test
test: deps ## every test: -race, fuzzing for a while, integration against real peers
	@./integration/run-tests.sh '$(TAGS)'

.PHONY: unit
unit: ## the tests that need nothing but Go
	$(GO) test -race $$($(GO) list ./... | grep -v /integration)

.PHONY: bench
bench: ## the benchmarks whose table is in docs/performance.md
	@./integration/run-benchmarks.sh '$(TAGS)'

.PHONY: install
install: $(if $(BUILT),,build) ## install the binary, unit and example configuration under $(DESTDIR)
	install -D -m 755 $(BIN) $(DESTDIR)/usr/bin/capstan
	install -D -m 644 packaging/capstan.service $(DESTDIR)/usr/lib/systemd/system/capstan.service
	test -e $(DESTDIR)/etc/capstan/capstan.yaml || install -D -m 644 packaging/capstan.yaml $(DESTDIR)/etc/capstan/capstan.yaml
	install -d -m 700 $(DESTDIR)/var/lib/capstan
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/capstan README.md CHANGELOG.md docs/*.md

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
