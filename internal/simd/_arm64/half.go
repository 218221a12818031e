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
	one, most, quiet := l.bits(1), l.bits(0x7fff), l.bits(0x40)
	l.run(4, func(int) { l.store(l.roundBFloat16(l.load("src"), one, most, quiet), "dst") })
	all = append(all, l.end())

	l = convert("toFloat16", narrow16, "float16")
	l.run(4, func(int) {
		r := l.load("src")
		l.do(narrow, r, r)
		l.store(r, "dst")
	})
	return append(all, l.end(), fromInt8())
}

// roundBFloat16 rounds to nearest even into the lower halves of lanes, and joins these:
// it adds just under half a unit, or half of one if the last bit that stays is odd. A NaN
// gets its quiet bit instead, since adding could make it infinite.
func (l *loop) roundBFloat16(x, one, most, quiet vec) vec {
	high, u, number := l.vec(), l.vec(), l.vec()
	l.do(ushr(16), high, x)
	l.do(and, u, high, one)
	l.do(add, u, u, most)
	l.do(add, u, u, x)
	l.do(ushr(16), u, u)
	l.do(orr, high, high, quiet)
	l.do(fcmeq, number, x, x)
	l.do(bif, u, high, number)
	l.do(xtn, u, u)
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
