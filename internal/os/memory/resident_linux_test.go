package memory

import "testing"

func TestResidentGrowsWithWhatIsTouched(t *testing.T) {
	p := NewProcess()
	defer p.Close()
	before := p.Resident()
	const size = 64 << 20
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	after := p.Resident()
	if before <= 0 || after < before+size/2 {
		t.Errorf("%d bytes before %d MiB were touched, %d after", before, size>>20, after)
	}
	b[0]++
	if n := testing.AllocsPerRun(20, func() { p.Resident() }); n > 0 {
		t.Errorf("measuring allocates %g times", n)
	}
}
