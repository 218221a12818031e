#!/usr/bin/env bash
# Runs tune for arm64 on a machine that is not: the command and its plugins are built for
# arm64, and QEMU runs every process of them. The arguments are those of tune; without any
# it does five steps of the main job.
#
#	internal/arm64/run.sh
#	internal/arm64/run.sh parity --kernels all ../shared/golden/models/llama-tiny
#
# The system starts a plugin through a handler that this script registers in a namespace
# of its own, which takes Linux 6.7 or newer and no privilege. It also needs qemu-aarch64,
# of the Debian package qemu-user, and the system's loader for arm64, which a program needs that
# may load a BLAS: that of libc6-arm64-cross, unless $QEMU_LD_PREFIX names another root. $PLUGINS
# names other plugins to build than the project's own.
set -euo pipefail
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX-/usr/aarch64-linux-gnu}
if [[ ! -e $QEMU_LD_PREFIX/lib/ld-linux-aarch64.so.1 ]]; then
	echo "there is no $QEMU_LD_PREFIX/lib/ld-linux-aarch64.so.1; install libc6-arm64-cross, or set QEMU_LD_PREFIX" >&2
	exit 1
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir "$temp/plugins" "$temp/handlers"
for part in "$temp/ ./cmd/tune" "$temp/plugins/ ${PLUGINS-./plugins/npu_...}"; do
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -C "$source" -o $part
done
if (($# == 0)); then set -- --kernels auto --steps 5 --out "$temp/model"; fi
TUNE_PLUGIN_DIR=$temp/plugins TEMP=$temp unshare --map-root-user --mount bash -euc '
	mount -t binfmt_misc none "$TEMP/handlers"
	magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
	mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
	echo ":aarch64:M::$magic:$mask:$(command -v qemu-aarch64):OCF" >"$TEMP/handlers/register"
	exec "$TEMP/tune" "$@"' tune "$@"
