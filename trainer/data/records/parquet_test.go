package records

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/seed98097648/tune/internal/testdata"
)

// A Parquet file with bytes changed is read or refused; no panic of the library gets out.
func TestABrokenParquetFileIsAnError(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "parquet")
	for _, name := range []string{"gsm8k_test.arrowrs.zstd.parquet", "gsm8k_test.duckdb.snappy.parquet",
		"gsm8k_test.messages.duckdb.snappy.parquet"} {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		const tries = 50
		for seed := range uint64(tries) {
			rng := rand.New(rand.NewPCG(seed, 0))
			broken := append([]byte(nil), whole...)
			footer := len(broken) - 3000 // where a change matters most
			for range 1 + rng.IntN(4) {
				at := rng.IntN(len(broken))
				if rng.IntN(2) == 0 {
					at = footer + rng.IntN(3000)
				}
				broken[at] ^= byte(1 + rng.IntN(255))
			}
			if rng.IntN(10) == 0 {
				broken = broken[:rng.IntN(len(broken))]
			}
			if _, _, err := all(t, file(t, "a.parquet", string(broken))); err != nil {
				failed++
			}
		}
		if failed < tries/4 {
			t.Errorf("%s: only %d of %d broken files are refused", name, failed, tries)
		}
	}
}

// TestColumnsThatNobodyReads: what JSON does not have, in one column, leaves the others of a row to read.
func TestColumnsThatNobodyReads(t *testing.T) {
	type row struct {
		Text  string    `parquet:"text"`
		Score float64   `parquet:"score"`
		Loss  float32   `parquet:"loss"`
		Image []byte    `parquet:"image"`
		Means []float64 `parquet:"means,list"`
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	nan, inf := math.NaN(), float32(math.Inf(1))
	if err := parquet.WriteFile(path, []row{{"a", nan, inf, []byte{0xff, 0xd8}, []float64{1, nan}},
		{"b", 0.5, 0.1, []byte("c"), nil}}); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, path, []map[string]string{
		{"text": `"a"`, "score": "null", "loss": "null", "image": "null", "means": "[1,null]"},
		{"text": `"b"`, "score": "0.5", "loss": "0.1", "image": `"c"`, "means": "[]"},
	}, map[int]string{0: "image"})
}

// TestNestedColumns: what is in a column comes out as the file has it, in the order of its fields, and no number is
// rounded.
func TestNestedColumns(t *testing.T) {
	type function struct {
		Name      string `parquet:"name"`
		Arguments string `parquet:"arguments,json"`
	}
	type call struct {
		Type     string              `parquet:"type"`
		Function *function           `parquet:"function,optional"`
		Default  map[string]function `parquet:"default"`
	}
	type row struct {
		Calls  []call        `parquet:"calls,list"`
		Words  [][]string    `parquet:"words,list"`
		Counts map[int32]int `parquet:"counts"`
		Many   uint64        `parquet:"many"`
		Some   uint32        `parquet:"some"`
		Price  int32         `parquet:"price,decimal(2:9)"`
		Sum    [16]byte      `parquet:"sum,decimal(3:38)"`
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	minus := [16]byte{15: 0xfb} // -5
	for i := range minus[:15] {
		minus[i] = 0xff
	}
	look := function{"look", `{"z": 12345678901234567, "a": [1.0]}`}
	rows := []row{
		{[]call{{"b", &look, nil}, {"a", nil, map[string]function{"k": look}}}, [][]string{{"x"}, {}, {"y", "z"}},
			map[int32]int{7: 1}, math.MaxUint64, math.MaxUint32, 123456789, minus},
		{[]call{{"c", &function{"n", "no JSON"}, nil}}, nil, nil, 0, 0, -7, [16]byte{14: 4}},
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	written := `{"name":"look","arguments":` + look.Arguments + `}`
	wantColumns(t, path, []map[string]string{{
		"calls": `[{"type":"b","function":` + written + `,"default":{}},{"type":"a","function":null,"default":{"k":` +
			written + `}}]`,
		"words": `[["x"],[],["y","z"]]`, "counts": `{"7":1}`, "many": "18446744073709551615", "some": "4294967295",
		"price": "1234567.89", "sum": "-0.005",
	}, {"calls": "null", "words": "[]", "counts": "{}", "many": "0", "some": "0", "price": "-0.07", "sum": "1.024"}},
		map[int]string{1: "calls"})
}

// TestTimesAreTexts: a number of days, or of units that only the file's schema tells, says nothing by itself.
func TestTimesAreTexts(t *testing.T) {
	clock := int64(13*3600+5*60+9)*1e9 + 120_000_000
	nanos := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC).UnixNano() + clock
	schema := parquet.NewSchema("rows", parquet.Group{
		"a": parquet.Date(), "b": parquet.Time(parquet.Millisecond), "c": parquet.Timestamp(parquet.Millisecond),
		"d": parquet.TimestampAdjusted(parquet.Microsecond, false), "e": parquet.Timestamp(parquet.Nanosecond),
		"f": parquet.Leaf(parquet.Int96Type), "g": parquet.Optional(parquet.Date()),
	})
	values := []parquet.Value{parquet.Int32Value(int32(nanos / 86400e9)), parquet.Int32Value(int32(clock / 1e6)),
		parquet.Int64Value(nanos / 1e6), parquet.Int64Value(-clock / 1e3), parquet.Int64Value(nanos + 1),
		parquet.Int96Value(deprecated.Int96{uint32(clock), uint32(clock >> 32), 2440588 + uint32(nanos/86400e9)}),
		parquet.NullValue()}
	for i := range values {
		values[i] = values[i].Level(0, 0, i)
	}
	var buffer bytes.Buffer
	w := parquet.NewWriter(&buffer, schema)
	if _, err := w.WriteRows([]parquet.Row{values}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, file(t, "a.parquet", buffer.String()), []map[string]string{{"a": `"2024-02-29"`, "b": `"13:05:09.12"`,
		"c": `"2024-02-29 13:05:09.12+00:00"`, "d": `"1969-12-31 10:54:50.88"`, "e": `"2024-02-29 13:05:09.120000001+00:00"`,
		"f": `"2024-02-29 13:05:09.12"`, "g": "null"}}, nil)
}

// annotated is a group that calls itself a list.
type annotated struct{ parquet.Node }

func (annotated) Type() parquet.Type { return parquet.List(parquet.String()).Type() }

// TestListsOfOldWriters: those of two levels, whose repeated field is the element, by the rules of Parquet's
// LogicalTypes.md.
func TestListsOfOldWriters(t *testing.T) {
	text := parquet.String()
	schema := parquet.NewSchema("rows", parquet.Group{
		"a": annotated{parquet.Group{"element": parquet.Repeated(text)}},
		"b": annotated{parquet.Group{"bag": parquet.Repeated(parquet.Group{"item": parquet.Optional(text)})}},
		"c": annotated{parquet.Group{"array": parquet.Repeated(parquet.Group{"item": text})}},
		"d": annotated{parquet.Group{"d_tuple": parquet.Repeated(parquet.Group{"item": text})}},
		"e": annotated{parquet.Group{"list": parquet.Repeated(parquet.Group{"x": text, "y": text})}},
	})
	v := func(s string, repetition, definition, column int) parquet.Value {
		return parquet.ValueOf(s).Level(repetition, definition, column)
	}
	var buffer bytes.Buffer
	// The library's generic writer takes no such lists.
	w := parquet.NewWriter(&buffer, schema)
	if _, err := w.WriteRows([]parquet.Row{{
		v("1", 0, 1, 0), v("2", 1, 1, 0), v("3", 0, 2, 1), parquet.ValueOf(nil).Level(1, 1, 1), v("4", 0, 1, 2),
		v("5", 0, 1, 3), v("6", 0, 1, 4), v("7", 0, 1, 5),
	}, {
		parquet.ValueOf(nil).Level(0, 0, 0), parquet.ValueOf(nil).Level(0, 0, 1), parquet.ValueOf(nil).Level(0, 0, 2),
		parquet.ValueOf(nil).Level(0, 0, 3), parquet.ValueOf(nil).Level(0, 0, 4), parquet.ValueOf(nil).Level(0, 0, 5),
	}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantColumns(t, file(t, "a.parquet", buffer.String()), []map[string]string{
		{"a": `["1","2"]`, "b": `["3",null]`, "c": `[{"item":"4"}]`, "d": `[{"item":"5"}]`, "e": `[{"x":"6","y":"7"}]`},
		{"a": "[]", "b": "[]", "c": "[]", "d": "[]", "e": "[]"},
	}, nil)
}

// wantColumns reads a file. Broken is the column that is, of rows that have one.
func wantColumns(t *testing.T, path string, want []map[string]string, broken map[int]string) {
	t.Helper()
	row := 0
	for r, err := range Read(path) {
		if err != nil {
			t.Fatal(err)
		}
		if row == len(want) || len(r.Fields) != len(want[row]) {
			t.Fatalf("row %d: %v", row+1, r)
		}
		for name, value := range want[row] {
			if got := string(r.Fields[name]); got != value {
				t.Errorf("row %d: %s is %s, want %s", row+1, name, got, value)
			}
			if err := r.Broken[name]; (err != nil) != (broken[row] == name) {
				t.Errorf("row %d: %s: %v", row+1, name, err)
			}
		}
		row++
	}
	if row != len(want) {
		t.Errorf("%d rows, want %d", row, len(want))
	}
}

// TestAColumnThatIsNotWhatItsTypeNeedsIsRead as what it holds: a broken file may call numbers a text.
func TestAColumnThatIsNotWhatItsTypeNeedsIsRead(t *testing.T) {
	for _, c := range []struct {
		value parquet.Value
		is    parquet.Type
		want  string
	}{
		{parquet.Int32Value(5), parquet.JSON().Type(), "5"},
		{parquet.DoubleValue(0.5), parquet.Decimal(2, 9, parquet.Int32Type).Type(), "0.5"},
		{parquet.ByteArrayValue([]byte("a")), parquet.Uint(64).Type(), `"a"`},
		{parquet.DoubleValue(0.5), parquet.Timestamp(parquet.Millisecond).Type(), "0.5"},
	} {
		if got, err := appendValue(nil, c.value, c.is); string(got) != c.want || err != nil {
			t.Errorf("%v as %v: %s, %v, want %s", c.value, c.is, got, err, c.want)
		}
	}
}
