package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"strings"
)

// function is a function in the making. Its registers are handed out in order and never
// moved: those that a part of it needs only for itself are given back with release.
type function struct {
	name, signature string
	doc             []string
	body            strings.Builder
	offset          map[string]int // of the parameters and the result, "ret"
	element         map[string]int // bytes of an element of a slice
	frame           int            // bytes of all of them
	ints            int
	vectors         vec
}

// newFunction begins a function; its name gets the ending that says what it is made of.
func newFunction(name, signature string, doc ...string) *function {
	f := &function{name: name + "NEON", signature: signature, doc: doc, offset: map[string]int{},
		element: map[string]int{}}
	e, err := parser.ParseExpr(signature)
	if err != nil {
		panic(err)
	}
	t := e.(*ast.FuncType)
	for _, p := range t.Params.List {
		for _, n := range p.Names {
			f.place(n.Name, p.Type)
		}
	}
	if t.Results != nil {
		f.frame = (f.frame + 7) &^ 7
		f.place("ret", t.Results.List[0].Type)
	}
	return f
}

// place gives a parameter the next place that fits it.
func (f *function) place(name string, t ast.Expr) {
	sizes := map[string]int{"int": 8, "float32": 4, "float64": 8, "bool": 1, "int8": 1, "uint16": 2}
	size, boundary := 8, 8
	switch t := t.(type) {
	case *ast.Ident:
		size = sizes[t.Name]
		boundary = size
	case *ast.ArrayType:
		size = 24
		f.element[name] = sizes[t.Elt.(*ast.Ident).Name]
	}
	f.frame = (f.frame + boundary - 1) / boundary * boundary
	f.offset[name] = f.frame
	f.frame += size
}

// assembly returns the text of the function for the assembler.
func (f *function) assembly() string {
	return fmt.Sprintf("\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n%s", f.name, f.signature[len("func"):], f.name,
		f.frame, f.body.String())
}

// stub returns its declaration.
func (f *function) stub() string {
	var s strings.Builder
	fmt.Fprintf(&s, "\n// %s %s\n//\n", f.name, f.doc[0])
	for _, line := range f.doc[1:] {
		fmt.Fprintf(&s, "//\t%s\n", line)
	}
	fmt.Fprintf(&s, "//\n//go:noescape\nfunc %s%s\n", f.name, f.signature[len("func"):])
	return s.String()
}

// do emits an instruction on vectors, the result first.
func (f *function) do(e encoding, regs ...vec) {
	word, text := e.encode(regs...)
	fmt.Fprintf(&f.body, "\tWORD $0x%08x // %s\n", word, text)
}

// ins emits an instruction that Go's assembler knows.
func (f *function) ins(name string, operands ...any) {
	var text []string
	for _, o := range operands {
		text = append(text, fmt.Sprint(o))
	}
	fmt.Fprintf(&f.body, "\t%s %s\n", name, strings.Join(text, ", "))
}

func (f *function) label(name string) { fmt.Fprintf(&f.body, "\n%s:\n", name) }

// ret emits the return.
func (f *function) ret() { fmt.Fprint(&f.body, "\tRET\n") }

// int returns a new integer register. R16 to R18 and those from R26 on have other uses.
func (f *function) int() string {
	n := f.ints
	if n >= 16 {
		n += 3
	}
	if n > 25 {
		panic(f.name + " has too few integer registers")
	}
	f.ints++
	return fmt.Sprintf("R%d", n)
}

// vec returns a new vector register.
func (f *function) vec() vec {
	if f.vectors > 31 {
		panic(f.name + " has too few vector registers")
	}
	f.vectors++
	return f.vectors - 1
}

// vecs returns new vector registers.
func (f *function) vecs(n int) []vec {
	r := make([]vec, n)
	for i := range r {
		r[i] = f.vec()
	}
	return r
}

// release gives back the registers that were handed out after mark, an earlier value of
// f.vectors.
func (f *function) release(mark vec) { f.vectors = mark }

// place of a parameter, or of a part of it such as "_base".
func (f *function) at(name, part string) string {
	offset := f.offset[name]
	if part == "_len" {
		offset += 8
	}
	return fmt.Sprintf("%s%s+%d(FP)", name, part, offset)
}

// param returns a parameter of eight bytes in a register.
func (f *function) param(name string) string { return f.load64(f.at(name, "")) }

// bytes returns a distance that is given in elements of four bytes.
func (f *function) bytes(name string) string {
	r := f.param(name)
	f.ins("LSL", "$2", r)
	return r
}

func (f *function) load64(from string) string {
	r := f.int()
	f.ins("MOVD", from, r)
	return r
}

// zero clears a vector.
func (f *function) zero(r vec) { f.ins("VEOR", b16(r), b16(r), b16(r)) }

// move copies a vector.
func (f *function) move(to, from vec) { f.ins("VMOV", b16(from), b16(to)) }

// b16 names a register as Go's bitwise instructions want it.
func b16(r vec) string { return fmt.Sprintf("V%d.B16", uint32(r)) }

// list names registers as the instructions for several want them.
func list(regs ...vec) string {
	var names []string
	for _, r := range regs {
		names = append(names, r.String())
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// mem is memory at a register.
func mem(offset int, base string) string { return fmt.Sprintf("%d(%s)", offset, base) }
