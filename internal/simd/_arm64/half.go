package main

// halves emits the conversions of numbers of 16 and of 8 bits.
func halves() []*function {
	const wide, narrow16 = "func(dst []float32, src []uint16)", "func(dst []uint16, src []float32)"
	names := []string{"dst", "src"}
	convert := func(name, signature, format string) *loop {
		return begin(name, signature, names, "for i := range dst {", "	dst[i] = "+format+"(src[i])", "}")
	}
	var all []*function
	l := convert("fromBFloat16", wide, "float32")
	l.run(4, func(int) {
		r := l.load("src")
		l.do(shll16, r, r)
		l.store(r, "dst")
	})
	all = append(all, l.end())

	l = convert("fromFloat16", wide, "float32")
	l.run(4, func(int) {
		r := l.load("src")
		l.do(widen, r, r)
		l.store(r, "dst")
	})
	all = append(all, l.end())

	l = convert("toBFloat16", narrow16, "bfloat16")
	for _, u := range []uint32{1, 0x7fff, quiet, infinity << 1} {
		l.bits(u)
	}
	l.run(4, func(int) { l.store(l.roundBFloat16(l.load("src")), "dst") })
	all = append(all, l.end())

	l = convert("toFloat16", narrow16, "float16")
	l.run(4, func(int) {
		r := l.load("src")
		l.do(narrow, r, r)
		l.store(r, "dst")
	})
	return append(all, l.end(), fromInt8())
}

const (
	infinity = 0x7f800000 // the bits of a NaN, without the sign, are more than these
	quiet    = 0x00400000 // a bit of a NaN that does not raise exceptions
)

// roundBFloat16 rounds to nearest even and joins the upper halves of lanes: it adds just
// under half a unit, or half of one if the last bit that stays is odd. A NaN gets its
// quiet bit instead, since adding could make it infinite.
func (l *loop) roundBFloat16(x vec) vec {
	u, unsigned := l.vec(), l.vec()
	l.do(ushr(16), u, x)
	l.do(and, u, u, l.bits(1))
	l.do(add, u, u, l.bits(0x7fff))
	l.do(add, u, u, x)
	l.do(shl(1), unsigned, x)
	l.do(cmhi, unsigned, unsigned, l.bits(infinity<<1))
	l.do(orr, x, x, l.bits(quiet))
	l.do(bit, u, x, unsigned)
	l.do(shrn16, u, u)
	return u
}

func fromInt8() *function {
	l := begin("fromInt8", "func(dst []float32, src []int8, scale float32)", []string{"dst", "src"},
		"for i := range dst {", "	dst[i] = scale * float32(src[i])", "}")
	scale := l.scalar("scale")
	l.run(4, func(int) {
		r := l.load("src")
		if !l.single {
			l.do(sxtl8, r, r)
			l.do(sxtl16, r, r)
		}
		l.do(scvtf, r, r)
		l.do(fmul, r, scale, r)
		l.store(r, "dst")
	})
	return l.end()
}
