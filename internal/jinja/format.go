package jinja

import (
	"errors"
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

// percent is format % values, with values a tuple, a dict, or a single value.
func (r *run) percent(format string, values any) (string, error) {
	list, isTuple := values.(Tuple)
	if !isTuple {
		list = Tuple{values}
	}
	dict, _ := values.(*Dict)
	var b strings.Builder
	used := 0
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 || r.charge(i) != nil {
			break
		}
		b.WriteString(format[:i])
		f, key, size, err := parsePercent(format[i:])
		if err != nil {
			return "", err
		}
		format = format[i+size:]
		if f.verb == '%' {
			b.WriteByte('%')
			continue
		}
		v, err := pick(list, dict, key, &used)
		if err != nil {
			return "", err
		}
		s, err := r.percentValue(v, f)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	if dict == nil && used < len(list) {
		return "", errors.New("not all arguments converted during string formatting")
	}
	b.WriteString(format)
	return b.String(), r.charge(len(format))
}

// pick returns the value for one directive: that of its key, or the next of the list.
func pick(list Tuple, dict *Dict, key *string, used *int) (any, error) {
	if key != nil {
		if dict == nil {
			return nil, errors.New("format requires a mapping")
		}
		v, ok := dict.Get(*key)
		if !ok {
			return nil, fmt.Errorf("the format has no value for %q", *key)
		}
		return v, nil
	}
	if *used >= len(list) {
		return nil, errors.New("not enough arguments for format string")
	}
	*used++
	return list[*used-1], nil
}

func (r *run) percentValue(v any, f spec) (string, error) {
	switch f.verb {
	case 'r', 'a':
		s, err := r.repr(v)
		if err != nil {
			return "", err
		}
		f.verb, v = 's', s
	case 'd', 'i', 'u':
		f.verb = 'd'
		if x, ok := v.(float64); ok {
			f.verb, f.precision, v = 'f', 0, float64(int64(x))
		}
	}
	if f.align == 0 {
		f.align = '>'
	}
	return r.formatted(v, f)
}

// parsePercent reads one directive: %(key)flags width .precision verb.
func parsePercent(s string) (f spec, key *string, size int, err error) {
	f = spec{fill: " ", precision: -1}
	i := 1
	if strings.HasPrefix(s[i:], "(") {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return f, nil, 0, errors.New("incomplete format key")
		}
		word := s[i+1 : end]
		key, i = &word, end+1
	}
	for ; i < len(s) && strings.IndexByte("-+ #0", s[i]) >= 0; i++ {
		switch s[i] {
		case '-':
			f.align = '<'
		case '+', ' ':
			f.sign = s[i]
		case '#':
			f.alternate = true
		case '0':
			if f.align == 0 {
				f.align, f.fill = '=', "0"
			}
		}
	}
	f.width, i = digits(s, i, 0)
	if i < len(s) && s[i] == '.' {
		var p int64
		p, i = digits(s, i+1, 0)
		f.precision = int(p)
	}
	if i >= len(s) {
		return f, nil, 0, errors.New("incomplete format")
	}
	f.verb = s[i]
	if strings.IndexByte("sradiufFeEgGxXoc%", f.verb) < 0 {
		return f, nil, 0, fmt.Errorf("unsupported format character '%c'", f.verb)
	}
	if f.align == '=' && strings.IndexByte("sra", f.verb) >= 0 {
		f.align, f.fill = '>', " "
	}
	return f, key, i + 1, nil
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

// formatMethod is "...{}...".format(...).
func formatMethod(r *run, a args) (any, error) {
	format, _ := text(a.values[0])
	f := formatter{run: r, values: a.values[1:], named: new(Dict)}
	for _, n := range a.named {
		f.named.Set(n.name, n.value)
	}
	s, err := f.expand(format, 2)
	return keepMarkup(a.values[0], s), err
}

type formatter struct {
	*run
	values []any
	named  *Dict
	auto   int64
}

// expand replaces the fields of a format; a field's own format may have fields again, once.
func (f *formatter) expand(format string, levels int) (string, error) {
	if levels == 0 {
		return "", errors.New("max string recursion exceeded")
	}
	var b strings.Builder
	for format != "" {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			i = len(format)
		}
		b.WriteString(format[:i])
		if err := f.charge(i); err != nil {
			return "", err
		}
		if format = format[i:]; format == "" {
			break
		}
		if len(format) > 1 && format[1] == format[0] {
			b.WriteByte(format[0])
			format = format[2:]
			continue
		}
		size := fieldSize(format)
		if format[0] == '}' || size == 0 {
			return "", errors.New("single '{' or '}' in a format string")
		}
		s, err := f.field(format[1:size-1], levels)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
		format = format[size:]
	}
	return b.String(), nil
}

// fieldSize is the length of the field that s begins with, or 0 if it does not end.
func fieldSize(s string) int {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// field formats name!conversion:spec.
func (f *formatter) field(field string, levels int) (string, error) {
	name, format, _ := strings.Cut(field, ":")
	name, conversion, _ := strings.Cut(name, "!")
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	switch conversion {
	case "r", "a":
		v, err = f.repr(v)
	case "s":
		v, err = f.str(v)
	}
	if err != nil {
		return "", err
	}
	if strings.Contains(format, "{") {
		if format, err = f.expand(format, levels-1); err != nil {
			return "", err
		}
	}
	parsed, err := parseSpec(format)
	if err != nil {
		return "", err
	}
	return f.formatted(v, parsed)
}

// lookup finds the value of a field: a number or a name, then .attributes and [items].
func (f *formatter) lookup(name string) (any, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.argument(name[:end])
	rest := name[end:]
	for err == nil && rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			v, err = f.attribute(v, rest[1:end])
			rest = rest[end:]
			continue
		}
		key, after, ok := strings.Cut(rest[1:], "]")
		if !ok {
			return nil, errors.New("missing ']' in a format string")
		}
		v, err = f.item(v, fieldKey(key))
		rest = after
	}
	return v, err
}

func fieldKey(s string) any {
	if n, i := digits(s, 0, 0); s != "" && i == len(s) {
		return n
	}
	return s
}

func (f *formatter) argument(name string) (any, error) {
	key := fieldKey(name)
	if name == "" {
		key = f.auto
		f.auto++
	}
	if i, ok := key.(int64); ok {
		if i >= int64(len(f.values)) {
			return nil, fmt.Errorf("replacement index %d out of range for positional args", i)
		}
		return f.values[i], nil
	}
	v, ok := f.named.Get(name)
	if !ok {
		return nil, fmt.Errorf("the format has no value for %q", name)
	}
	return v, nil
}

// parseSpec reads [[fill]align][sign][#][0][width][,][.precision][verb].
func parseSpec(s string) (spec, error) {
	f := spec{fill: " ", precision: -1}
	whole := s
	if _, size := utf8.DecodeRuneInString(s); size > 0 && len(s) > size && strings.IndexByte("<>^=", s[size]) >= 0 {
		f.fill, f.align, s = s[:size], s[size], s[size+1:]
	} else if s != "" && strings.IndexByte("<>^=", s[0]) >= 0 {
		f.align, s = s[0], s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		if s[0] != '-' {
			f.sign = s[0]
		}
		s = s[1:]
	}
	if strings.HasPrefix(s, "#") {
		f.alternate, s = true, s[1:]
	}
	if strings.HasPrefix(s, "0") && f.align == 0 {
		f.fill, f.align = "0", '='
	}
	i := 0
	f.width, i = digits(s, 0, 0)
	if s = s[i:]; s != "" && (s[0] == ',' || s[0] == '_') {
		f.comma, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, ".") {
		p, i := digits(s, 1, -1)
		f.precision, s = int(p), s[i:]
	}
	if len(s) == 1 {
		f.verb, s = s[0], ""
	}
	if s != "" || f.verb != 0 && strings.IndexByte("sdfFeEgGxXobc%n", f.verb) < 0 {
		return f, fmt.Errorf("invalid format specifier '%s'", whole)
	}
	return f, nil
}
