#!/usr/bin/env bash
# The benchmarks, on instrumented programs: bench.sh [NAME…] [OPTIONS] (see bench/run.sh).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ci/build.sh
exec bench/run.sh "$@"
