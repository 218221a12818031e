package jinja

import (
	"errors"
	"math"
	"slices"
	"strings"
)

var (
	errTooLarge = errors.New("the result is too large for an integer")
	errZero     = errors.New("division by zero")
)

// binary is left op right for the operators of arithmetic. Of strings and lists there are
// sums and products.
func (r *run) binary(op string, left, right any) any {
	mustExist(left)
	mustExist(right)
	var v any
	switch op {
	case "+":
		v = r.join2(left, right)
	case "*":
		if n, ok := integer(right); ok {
			v = r.repeat(left, n)
		} else if n, ok := integer(left); ok {
			v = r.repeat(right, n)
		}
	case "%":
		if _, ok := left.(string); ok {
			panic(failed("%s", notRendered("the operator", "%")))
		}
	}
	if v != nil {
		return v
	}
	a, aInt := integer(left)
	b, bInt := integer(right)
	x, xNumber := number(left)
	y, yNumber := number(right)
	switch {
	case aInt && bInt && op != "/":
		return intOp(op, a, b)
	case xNumber && yNumber:
		return floatOp(op, x, y)
	}
	panic(failure{operandError(op, left, right)})
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

// join2 is the sum of two strings, lists or tuples, and nil for anything else.
func (r *run) join2(left, right any) any {
	switch a := left.(type) {
	case string:
		if b, ok := right.(string); ok {
			return a + b
		}
	case []any:
		if b, ok := right.([]any); ok {
			return slices.Concat(a, b)
		}
	case Tuple:
		if b, ok := right.(Tuple); ok {
			return slices.Concat(a, b)
		}
	}
	return nil
}

// repeat is n times a string, list or tuple, and nil for anything else.
func (r *run) repeat(v any, n int64) any {
	n = max(n, 0)
	if s, ok := v.(string); ok {
		r.chargeTimes(n, len(s))
		if s == "" {
			return v // n may be more than an int of this machine holds
		}
		return strings.Repeat(s, int(n))
	}
	items, ok := v.([]any)
	tuple, isTuple := v.(Tuple)
	if isTuple {
		items = tuple
	}
	switch {
	case !ok && !isTuple:
		return nil
	case len(items) == 0:
		return v
	}
	r.chargeTimes(n, itemSize*len(items))
	items = slices.Repeat(items, int(n))
	if isTuple {
		return Tuple(items)
	}
	return items
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

// floatOp computes with floats. As in Python a remainder has the sign of the divisor, and
// / of two integers comes here too: 6 / 2 is 3.0.
func floatOp(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	if y == 0 {
		panic(failure{errZero})
	}
	if op == "/" {
		return x / y
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
