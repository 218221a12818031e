package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/seed98097648/tune/internal/plainjson"
)

// readParquet reads the rows of a Parquet file. Lists become JSON arrays, structs and maps objects, dates and times
// texts, and numbers that are not finite null.
func readParquet(f *os.File, path string, yield func(Record, error) bool) error {
	rows, err := openParquet(f)
	if err != nil {
		return fmt.Errorf("%s: not a Parquet file that can be read: %w", path, err)
	}
	defer rows.Close()
	for row := 1; ; row++ {
		at := Place{File: path, Row: row}
		values, err := rows.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%v: %w", at, err)
		}
		r := Record{Place: at, Fields: map[string]json.RawMessage{}, Broken: map[string]error{}}
		for _, c := range rows.columns {
			name, text := c.Name(), []byte(nil)
			if text, err = values.appendJSON(nil, c); err != nil { // such as an image, or another binary column
				text, r.Broken[name] = []byte("null"), err
			}
			r.Fields[name] = text
		}
		if !yield(r, nil) {
			return nil
		}
	}
}

// parquetRows reads one row after another.
type parquetRows struct {
	parquet.Rows
	columns []*parquet.Column
	buffer  []parquet.Row
}

func openParquet(f *os.File) (rows *parquetRows, err error) {
	defer recoverTo(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	rows = &parquetRows{columns: file.Root().Columns(), buffer: make([]parquet.Row, 1)}
	rows.Rows = parquet.MultiRowGroup(file.RowGroups()...).Rows()
	return rows, nil
}

func (p *parquetRows) next() (values parquetRow, err error) {
	defer recoverTo(&err)
	n, err := p.ReadRows(p.buffer)
	if n == 1 {
		p.buffer[0].Range(func(i int, column []parquet.Value) bool {
			for len(values) <= i {
				values = append(values, nil)
			}
			values[i] = column
			return true
		})
		return values, nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// recoverTo turns a panic into an error: the library has them for some broken files.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is broken: %v", p)
	}
}

var (
	errNotUTF8 = errors.New("invalid UTF-8")
	errTooFew  = errors.New("the file is broken: the column has fewer values than those beside it")
)

// parquetRow has what is not yet read of a row's values, by column. The library would make Go's maps and structs of
// them: in these, keys have another order than in the file, and structs in a map none that JSON could name.
type parquetRow [][]parquet.Value

// appendJSON reads what c holds. A list's element is what the repeated group in it holds, if that is one thing.
func (r parquetRow) appendJSON(b []byte, c *parquet.Column) ([]byte, error) {
	switch {
	case c.Repeated():
		return r.appendAll(b, c, '[', r.appendHeld)
	case c.Optional():
		if missing, err := r.skipMissing(c); missing || err != nil {
			return append(b, "null"...), err
		}
	}
	return r.appendHeld(b, c)
}

// appendHeld reads a column's value where there is one.
func (r parquetRow) appendHeld(b []byte, c *parquet.Column) ([]byte, error) {
	if c.Leaf() {
		v, err := r.first(c)
		if err != nil {
			return nil, err
		}
		r[c.Index()] = r[c.Index()][1:]
		return appendValue(b, v, c.Type())
	}
	inner := c.Columns()
	if t := c.Type().LogicalType(); t != nil && len(inner) == 1 && inner[0].Repeated() {
		switch parts := inner[0].Columns(); t.Value.(type) {
		case *format.ListType:
			// Writers of old have the element itself for the repeated group.
			if name := inner[0].Name(); len(parts) == 1 && name != "array" && name != c.Name()+"_tuple" {
				return r.appendAll(b, inner[0], '[', func(b []byte, _ *parquet.Column) ([]byte, error) {
					return r.appendJSON(b, parts[0])
				})
			}
			return r.appendJSON(b, inner[0])
		case *format.MapType:
			if len(parts) == 2 && parts[0].Leaf() {
				return r.appendAll(b, inner[0], '{', func(b []byte, _ *parquet.Column) ([]byte, error) {
					return r.appendPair(b, parts[0], parts[1])
				})
			}
		}
	}
	b = append(b, '{')
	for i, field := range inner {
		var err error
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, field.Name()), ':')
		if b, err = r.appendJSON(b, field); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendAll reads each of what is repeated, between brackets.
func (r parquetRow) appendAll(b []byte, c *parquet.Column, open byte,
	one func([]byte, *parquet.Column) ([]byte, error)) ([]byte, error) {
	b = append(b, open)
	missing, err := r.skipMissing(c)
	for more := !missing; more && err == nil; {
		if b, err = one(b, c); err == nil {
			next, none := r.first(firstLeaf(c))
			if more = none == nil && next.RepetitionLevel() == c.MaxRepetitionLevel(); more {
				b = append(b, ',')
			}
		}
	}
	return append(b, open+2), err // ']' and '}' are two after what opens
}

// appendPair reads a map's key, which JSON has as text, and its value.
func (r parquetRow) appendPair(b []byte, key, value *parquet.Column) ([]byte, error) {
	name, err := r.appendHeld(nil, key)
	if err != nil {
		return nil, err
	}
	if name[0] != '"' {
		name = appendText(nil, string(name))
	}
	return r.appendJSON(append(append(b, name...), ':'), value)
}

// skipMissing reads past a column without a value, or a repeated one without any.
func (r parquetRow) skipMissing(c *parquet.Column) (missing bool, err error) {
	first := firstLeaf(c)
	if !first.Leaf() { // a group without fields
		return c.Repeated(), nil
	}
	v, err := r.first(first)
	if missing = v.DefinitionLevel() < c.MaxDefinitionLevel(); missing && err == nil {
		err = r.skip(c)
	}
	return missing, err
}

func (r parquetRow) skip(c *parquet.Column) error {
	for _, field := range c.Columns() {
		if err := r.skip(field); err != nil {
			return err
		}
	}
	if !c.Leaf() {
		return nil
	}
	_, err := r.first(c)
	if err == nil {
		r[c.Index()] = r[c.Index()][1:]
	}
	return err
}

// first returns the next value of a leaf.
func (r parquetRow) first(leaf *parquet.Column) (parquet.Value, error) {
	if leaf.Leaf() && leaf.Index() < len(r) && len(r[leaf.Index()]) > 0 {
		return r[leaf.Index()][0], nil
	}
	return parquet.Value{}, errTooFew
}

func firstLeaf(c *parquet.Column) *parquet.Column {
	for len(c.Columns()) > 0 {
		c = c.Columns()[0]
	}
	return c
}

// appendValue writes a value. Bytes are text, since writers differ in whether they call them so.
func appendValue(b []byte, v parquet.Value, t parquet.Type) ([]byte, error) {
	if v.IsNull() {
		return append(b, "null"...), nil
	}
	var logical any
	if t := t.LogicalType(); t != nil {
		logical = t.Value
	}
	bytes := v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray
	switch logical := logical.(type) {
	case *format.JsonType:
		if !bytes { // a broken file says anything of its columns
			break
		}
		text := v.ByteArray()
		if !utf8.Valid(text) {
			return nil, errNotUTF8
		}
		if err := plainjson.Unmarshal(text, new(any)); err != nil {
			return nil, err
		}
		return append(b, text...), plainjson.Surrogates(text)
	case *format.IntType:
		switch {
		case logical.IsSigned:
		case v.Kind() == parquet.Int32:
			return strconv.AppendUint(b, uint64(v.Uint32()), 10), nil
		case v.Kind() == parquet.Int64:
			return strconv.AppendUint(b, v.Uint64(), 10), nil
		}
	case *format.DecimalType:
		if bytes || v.Kind() == parquet.Int32 || v.Kind() == parquet.Int64 {
			return appendDecimal(b, v, int(logical.Scale))
		}
	}
	if text := timeText(v, logical); text != "" {
		return appendText(b, text), nil
	}
	var plain any
	switch v.Kind() {
	case parquet.Boolean:
		plain = v.Boolean()
	case parquet.Int32:
		plain = v.Int32()
	case parquet.Int64:
		plain = v.Int64()
	case parquet.Float:
		plain = finite(v.Float())
	case parquet.Double:
		plain = finite(v.Double())
	default:
		text := v.ByteArray()
		if !utf8.Valid(text) {
			return nil, errNotUTF8
		}
		plain = string(text)
	}
	text, err := json.Marshal(plain)
	return append(b, text...), err
}

// timeText writes a date or a time as Python's str does, with no more digits than it has; "" for what is none.
func timeText(v parquet.Value, logical any) string {
	const date, clock = "2006-01-02", "15:04:05.999999999"
	whole := int64(0)
	switch v.Kind() {
	case parquet.Int32:
		whole = int64(v.Int32())
	case parquet.Int64:
		whole = v.Int64()
	case parquet.Int96: // the nanoseconds of a Julian day
		const epoch = 2440588 // 1970-01-01
		x := v.Int96()
		return time.Unix((int64(x[2])-epoch)*86400, x.Int64()).UTC().Format(date + " " + clock)
	default: // a broken file says anything of its columns
		return ""
	}
	switch t := logical.(type) {
	case *format.DateType:
		return time.Unix(whole*86400, 0).UTC().Format(date)
	case *format.TimeType:
		if at, ok := moment(whole, t.Unit); ok {
			return at.Format(clock)
		}
	case *format.TimestampType:
		layout := date + " " + clock
		if t.IsAdjustedToUTC {
			layout += "+00:00"
		}
		if at, ok := moment(whole, t.Unit); ok {
			return at.Format(layout)
		}
	}
	return ""
}

// moment returns when so many units of 1970 and later have passed; ok is false for a unit that is not known.
func moment(n int64, unit format.TimeUnit) (at time.Time, ok bool) {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		at, ok = time.UnixMilli(n), true
	case *format.MicroSeconds:
		at, ok = time.UnixMicro(n), true
	case *format.NanoSeconds:
		at, ok = time.Unix(0, n), true
	}
	return at.UTC(), ok
}

// finite returns a number that JSON has, or nil.
func finite[T float32 | float64](x T) any {
	if x-x != 0 {
		return nil
	}
	return x
}

// appendDecimal writes a whole number with scale digits after its point.
func appendDecimal(b []byte, v parquet.Value, scale int) ([]byte, error) {
	const most = 32 // bytes of a number, and more digits after the point than writers have
	if scale < 0 || scale > 3*most || len(v.Bytes()) > most {
		return nil, fmt.Errorf("a decimal of %d bytes with a scale of %d", len(v.Bytes()), scale)
	}
	whole := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		whole.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		whole.SetInt64(v.Int64())
	default: // two's complement, the highest byte first
		text := v.ByteArray()
		if whole.SetBytes(text); len(text) > 0 && text[0] >= 0x80 {
			whole.Sub(whole, new(big.Int).Lsh(big.NewInt(1), uint(8*len(text))))
		}
	}
	digits := new(big.Int).Abs(whole).String()
	if whole.Sign() < 0 {
		b = append(b, '-')
	}
	digits = strings.Repeat("0", max(0, scale+1-len(digits))) + digits
	b = append(b, digits[:len(digits)-scale]...)
	if scale > 0 {
		b = append(append(b, '.'), digits[len(digits)-scale:]...)
	}
	return b, nil
}

// appendText writes a name, which the library has taken from the file as it is.
func appendText(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // never fails for a string
	return append(b, text...)
}
