package simd

import "math"

// What NF4 is cut into.
const (
	// NF4Block is how many elements are multiplied by one number, their absmax.
	NF4Block = 64
	// NF4Nested is how many absmax have one scale.
	NF4Nested = 256
	nf4Map    = 256 // values that an absmax may be a code of
)

// NF4 is matrices of one size, side by side, as codes of core.NF4Values. Blocks of elements, which go on from row to
// row, have an absmax each, that is a code as well: absmax = map[code] * scale + mean, where the blocks of a matrix
// have one mean, and NF4Nested of them a scale. (QLoRA's double quantisation.)
type NF4 struct {
	Codes  []byte // two to a byte, the first in the high half
	Absmax []int8 // the code of each block, whose bits are an index of the map
	// Scale is the map, then for each matrix its mean and its scales.
	Scale    []float32
	Matrices int
}

// NF4Blocks returns how many blocks a matrix of so many elements has.
func NF4Blocks(elems int) int { return ceilDiv(elems, NF4Block) }

// NF4Scales returns the length of Scale for matrices of so many elements each.
func NF4Scales(matrices, elems int) int {
	return nf4Map + matrices*(1+ceilDiv(NF4Blocks(elems), NF4Nested))
}

// LinearNF4Map makes the map that of whole numbers, which are their own codes.
func LinearNF4Map(scale []float32) {
	for i := range nf4Map {
		scale[i] = float32(int8(i))
	}
}

// of returns the mean and the scales of a matrix.
func (q *NF4) of(matrix int) []float32 {
	each := (len(q.Scale) - nf4Map) / q.Matrices
	return q.Scale[nf4Map+matrix*each:][:each]
}

// absmax returns what the elements of a block are multiplied by.
func (q *NF4) absmax(block int) float32 {
	each := len(q.Absmax) / q.Matrices
	nested := q.of(block / each)
	return float32(q.Scale[uint8(q.Absmax[block])]*nested[1+block%each/NF4Nested]) + nested[0]
}

// Load writes elements [from, from+len(dst)) to dst. It may be called from several goroutines.
func (q *NF4) Load(dst []float32, from int) {
	for len(dst) > 0 {
		n := min(NF4Block-from%NF4Block, len(dst))
		q.loadBlock(dst[:n], from)
		dst, from = dst[n:], from+n
	}
}

// loadBlock is Load of elements of one block.
func (q *NF4) loadBlock(dst []float32, from int) {
	absmax := q.absmax(from / NF4Block)
	if from%2 > 0 { // the second of its byte
		dst[0] = nf4Values[q.Codes[from/2]&15] * absmax
		dst, from = dst[1:], from+1
	}
	whole := len(dst) &^ 1
	codes := q.Codes[from/2:]
	if whole > 0 {
		active.fromNF4(dst[:whole], codes[:whole/2], absmax)
	}
	if len(dst) > whole {
		dst[whole] = nf4Values[codes[whole/2]>>4] * absmax
	}
}

// nf4Values are core.NF4Values.
var nf4Values = [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
	-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
	0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}

// fromNF4Generic widens pairs: dst is twice as long as src.
func fromNF4Generic(dst []float32, src []byte, absmax float32) {
	dst = dst[:2*len(src)]
	for i, b := range src {
		dst[2*i], dst[2*i+1] = nf4Values[b>>4]*absmax, nf4Values[b&15]*absmax
	}
}

// Quantise writes a matrix, whose elements load gives in blocks that begin at from, on several threads. The map must
// be there. Of a block, each element becomes the nearest of the values times the largest magnitude, in the middle
// between two the lower. What is not finite makes all of the matrix so, and is found where the weights are used.
func (q *NF4) Quantise(matrix, elems int, load func(dst []float32, from int)) {
	blocks := NF4Blocks(elems)
	absmax := make([]float32, blocks)
	first := matrix * blocks
	Parallel(blocks, 1<<8, func(lo, hi int) {
		var room [NF4Block]float32
		for b := lo; b < hi; b++ {
			v := room[:min(NF4Block, elems-b*NF4Block)]
			load(v, b*NF4Block)
			absmax[b] = nf4Block(q.Codes[(first+b)*NF4Block/2:], v)
		}
	})
	quantiseAbsmax(q.Absmax[first:][:blocks], q.of(matrix), absmax)
}

// nf4Block writes the codes of a block and returns its absmax.
func nf4Block(codes []byte, v []float32) (absmax float32) {
	for _, x := range v {
		absmax = max(absmax, float32(math.Abs(float64(x)))) // which keeps a NaN
	}
	divisor := absmax
	if divisor == 0 {
		divisor = 1
	}
	for i := 0; i < len(v); i += 2 {
		b := nf4Code(v[i]/divisor) << 4
		if i+1 < len(v) {
			b |= nf4Code(v[i+1] / divisor)
		}
		codes[i/2] = b
	}
	return absmax
}

// nf4Code returns the nearest value's code: how many of the middles are below v, which is in -1..1, or NaN.
func nf4Code(v float32) byte {
	if !(v >= -1) {
		return 0
	}
	code := nf4Cells[int((v+1)*nf4PerUnit)]
	if v > nf4Middles[code] {
		code++
	}
	return code
}

const nf4PerUnit = 32 // cells between 0 and 1, no two neighbours of which have more than one middle

var (
	// nf4Middles are halfway between two values; after the last there is none.
	nf4Middles = func() (m [16]float32) {
		for i := range 15 {
			m[i] = (nf4Values[i] + nf4Values[i+1]) / 2
		}
		m[15] = float32(math.Inf(1))
		return m
	}()
	// nf4Cells has, for each part of -1..1, how many middles are below all that may be rounded into it.
	nf4Cells = func() (cells [2*nf4PerUnit + 1]byte) {
		for c := range cells {
			for cells[c] < 15 && nf4Middles[cells[c]] < (float32(c)-0.01)/nf4PerUnit-1 {
				cells[c]++
			}
		}
		return cells
	}()
)

// quantiseAbsmax writes the codes of a matrix's absmax, and their mean and scales.
func quantiseAbsmax(codes []int8, nested, absmax []float32) {
	sum := 0.0
	for _, a := range absmax {
		sum += float64(a)
	}
	mean := float32(sum / float64(len(absmax)))
	nested[0] = mean
	for at := 0; at < len(absmax); at += NF4Nested {
		part := absmax[at:min(at+NF4Nested, len(absmax))]
		var high float32
		for _, a := range part {
			high = max(high, float32(math.Abs(float64(a-mean))))
		}
		scale := high / math.MaxInt8
		if scale == 0 {
			scale = 1
		}
		nested[1+at/NF4Nested] = scale
		for i, a := range part {
			codes[at+i] = 0
			if scale > 0 {
				codes[at+i] = int8(min(math.MaxInt8, max(-math.MaxInt8, math.RoundToEven(float64((a-mean)/scale)))))
			}
		}
	}
}
