package records

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

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
