package jinja

import (
	"errors"
	"math"
	"slices"
	"strings"
)

var (
	errTooLarge = errors.New("the result is too large for a number")
	errZero     = errors.New("division by zero")
)

// binary is left op right for the operators of arithmetic. Of strings there are sums and
// products, of lists sums. Unlike ~, a + of a string and anything else is an error, as in Python.
func (r *run) binary(op string, left, right any) any {
	mustExist(left)
	mustExist(right)
	s, isText := left.(string)
	t, isText2 := right.(string)
	a, aInt := integer(left)
	b, bInt := integer(right)
	x, xNumber := number(left)
	y, yNumber := number(right)
	switch {
	case isText && op == "%":
		panic(failed("%s", notRendered("the operator", op)))
	case isText && isText2 && op == "+":
		return s + t
	case isText && bInt && op == "*":
		return r.repeat(s, b)
	case aInt && isText2 && op == "*":
		return r.repeat(t, a)
	case aInt && bInt && op != "/":
		return intOp(op, a, b)
	case xNumber && yNumber:
		return floatOp(op, x, y)
	}
	list, isList := left.([]any)
	other, isList2 := right.([]any)
	if isList && isList2 && op == "+" {
		return slices.Concat(list, other)
	}
	panic(failure{operandError(op, left, right)})
}

// repeat is n times a string, and empty for a negative n.
func (r *run) repeat(s string, n int64) string {
	if n <= 0 || s == "" {
		return ""
	}
	r.chargeTimes(n, len(s))
	return strings.Repeat(s, int(n))
}

// operandError says why there is no result. Text plus a number is the mistake that
// templates make most, where a message has null or a number for its content.
func operandError(op string, left, right any) error {
	if _, ok := left.(jsonInt); ok {
		return errTooLarge
	}
	if _, ok := left.(string); ok && op == "+" {
		return failed(`can only concatenate str (not "%s") to str; write ~, or |string after the other`, TypeName(right)).err
	}
	return failed("unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(left), TypeName(right)).err
}

// intOp computes with integers. Python's have no largest one: a result near int64's
// is an error here, found in floats, which do not overflow but may be off by a little.
func intOp(op string, a, b int64) any {
	x, y := float64(a), float64(b)
	var result int64
	var size float64
	switch op {
	case "+":
		result, size = a+b, x+y
	case "-":
		result, size = a-b, x-y
	case "*":
		result, size = a*b, x*y
	default:
		if b == 0 {
			panic(failure{errZero})
		}
		if a == math.MinInt64 {
			panic(failure{errTooLarge})
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) { // Python rounds down, not towards zero
			quotient, rest = quotient-1, rest+b
		}
		if op == "%" {
			return rest
		}
		return quotient
	}
	if math.Abs(size) > 1<<63-1<<13 {
		panic(failure{errTooLarge})
	}
	return result
}

// floatOp computes with floats. As in Python a remainder has the sign of the divisor, where Go's has
// that of the dividend: -7.5 % 2 is 0.5, and -7.5 // 2 is -4.0. The
// operator / of two integers comes here too: 6 / 2 is 3.0.
func floatOp(op string, x, y float64) any {
	switch op {
	case "+":
		return finite(x + y)
	case "-":
		return finite(x - y)
	case "*":
		return finite(x * y)
	}
	if y == 0 {
		panic(failure{errZero})
	}
	if op == "/" {
		return finite(x / y)
	}
	rest := math.Mod(x, y)
	if rest != 0 && (rest < 0) != (y < 0) {
		rest += y
	}
	if op == "%" {
		return rest
	}
	return math.Round((x - rest) / y)
}

// finite refuses what is no number in JSON either, and of no use in a template.
func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		panic(failure{errTooLarge})
	}
	return x
}

// signed is +v or -v.
func signed(v any, negative bool) any {
	factor := int64(1)
	if negative {
		factor = -1
	}
	if n, ok := integer(v); ok {
		return intOp("*", n, factor)
	}
	if f, ok := v.(float64); ok {
		return f * float64(factor)
	}
	mustExist(v)
	panic(failed("bad operand type for a sign: '%s'", TypeName(v)))
}
