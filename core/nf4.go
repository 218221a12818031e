package core

// NF4Values are the numbers that NF4 has, by their codes: quantiles of a normal distribution, scaled to -1..1, with 0
// among them. (NormalFloat: Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023, appendix E.)
var NF4Values = [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
	-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
	0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}

// What a matrix in NF4 is cut into.
const (
	NF4Block  = 64  // elements that are multiplied by one number, their absmax
	NF4Nested = 256 // absmax, themselves codes, that are multiplied by one number
	nf4Map    = 256 // what the code of an absmax stands for
)

// NF4Sizes returns what there is beside a matrix of so many elements in NF4, whose blocks go on from row to row: how
// many blocks, each with a code of int8 for its absmax, and how many numbers these codes are made of: the 256 values of a
// map, whose index is the bits of the code, the mean, and a scale for every NF4Nested blocks. Then
// absmax = map[code] * scale + mean in float32, and an element is NF4Values[its code] * absmax.
func NF4Sizes(elems int) (blocks, scales int) {
	blocks = (elems + NF4Block - 1) / NF4Block
	return blocks, nf4Map + 1 + (blocks+NF4Nested-1)/NF4Nested
}

// nf4Code returns the code of the nearest number, in the middle between two the lower.
func nf4Code(v float32) (code byte) {
	for code < 15 && v > (NF4Values[code]+NF4Values[code+1])/2 {
		code++
	}
	return code
}
