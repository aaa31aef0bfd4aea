#!/bin/sh
# RE-03: run the tests on each CPython that pyproject.toml names and that is not the one of PYTHON; with --list, say what
# such a run would leave out. A version that is not on this machine is reported, and proves nothing.
cd "$(dirname "$0")/.." || exit 2
for version in $(sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml); do
  "${PYTHON:-python3}" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" && continue
  found=
  for one in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
    if [ -z "$found" ] && "$one" -c pass 2>/dev/null; then found=$one; fi
  done
  if [ -z "$found" ]; then
    echo "not run: the tests on CPython $version, because python$version is not on this machine"
  elif [ "${1:-}" = --list ]; then
    echo "not run: the tests on CPython $version: make pythons runs them"
  else
    make test PYTHON="$found" VENV=".cache/python$version" || exit 1
  fi
done
