package records_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/trainer/data/records"
)

// Rows of any file that is read: JSON lines, JSON, CSV, Parquet, text.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(path, []byte("text,author\nHello,Ann\nBye,Bob\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range records.Read(path) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Columns(), string(r.Fields["text"]))
	}
	// Output:
	// [author text] "Hello"
	// [author text] "Bye"
}
