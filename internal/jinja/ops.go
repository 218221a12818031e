package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

var (
	errTooLarge = errors.New("the result is too large for an integer")
	errZero     = errors.New("division by zero")
)

// binary is left op right for the operators of arithmetic.
func (r *run) binary(op string, left, right any) (any, error) {
	for _, v := range []any{left, right} {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
	}
	if v, done, err := r.joined(op, left, right); done {
		return v, err
	}
	a, aInt := integer(left)
	b, bInt := integer(right)
	if aInt && bInt && op != "/" {
		return intOp(op, a, b)
	}
	x, xNumber := number(left)
	y, yNumber := number(right)
	if xNumber && yNumber {
		return floatOp(op, x, y)
	}
	return nil, operandError(op, left, right)
}

func operandError(op string, left, right any) error {
	if _, ok := left.(jsonInt); ok {
		return errTooLarge
	}
	if _, ok := left.(string); ok && op == "+" {
		return fmt.Errorf(`can only concatenate str (not "%s") to str`, TypeName(right))
	}
	return fmt.Errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(left), TypeName(right))
}

// joined does the operators of strings and lists: +, * and %. It tells whether the
// operands were such.
func (r *run) joined(op string, left, right any) (v any, done bool, err error) {
	switch op {
	case "+":
		return r.add(left, right)
	case "*":
		if n, ok := integer(right); ok {
			return r.repeat(left, n)
		}
		if n, ok := integer(left); ok {
			return r.repeat(right, n)
		}
	case "%":
		if format, ok := text(left); ok {
			s, err := r.percent(format, right)
			return keepMarkup(left, s), true, err
		}
	}
	return nil, false, nil
}

func (r *run) add(left, right any) (v any, done bool, err error) {
	switch a := left.(type) {
	case string, markup:
		s, ok := text(left)
		t, ok2 := text(right)
		if !ok || !ok2 {
			return nil, false, nil
		}
		s, t, safe := bothSafe(left, right, s, t)
		if err := r.charge(len(s) + len(t)); err != nil {
			return nil, true, err
		}
		if safe {
			return markup(s + t), true, nil
		}
		return s + t, true, nil
	case []any:
		if b, ok := right.([]any); ok {
			v, err = r.madeItems(slices.Concat(a, b))
			return v, true, err
		}
	case Tuple:
		if b, ok := right.(Tuple); ok {
			return slices.Concat(a, b), true, r.chargeItems(len(a) + len(b))
		}
	}
	return nil, false, nil
}

// bothSafe escapes the plain one of two strings if the other is markup.
func bothSafe(left, right any, s, t string) (string, string, bool) {
	_, leftSafe := left.(markup)
	_, rightSafe := right.(markup)
	switch {
	case leftSafe && !rightSafe:
		t = escapeHTML(t)
	case rightSafe && !leftSafe:
		s = escapeHTML(s)
	}
	return s, t, leftSafe || rightSafe
}

func (r *run) repeat(v any, n int64) (out any, done bool, err error) {
	n = max(n, 0)
	if s, ok := text(v); ok {
		if len(s) > 0 && n > maxBytes/int64(len(s)) {
			return nil, true, errBytes
		}
		if len(s) == 0 {
			return v, true, nil
		}
		err := r.charge(len(s) * int(n))
		if err != nil {
			return nil, true, err
		}
		return keepMarkup(v, strings.Repeat(s, int(n))), true, nil
	}
	items, ok := sequence(v)
	if !ok {
		return nil, false, nil
	}
	if len(items) > 0 && n > maxBytes/16/int64(len(items)) {
		return nil, true, errBytes
	}
	if len(items) == 0 {
		return v, true, nil
	}
	if err := r.chargeItems(len(items) * int(n)); err != nil {
		return nil, true, err
	}
	items = slices.Repeat(items, int(n))
	if _, ok := v.(Tuple); ok {
		return Tuple(items), true, nil
	}
	return items, true, nil
}

func intOp(op string, a, b int64) (any, error) {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, errTooLarge
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, errTooLarge
	case "*":
		return multiply(a, b)
	case "**":
		return power(a, b)
	}
	if b == 0 {
		return nil, errZero
	}
	if a == math.MinInt64 && b == -1 {
		return nil, errTooLarge
	}
	quotient, rest := a/b, a%b
	if rest != 0 && (rest < 0) != (b < 0) { // Python rounds down, not towards zero
		quotient, rest = quotient-1, rest+b
	}
	if op == "%" {
		return rest, nil
	}
	return quotient, nil
}

func multiply(a, b int64) (any, error) {
	c := a * b
	if a != 0 && (c/a != b || a == -1 && b == math.MinInt64) {
		return nil, errTooLarge
	}
	return c, nil
}

func power(a, b int64) (any, error) {
	if b < 0 {
		return floatOp("**", float64(a), float64(b))
	}
	if f := math.Pow(float64(a), float64(b)); math.Abs(f) >= 1<<63 {
		return nil, errTooLarge
	}
	if a == 0 || a == 1 || a == -1 {
		b = b%2 + 2*min(b/2, 1) // even and odd are all that matters
	}
	result := int64(1)
	for range b {
		result *= a
	}
	return result, nil
}

func floatOp(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		if x == 0 && y < 0 {
			return nil, errors.New("0.0 cannot be raised to a negative power")
		}
		return math.Pow(x, y), nil
	}
	if y == 0 {
		return nil, errZero
	}
	if op == "/" {
		return x / y, nil
	}
	rest := math.Mod(x, y)
	if rest != 0 && (rest < 0) != (y < 0) {
		rest += y
	}
	if op == "%" {
		return rest, nil
	}
	return math.Round((x - rest) / y), nil
}

func sign(v any, negative bool) (any, error) {
	if n, ok := integer(v); ok {
		if negative {
			if n == math.MinInt64 {
				return nil, errTooLarge
			}
			n = -n
		}
		return n, nil
	}
	if f, ok := v.(float64); ok {
		if negative {
			f = -f
		}
		return f, nil
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	return nil, fmt.Errorf("bad operand type for a sign: '%s'", TypeName(v))
}
