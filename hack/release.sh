#!/usr/bin/env bash
# Build what a release publishes, from a commit alone, into build/release: the wheel, the chart, an
# SBOM in CycloneDX and checksums.  Two builds of a commit give the same bytes.
#
#   make release [REF=v0.3.0] [TO=folder]
set -euo pipefail
cd "$(dirname "$0")/.."

ref=$(git rev-parse --verify "${REF:-HEAD}^{commit}")
to=$(realpath -m "${TO:-build/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$to"
mkdir -p "$to"

git archive "$ref" | tar -x -C "$work"
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$work/sharder/__init__.py")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$ref")
export SOURCE_DATE_EPOCH

# Files of a wheel have the modes that they have on disk.
chmod -R u=rwX,go=rX "$work"
python3 -m venv "$work/venv"
pip=("$work/venv/bin/pip" --disable-pip-version-check --quiet)
"${pip[@]}" install --only-binary :all: --require-hashes -r "$work/hack/build.lock"
"${pip[@]}" wheel --no-index --no-deps --no-build-isolation -w "$to" "$work"

tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
    -C "$work/charts" -c sharder | gzip -9n >"$to/sharder-$version.tgz"

# The SBOM names what the image has, with licences and who needs whom.
python3 -m venv --without-pip "$work/image"
"${pip[@]}" --python "$work/image/bin/python" install \
    --only-binary :all: --require-hashes -r "$work/hack/requirements.lock"
"${pip[@]}" install -c "$work/hack/constraints.txt" cyclonedx-bom
sed -i "s/^dynamic = .*/version = \"$version\"/" "$work/pyproject.toml"
"$work/venv/bin/cyclonedx-py" environment "$work/image/bin/python" \
    --pyproject "$work/pyproject.toml" --mc-type application --output-reproducible \
    --of JSON -o "$to/sharder-$version.cdx.json"

cd "$to"
sha256sum -- * >SHA256SUMS
cat SHA256SUMS
