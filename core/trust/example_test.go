package trust_test

import (
	"fmt"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/trust"
)

func ExampleLock_Allow() {
	known, changed := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	lock, err := trust.New(trust.DefaultFile,
		[]core.Manifest{{Name: "fast_rope", Version: "1.0", Path: "plugins/fast_rope", Checksum: known}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Allow("plugins/fast_rope", known))
	refused := lock.Allow("plugins/fast_rope", changed)
	fmt.Println(strings.NewReplacer(": ", ":\n", "; ", ";\n").Replace(refused.Error()))
	// Output:
	// <nil>
	// untrusted plugin:
	// plugins/fast_rope has changed:
	// tune-kernels.lock locks fast_rope 1.0 with sha256 a1a1a1a1a1a1, the file has b2b2b2b2b2b2;
	// if you trust it, run "tune kernels lock --update-lock"
}

// The text of a lock file, one line for each plugin.
func ExampleFormat() {
	entry := trust.Entry{Name: "fast_rope", Version: "1.0", SHA256: strings.Repeat("a1", 32), Path: "plugins/fast_rope"}
	entries, err := trust.Parse(trust.Format([]trust.Entry{entry}))
	fmt.Println(len(entries), entries[0].Name, entries[0].Path, err)
	// Output: 1 fast_rope plugins/fast_rope <nil>
}
