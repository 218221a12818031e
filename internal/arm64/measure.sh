#!/usr/bin/env bash
# Compares the NEON variant of internal/simd with others, under QEMU: a product with that
# of OpenBLAS, and every function with plain Go's, by time and by executed instructions.
# QEMU computes each lane of floating-point instructions by itself, in a few nanoseconds,
# whatever they are part of: its times say less of a processor than the instructions do.
#
#	internal/arm64/measure.sh gemm | functions
#
# It needs Go and, of Debian's packages, qemu-user, gcc, gcc-aarch64-linux-gnu and
# libc6-dev-arm64-cross. OpenBLAS for arm64 comes from Debian, into a folder for
# temporary files; nothing is installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/openblas.sh"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go test -C "$here/../simd" -c -o "$temp/simd.test" .

# bench PATTERN N [OPTIONS]: the benchmark's lines, one thread, N calls of each.
bench() {
	local pattern=$1 calls=$2
	shift 2
	GOMAXPROCS=1 qemu-aarch64 "$@" "$temp/simd.test" -test.run '^$' -test.bench "$pattern" -test.benchtime "${calls}x"
}

# openblas fetches the library and builds the program that calls it.
openblas() {
	fetch_openblas "$temp"
	aarch64-linux-gnu-gcc -O2 -Wall -o "$temp/openblas" "$here/openblas.c" "$temp/root$library/libopenblas.so.0" -Wl,--allow-shlib-undefined
}

# median of numbers, one a line.
median() { sort -g | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }

gemm() {
	openblas
	for _ in 1 2 3; do
		qemu-aarch64 -L "$temp/root" -E LD_LIBRARY_PATH=$library -E OPENBLAS_CORETYPE=ARMV8 -E OPENBLAS_NUM_THREADS=1 "$temp/openblas" 2 >>"$temp/theirs"
		for form in NN NT TN; do
			bench "Gemm/^512x512x512$/^$form$/^threads=1$/^neon$" 2 | awk '/ns\/op/ { print $3 / 1e6 }' >>"$temp/$form"
		done
	done
	theirs=$(median <"$temp/theirs")
	for form in NN NT TN; do
		ours=$(median <"$temp/$form")
		echo "512x512x512 $form: $ours ms, OpenBLAS NN $theirs ms, ratio $(awk "BEGIN { printf \"%.2f\", $ours / $theirs }")"
	done
}

# executed BENCHMARK: the instructions of one call.
executed() {
	local few many
	few=$(bench "$1" 10 -plugin "$temp/count.so" 2>&1 | awk '/^executed/ { print $2 }')
	many=$(bench "$1" 510 -plugin "$temp/count.so" 2>&1 | awk '/^executed/ { print $2 }')
	echo $(((many - few) / 500))
}

functions() {
	gcc -O2 -Wall -shared -fPIC -o "$temp/count.so" "$here/count.c"
	for _ in 1 2 3; do
		bench 'Vectors|Halves|Others' 100 | awk '/ns\/op/ { print $1, $3 }' >>"$temp/times"
	done
	printf '%-21s %12s %12s %6s   %12s %12s %6s\n' function 'neon ns' 'plain ns' ratio 'instructions' plain ratio
	cut -d/ -f1,2 "$temp/times" | sort -u | grep -v -e Streamed -e AdamW | while IFS=/ read -r group name; do
		row=("$name")
		for variant in neon generic; do
			row+=("$(awk -v b="$group/$name/$variant" '$1 == b { print $2 }' "$temp/times" | median)")
		done
		for variant in neon generic; do
			row+=("$(executed "${group#Benchmark}/^$name\$/^$variant\$")")
		done
		echo "${row[*]}" | awk '{ printf "%-21s %12d %12d %6.2f   %12d %12d %6.2f\n", $1, $2, $3, $2 / $3, $4, $5, $4 / $5 }'
	done
}

case ${1-} in
gemm | functions) "$1" ;;
*)
	echo "usage: measure.sh gemm | functions" >&2
	exit 2
	;;
esac
