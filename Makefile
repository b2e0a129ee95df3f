# Two main commands: `make run` measures this machine, `make test` tests this tree. Both set up what is missing.
.DEFAULT_GOAL := help
SHELL := bash
.PHONY: run test check build format lint clean help

run:     ## set up, build, measure through ReFrame, show a table   (ARGS="-t smoke")
	@scripts/run $(ARGS)

test:    ## set up, lint, build for no GPU and run its tests      (ARGS=all for the others, ARGS="pytest lint" for some)
	@scripts/test $(ARGS)

check:   ## lint, build what changed and run its fast tests: while working
	@scripts/test check

build:   ## set up and build for this machine's GPU, or for none
	@scripts/setup run && scripts/build

format:  ## rewrite C++ and Python in the tree's style
	@scripts/setup test && scripts/format

lint:    ## say what style, clang-tidy, borders and comments object to
	@scripts/setup test && scripts/lint

clean:   ## remove what was built (not the records, not .venv)
	rm -rf build {,reframe/}{output,stage,perflogs} {,reframe/}reframe*.{log,out}

help:    ## this list
	@sed -n 's/^\([a-z]*\): *## */  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16
