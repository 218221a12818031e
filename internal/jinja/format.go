package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is how a value is to be formatted, of both ways that Python has: %5.2f and
// "{:5.2f}".
type spec struct {
	fill      string
	align     byte // < > ^ =, or 0 for the type's own
	sign      byte // + or space, or 0
	alternate bool // 0x before hexadecimal digits
	comma     byte // , or _ between thousands, or 0
	width     int64
	precision int // -1 is none
	verb      byte
}

// maxDigits bounds the precision of a number, and widths are charged as text.
const maxDigits = 400

// formatted writes v as the spec says.
func (r *run) formatted(v any, f spec) (string, error) {
	if f.precision > maxDigits && f.verb != 's' && f.verb != 0 {
		return "", fmt.Errorf("a precision of %d; at most %d", f.precision, maxDigits)
	}
	s, isNumber, err := r.formatBody(v, &f)
	if err != nil {
		return "", err
	}
	align := f.align
	if align == 0 {
		align = '<'
		if isNumber {
			align = '>'
		}
	}
	if align == '=' {
		return r.padAfterSign(s, f)
	}
	return r.pad(s, f.fill, f.width, func(gap, _ int) int {
		switch align {
		case '<':
			return 0
		case '^':
			return gap / 2
		}
		return gap
	})
}

func (r *run) padAfterSign(s string, f spec) (string, error) {
	n := len(s) - len(strings.TrimLeft(s, "+- "))
	padded, err := r.pad(s[n:], f.fill, f.width-int64(n), func(gap, _ int) int { return gap })
	return s[:n] + padded, err
}

// formatBody writes v without padding, and tells whether it is a number.
func (r *run) formatBody(v any, f *spec) (s string, isNumber bool, err error) {
	n, isInt := integer(v)
	x, isNum := number(v)
	_, isBool := v.(bool)
	switch {
	case f.verb == 's' || f.verb == 0 && (!isNum || isBool && f.width == 0):
		s, err := r.str(v)
		if f.precision >= 0 && utf8.RuneCountInString(s) > f.precision {
			s = s[:byteOffset(s, int64(f.precision))]
		}
		return s, false, err
	case !isNum:
		return "", false, fmt.Errorf("unknown format code '%c' for a value of type '%s'", f.verb, TypeName(v))
	case isInt && (f.verb == 0 || strings.IndexByte("dibcoxX", f.verb) >= 0):
		return f.intBody(n), true, nil
	case f.verb == 'c' || f.verb == 'x' || f.verb == 'X' || f.verb == 'o' || f.verb == 'b' || f.verb == 'd':
		return "", false, fmt.Errorf("format code '%c' wants an integer, not %s", f.verb, TypeName(v))
	}
	return f.floatBody(x), true, nil
}

func (f *spec) intBody(n int64) string {
	bases := map[byte]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}
	if f.verb == 'c' {
		return string(rune(n))
	}
	base, ok := bases[f.verb]
	if !ok {
		return f.signed(f.grouped(strconv.FormatInt(n, 10)))
	}
	s := strconv.FormatInt(n, base)
	if f.alternate {
		prefix := "0" + strings.ToLower(string(f.verb))
		if strings.HasPrefix(s, "-") {
			s = "-" + prefix + s[1:]
		} else {
			s = prefix + s
		}
	}
	if f.verb == 'X' {
		s = strings.ToUpper(s)
	}
	return f.signed(s)
}

func (f *spec) floatBody(x float64) string {
	precision, verb := f.precision, f.verb
	if verb == 0 && precision < 0 {
		return f.signed(f.grouped(floatRepr(x)))
	}
	if precision < 0 {
		precision = 6
	}
	switch verb {
	case '%':
		return f.signed(f.grouped(strconv.FormatFloat(100*x, 'f', precision, 64)) + "%")
	case 'f', 'F':
		return f.signed(f.grouped(strconv.FormatFloat(x, 'f', precision, 64)))
	case 'e', 'E':
		return f.signed(strconv.FormatFloat(x, verb, precision, 64))
	case 'i', 'd':
		return f.signed(f.grouped(strconv.FormatFloat(x, 'f', 0, 64)))
	}
	return f.signed(f.general(x, max(precision, 1)))
}

// general is the format g: an exponent only for what is very small or does not fit the
// precision, and no zeros at the end.
func (f *spec) general(x float64, precision int) string {
	e := strconv.FormatFloat(x, 'e', precision-1, 64)
	mantissa, exponent, ok := strings.Cut(e, "e")
	power, err := strconv.Atoi(exponent)
	if !ok || err != nil {
		return e
	}
	trim := func(s string) string {
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	if power < -4 || power >= precision {
		return trim(mantissa) + "e" + exponent
	}
	return f.grouped(trim(strconv.FormatFloat(x, 'f', precision-1-power, 64)))
}

func (f *spec) signed(s string) string {
	if f.sign != 0 && !strings.HasPrefix(s, "-") {
		return string(f.sign) + s
	}
	return s
}

// grouped puts the separator between the thousands of a number.
func (f *spec) grouped(s string) string {
	if f.comma == 0 {
		return s
	}
	first := len(s) - len(strings.TrimLeft(s, "-"))
	end := strings.IndexAny(s, ".e")
	if end < 0 {
		end = len(s)
	}
	for i := end - 3; i > first; i -= 3 {
		s = s[:i] + string(f.comma) + s[i:]
	}
	return s
}

// digits reads the number that begins at s[i], and returns where it ends. A number too
// large for any text becomes one that is just too large.
func digits(s string, i int, instead int64) (int64, int) {
	start := i
	n := int64(0)
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		n = min(10*n+int64(s[i]-'0'), maxBytes+1)
	}
	if i == start {
		return instead, i
	}
	return n, i
}
