package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestW8A8FFNIsThreeProductsAndSwiGLU compares bits, between guard pages, for sizes that leave all rests and for one that
// is shared out among threads.
func TestW8A8FFNIsThreeProductsAndSwiGLU(t *testing.T) {
	eachInt8(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(15, 8))
		for n := 1; n < 70; n++ {
			checkW8A8FFN(t, rng, 1+n%7, n, 1+n*29%71)
		}
		checkW8A8FFN(t, rng, 37, 530, 1030)
	})
}

func checkW8A8FFN(t *testing.T, rng *rand.Rand, m, d, i int) {
	t.Helper()
	gate, up, down := randomW8A8(t, rng, m, i, d, false), randomW8A8(t, rng, m, i, d, false), randomW8A8(t, rng, m, d, i, false)
	p := W8A8FFN{M: m, D: d, I: i, X: gate.X, Gate: gate.Weight, Up: up.Weight, Down: down.Weight, GateScale: gate.Scale,
		UpScale: up.Scale, DownScale: down.Scale, Y: guarded(t, make([]float32, m*d))}
	gate.Bias, up.Bias, down.Bias, up.X = nil, nil, nil, gate.X
	for r := range m { // so that exp neither overflows nor vanishes everywhere
		Scale(gate.X[r*d:][:d], gate.X[r*d:][:d], 1e-4)
	}
	gate.Multiply()
	up.Multiply()
	Stream(false).SwiGLU(down.X, gate.Y, up.Y)
	down.Multiply()
	p.Multiply()
	for at, want := range down.Y {
		if got := p.Y[at]; got != want && (got == got || want == want) {
			t.Fatalf("%d tokens, %d and %d wide: [%d %d] is %v, want %v", m, d, i, at/d, at%d, got, want)
		}
	}
}

func TestW8A8FFNRefusesShortSlices(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p := W8A8FFN{M: 1, D: 4, I: 4, X: make([]float32, 4), Y: make([]float32, 4)}
	p.Multiply()
}

// BenchmarkW8A8FFN reads the shared experts of GLM-4.5-Air's layers in turn, 17 MiB each, by themselves and in their parts.
func BenchmarkW8A8FFN(b *testing.B) {
	const d, i, layers = 4096, 1408, 16
	weights, scales := make([]int8, layers*3*d*i), make([]float32, d)
	for at := range weights {
		weights[at] = int8(at)
	}
	for _, m := range []int{1, 8} {
		x, h, u, y := make([]float32, m*d), make([]float32, m*i), make([]float32, m*i), make([]float32, m*d)
		for at := range x {
			x[at] = float32(at%17) - 8
		}
		next := 0
		layer := func() (gate, up, down []int8) {
			next = (next + 1) % layers
			all := weights[next*3*d*i:][:3*d*i]
			return all[:d*i], all[d*i : 2*d*i], all[2*d*i:]
		}
		b.Run(fmt.Sprintf("one call of %d", m), func(b *testing.B) {
			b.SetBytes(3 * d * i)
			for b.Loop() {
				gate, up, down := layer()
				p := W8A8FFN{M: m, D: d, I: i, X: x, Gate: gate, Up: up, Down: down, GateScale: scales, UpScale: scales,
					DownScale: scales, Y: y}
				p.Multiply()
			}
		})
		b.Run(fmt.Sprintf("parts of %d", m), func(b *testing.B) {
			b.SetBytes(3 * d * i)
			for b.Loop() {
				gate, up, down := layer()
				for _, p := range []W8A8{{M: m, N: i, K: d, X: x, Weight: gate, Scale: scales, Y: h},
					{M: m, N: i, K: d, X: x, Weight: up, Scale: scales, Y: u}} {
					p.Multiply()
				}
				Stream(false).SwiGLU(h, h, u)
				p := W8A8{M: m, N: d, K: i, X: h, Weight: down, Scale: scales, Y: y}
				p.Multiply()
			}
		})
	}
}
