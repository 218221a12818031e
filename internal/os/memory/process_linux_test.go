package memory

import (
	"os"
	"testing"
)

// TestAProcessGrowsByWhatItTouches: memory counts once it is written to.
func TestAProcessGrowsByWhatItTouches(t *testing.T) {
	of := func() int64 {
		n, err := OfProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const size = 64 << 20
	before := of()
	block := make([]byte, size)
	for i := 0; i < size; i += 512 {
		block[i] = 1
	}
	if grown := of() - before; grown < size*9/10 || grown > size*2 {
		t.Errorf("%d bytes more after %d were written", grown, size)
	}
	if block[512] != 1 {
		t.Error("gone")
	}
}

func TestAProcessThatIsNotThereIsAnError(t *testing.T) {
	if n, err := OfProcess(1 << 30); err == nil {
		t.Errorf("%d bytes", n)
	}
}
