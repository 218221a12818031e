#!/usr/bin/env bash
# Runs blas_linear for arm64 with Debian's OpenBLAS on a machine that is not, as run.sh does the rest: verifies it, or
# trains three steps of the main job with it.
#
#	internal/arm64/blas.sh verify | train
#
# OpenBLAS comes into a folder for temporary files. It needs what run.sh needs, and apt-get.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/openblas.sh"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
case ${1-} in
verify) what=(kernels verify blas_linear --op linear --quick) ;;
train) what=(--kernels blas_linear --steps 3 --out "$temp/model") ;;
*)
	echo "usage: blas.sh verify | train" >&2
	exit 2
	;;
esac
fetch_openblas "$temp"
PLUGINS=./plugins/blas_linear QEMU_LD_PREFIX=$temp/root TUNE_BLAS=$library/libopenblas.so.0 \
	"$here/run.sh" "${what[@]}" --plugin-env "QEMU_LD_PREFIX=$temp/root"
