#!/usr/bin/env bash
# Do the main job, admission, the fence and the chart work in each supported surrounding?
#
#   make matrix                                      every cell
#   make matrix CELLS="kubernetes-1.33 python-3.13"  some
#
# A cell changes one thing of what `make test` runs on; logs are in build/matrix.  helm 3 and 4 are
# compared by tests/long/test_{chart_installed,upgrade}.py.
set -uo pipefail
cd "$(dirname "$0")/.."

usual=".venv/bin"
facts=(tests/e2e/test_main_job.py tests/integration/test_chart.py
  tests/integration/test_fence.py tests/integration/test_admission_owners.py
  tests/integration/test_webhook_calls.py)

# Kubernetes 1.30 wants the name of a Service to begin with a letter.
old_names="tests/integration/test_chart.py::test_the_server_accepts_every_object[names that look like something else-1234]"

cells() {
  for minor in hack/controlplanes/*; do echo "kubernetes-${minor##*/}"; done
  for python in 3.11 3.12 3.13 3.14; do "python$python" -c "" 2>/dev/null && echo "python-$python"; done
  echo dependencies-oldest dependencies-newest
}

environment() { # NAME PYTHON PIP-ARGUMENTS...: a virtual environment of the cell
  local name=$1 python=$2
  shift 2
  "$python" -m venv "build/matrix/$name" &&
    "build/matrix/$name/bin/pip" install -q --disable-pip-version-check "$@" -e '.[server,dev]'
  local status=$?
  rm -rf sharder.egg-info
  return $status
}

oldest() { # the lowest versions that pyproject.toml allows
  "$usual/uv" pip compile -q --no-config --no-header --no-annotate --resolution=lowest-direct \
    --extra=server --extra=dev pyproject.toml
}

play() { # CELL
  local value=${1#*-} bin=$usual name=$1
  case $1 in
    kubernetes-*)
      KUBEBUILDER_ASSETS=$("$usual/python" -m hack.binaries "control-plane-$value") || return
      export KUBEBUILDER_ASSETS
      "$usual/pytest" -q "${facts[@]}" --deselect "$old_names"
      return ;;
    python-*) bin=build/matrix/$name/bin && environment "$name" "python$value" -c hack/constraints.txt ;;
    dependencies-oldest)
      bin=build/matrix/$name/bin
      oldest >build/matrix/oldest.txt && environment "$name" "$usual/python" -c build/matrix/oldest.txt ;;
    dependencies-newest) bin=build/matrix/$name/bin && environment "$name" "$usual/python" ;;
    *) echo "no cell $1, there are:" $(cells) >&2; return 2 ;;
  esac && "$bin/pytest" -q "${facts[@]}"
}

mkdir -p build/matrix
status=0
for cell in ${CELLS:-$(cells)}; do
  if (play "$cell") >"build/matrix/$cell.log" 2>&1; then result=good; else result=BAD status=1; fi
  printf '%-22s %s  %s\n' "$cell" "$result" "$(tail -n 1 "build/matrix/$cell.log")"
done
exit $status
