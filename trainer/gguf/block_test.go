package gguf

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// rows are numbers of many sizes: of all rows of float32, halves between two steps, zeros and the edges of float16.
func rows() []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	var v []float32
	for block := range 4096 {
		scale := math.Pow(10, float64(block%9-5))
		for range blockLen {
			v = append(v, float32(rng.NormFloat64()*scale))
		}
	}
	for i := range 64 * blockLen { // multiples of half a step
		v = append(v, float32(i%255-127)/2)
	}
	v = append(v, make([]float32, blockLen)...)
	for i := range blockLen {
		v = append(v, float32(math.Copysign(1e-7, float64(i%2)-0.5)))
	}
	return v
}

// TestBlocksEqualLlamaCppsToTheBit compares with ggml_quantize_chunk of llama.cpp's own library, without an
// importance matrix.
func TestBlocksEqualLlamaCppsToTheBit(t *testing.T) {
	quantize := ggmlQuantize(t)
	v := rows()
	for _, name := range []string{"q8_0", "q4_0", "f16", "bf16"} {
		as, err := ParseType(name)
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]byte, as.size(len(v))), make([]byte, as.size(len(v)))
		as.encode(got, v)
		n := quantize.Call(uintptr(as.id), uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&want[0])), 0,
			uintptr(len(v)/blockLen), blockLen, 0)
		if int(n) != len(want) {
			t.Fatalf("%s: llama.cpp writes %d bytes, want %d", name, n, len(want))
		}
		if !bytes.Equal(got, want) {
			at := 0
			for got[at] == want[at] {
				at++
			}
			t.Errorf("%s: byte %d is %d, want %d", name, at, got[at], want[at])
		}
	}
}

// ggmlQuantize returns ggml_quantize_chunk of the library that node-llama-cpp brings.
func ggmlQuantize(t *testing.T) dynlib.Func {
	for _, dir := range filepath.SplitList(os.Getenv("NODE_PATH")) {
		found, _ := filepath.Glob(filepath.Join(dir, "@node-llama-cpp", "linux-x64", "bins", "linux-x64", "libggml-base.so"))
		for _, path := range found {
			lib, err := dynlib.Open(path)
			if err != nil {
				t.Skip(err)
			}
			return lib.Func("ggml_quantize_chunk")
		}
	}
	t.Skip("llama.cpp's library is absent: \"npm install --ignore-scripts node-llama-cpp@3.22.1\" in a folder brings " +
		"it, and " +
		"NODE_PATH is to name that folder's node_modules")
	return 0
}

func TestBlocksAreTheNumbersOfTheFormat(t *testing.T) {
	src := make([]float32, 2*blockLen)
	src[0], src[1], src[2], src[blockLen+3] = -127, 63.5, 0.5, 8
	q8 := make([]byte, types[3].size(len(src)))
	encodeQ8(q8, src)
	// the scale is 1; halves go away from zero
	if want := []byte{0x00, 0x3c, 0x81, 64, 1, 0}; !bytes.Equal(q8[:6], want) {
		t.Errorf("q8_0 begins with %v, want %v", q8[:6], want)
	}
	q4 := make([]byte, types[4].size(len(src)))
	encodeQ4(q4, src)
	if block := q4[18:]; block[0] != 0x00 || block[1] != 0xbc || block[2] != 0x88 || block[5] != 0x80 { // the scale is -1
		t.Errorf("the second block of q4_0 is %v", block)
	}
}
