#!/bin/bash
# Run every test, which is what `make test` does: tests/run.sh VENV [COMMAND...].
#
# Three lanes run beside each other, so that no core waits at the end:
#
# - Tests that kill and stall real processes, and then a newcomer's path. They have bounds of time, so they run one at a
#   time and before others.
# - Tests in browsers, likewise.
# - All other tests, three at a time, in what the others leave of the processor.
#
# The last lines say what did not run, and what failed beside other tests but passed alone.
# COMMAND runs pytest in another way: `tests/run.sh .venv coverage run -m` measures the coverage.
set -u
cd "$(dirname "$0")/.." || exit 2
bin=$1/bin
shift
export TOOLWIRE_NOT_RUN=.cache/not-run.txt
rm -rf .cache/lanes && mkdir -p .cache/lanes && : >"$TOOLWIRE_NOT_RUN"

runner=("$@" pytest)

# Run pytest with the name of a lane, under which it keeps what failed, how much it leaves to other lanes, and arguments.
run_lane() {
  nice -n "$2" "$bin/python" -m "${runner[@]}" -o "cache_dir=.cache/lanes/$1" "${@:3}"
}

# Without xdist, the variable says which ports and databases are those of this lane.
run_processes() {
  PYTEST_XDIST_WORKER=gw8 run_lane processes 0 tests/process tests/crossings
  local code=$?
  "$bin/python" newcomer/walk.py || return 2
  return $code
}

run_browsers() {
  [ ! -d tests/browser ] || PYTEST_XDIST_WORKER=gw7 run_lane browsers 0 tests/browser
}

# A test that fails beside others may pass alone. Up to three such tests do not end the run, but its last lines name them:
# each is a fault to find, of the test or of what it tests.
run_failed_alone() {
  local failed
  mapfile -t failed < <("$bin/python" -c '
import glob, json

for lane in glob.glob(".cache/lanes/*/v/cache/lastfailed"):
    print(*json.load(open(lane)), sep="\n")')
  [ ${#failed[@]} -ge 1 ] && [ ${#failed[@]} -le 3 ] || return 1
  echo "These tests failed beside others, and run again alone:"
  printf '%s\n' "${failed[@]}"
  run_lane alone 0 "${failed[@]}" || return 1
  printf 'unstable: failed beside other tests, and passed alone: %s\n' "${failed[@]}" >>"$TOOLWIRE_NOT_RUN"
}

run_processes >.cache/lanes/processes.txt 2>&1 &
processes=$!
run_browsers >.cache/lanes/browsers.txt 2>&1 &
browsers=$!
trap 'kill $processes $browsers' INT TERM
run_lane others 5 --numprocesses 3 --dist worksteal --ignore=tests/process --ignore=tests/crossings --ignore=tests/browser
codes=$?
for lane in browsers processes; do
  wait "${!lane}"
  codes+=" $?"
  cat ".cache/lanes/$lane.txt"
done
case $codes in
  "0 0 0") code=0 ;;
  # 1 says that tests failed; anything else is none of their faults
  *[2-9]*) code=1 ;;
  *) run_failed_alone; code=$? ;;
esac
tests/pythons.sh --list >>"$TOOLWIRE_NOT_RUN"
sort -u "$TOOLWIRE_NOT_RUN"
exit $code
