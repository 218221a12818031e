package simd

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// streamedOps are those of cachedOps that can write past the caches, doing so.
func streamedOps() []vectorOp {
	const stream = Stream(true)
	var ops []vectorOp
	for _, op := range cachedOps {
		switch op.name {
		case "ScaleMul":
			op.run = func(s [][]float32) float64 { stream.ScaleMul(s[0], s[1], s[2], 0.25); return 0 }
		case "NormGrad":
			op.run = func(s [][]float32) float64 { stream.NormGrad(s[0], s[1], s[2], s[3], s[4], 0.25, 0.5); return 0 }
		case "RotateHalves":
			op.run = func(s [][]float32) float64 { stream.RotateHalves(s[0], s[1], s[2], s[3], s[4], s[5]); return 0 }
		case "SwiGLU":
			op.run = func(s [][]float32) float64 { stream.SwiGLU(s[0], s[1], s[2]); return 0 }
		case "SwiGLUGrad":
			op.run = func(s [][]float32) float64 { stream.SwiGLUGrad(s[0], s[1], s[2], s[3], s[4]); return 0 }
		default:
			continue
		}
		op.name += "Streamed"
		ops = append(ops, op)
	}
	return ops
}

// TestStreamingGivesTheSameBits compares the functions with and without.
func TestStreamingGivesTheSameBits(t *testing.T) {
	for _, streamed := range streamedOps() {
		i := slices.IndexFunc(cachedOps, func(op vectorOp) bool { return op.name+"Streamed" == streamed.name })
		eachVariant(t, func(t *testing.T) {
			for n := range 100 {
				rng := rand.New(rand.NewPCG(3, uint64(n)))
				var got, want [][]float32
				for range streamed.slices {
					x := random(rng, n)
					got, want = append(got, append(aligned(n)[:0], x...)), append(want, x)
				}
				streamed.run(got)
				cachedOps[i].run(want)
				for i := range streamed.out {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("%s: length %d: output %d has other bits than without streaming", streamed.name, n, i)
					}
				}
			}
		}, streamed.name)
	}
}

// TestHeadsOfARowTurnAsEachByItself compares with RotateHalves, for heads that lie on
// cache lines and elsewhere; what is not rotated stays.
func TestHeadsOfARowTurnAsEachByItself(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		for _, stream := range []Stream{false, true} {
			for _, s := range [][3]int{{3, 64, 32}, {2, 32, 16}, {1, 96, 16}, {4, 128, 64}, {3, 34, 16}, {2, 20, 7},
				{2, 80, 33}, {0, 64, 32}} {
				heads, width, n := s[0], s[1], s[2]
				for _, skip := range []int{0, 1, 4} {
					rng := rand.New(rand.NewPCG(5, uint64(width)))
					cos, sin, x := guarded(t, random(rng, n)), guarded(t, random(rng, n)), guarded(t, random(rng, heads*width))
					got := append(aligned(heads*width + skip)[:skip], random(rng, heads*width)...)[skip:]
					want := slices.Clone(got)
					stream.RotateHeads(got, x, cos, sin, width)
					for h := 0; h < len(x); h += width {
						generic.rotateHalves(want[h:h+n], want[h+n:h+2*n], x[h:h+n], x[h+n:h+2*n], cos, sin)
					}
					if !slices.Equal(got, want) {
						t.Errorf("%d heads of %d, %d angles, %d elements off a line, stream %v: other bits than head by head", heads,
							width, n, skip, stream)
					}
				}
			}
		}
	})
}

func TestStreamsFromTheFirstCacheLine(t *testing.T) {
	x, y := aligned(64), aligned(64)
	for _, c := range []struct {
		name    string
		stream  Stream
		results [][]float32
		want    int
	}{
		{"off", false, [][]float32{x}, 64},
		{"empty", true, [][]float32{x[:0], y[:0]}, 0},
		{"on a line", true, [][]float32{x, y}, 0},
		{"one after it", true, [][]float32{x[17:], y[1:48]}, 15},
		{"one before it", true, [][]float32{x[15:], y[15:]}, 1},
		{"no line", true, [][]float32{x[1:9]}, 8},
		{"at different places", true, [][]float32{x[1:33], y[2:34]}, 32},
	} {
		if got := c.stream.head(c.results...); got != c.want {
			t.Errorf("%s: %d elements are not streamed, want %d", c.name, got, c.want)
		}
	}
}
