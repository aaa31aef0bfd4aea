#!/bin/bash
# Run every test, which is what `make test` does: tests/run.sh VENV [COMMAND...].
#
# 1. Most tests, four at a time: they wait for other processes most of their time, so four keep two cores busy.
# 2. Those in browsers, three files at a time, because not much may run beside a browser.
# 3. Those that kill and stall real processes: they have bounds of time, so two files of them at a time and nothing else
#    but a newcomer's path, which mostly waits for pip.
#
# The last lines say what did not run, and what failed beside other tests but passed alone.
# COMMAND runs pytest in another way: `tests/run.sh .venv coverage run -m` measures the coverage.
set -u
cd "$(dirname "$0")/.." || exit 2
bin=$1/bin
shift
export TOOLWIRE_NOT_RUN=.cache/not-run.txt
mkdir -p .cache && : >"$TOOLWIRE_NOT_RUN"

runner=("$@" pytest)

run_pytest() {
  "$bin/python" -m "${runner[@]}" "$@"
}

# A test that fails beside others may pass alone. Up to three such tests do not end the run, but its last lines name them:
# each is a fault to find, of the test or of what it tests.
run_lane() {
  local code failed
  rm -f .pytest_cache/v/cache/lastfailed
  run_pytest "$@"
  code=$?
  [ $code -eq 1 ] || return $code
  failed=$("$bin/python" -c 'import json, sys; print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")') || return 1
  [ "$(wc -l <<<"$failed")" -le 3 ] || return 1
  echo "These tests failed beside others, and run again alone:"
  echo "$failed"
  run_pytest --last-failed --last-failed-no-failures none || return 1
  sed 's/^/unstable: failed beside other tests, and passed alone: /' <<<"$failed" >>"$TOOLWIRE_NOT_RUN"
}

run_browsers() {
  [ ! -d tests/browser ] || run_lane --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/browser
}

run_processes() {
  "$bin/python" newcomer/walk.py >.cache/newcomer.txt 2>&1 &
  local walk=$! code
  trap 'kill $walk' INT TERM
  run_lane --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/process tests/crossings
  code=$?
  wait $walk || code=1
  cat .cache/newcomer.txt
  return $code
}

run_lane --numprocesses 4 --dist worksteal --ignore=tests/process --ignore=tests/crossings --ignore=tests/browser && run_browsers && run_processes
code=$?
tests/pythons.sh --list >>"$TOOLWIRE_NOT_RUN"
sort -u "$TOOLWIRE_NOT_RUN"
exit $code
