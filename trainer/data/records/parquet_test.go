package records

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

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
	var rows []Record
	for r, err := range Read(path) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	for i, want := range []map[string]string{
		{"text": `"a"`, "score": "null", "loss": "null", "image": "null", "means": "[1,null]"},
		{"text": `"b"`, "score": "0.5", "loss": "0.1", "image": `"c"`, "means": "[]"},
	} {
		if len(rows) != 2 || len(rows[i].Fields) != len(want) {
			t.Fatalf("rows %v", rows)
		}
		for name, value := range want {
			if got := string(rows[i].Fields[name]); got != value {
				t.Errorf("row %d: %s is %s, want %s", i+1, name, got, value)
			}
		}
	}
	if len(rows[0].Broken) != 1 || rows[0].Broken["image"] == nil || len(rows[1].Broken) != 0 {
		t.Errorf("broken %v, %v", rows[0].Broken, rows[1].Broken)
	}
}
