package cuda

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// TestErrors of devices that are not there, or get lost.
func TestErrors(t *testing.T) {
	for _, tt := range []struct{ name, flag, want string }{
		{"no driver for a device", "-DDEVICES=-1",
			"CUDA finds no device: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable"},
		{"none is shown", "-DDEVICES=0", "CUDA shows no device; $CUDA_VISIBLE_DEVICES may hide it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := open(t, tt.flag); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("a product fails", func(t *testing.T) {
		d := device(t, "-DCALLS=2")
		x := core.FromFloat32([]float32{2}, 1, 1)
		x.Content = core.NewContent()
		var got float32
		work := func(p *Pass) {
			m, to := p.Keep(1, 1, source(x.Float32s()), x), p.New(1, 1)
			p.Multiply(Product{M: 1, N: 1, K: 1, A: m, B: m, C: to, Alpha: 1})
			p.Store(to, 1, func(v []float32, _ int) { got = v[0] })
		}
		if err := d.Do(work); err != nil || got != 4 {
			t.Fatalf("2 * 2 is %g, %v", got, err)
		}
		var lost error
		d.Lost = func(err error) { lost = err }
		err := d.Do(work)
		if lost != err {
			t.Errorf("the device is lost by the error %v, want %v", lost, err)
		}
		if want := "cuBLAS 13.1.2 on Test Device: cublasSgemm: status 13"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		for _, k := range d.kept {
			if k.contents != [most]uint64{} {
				t.Error("what a pass that failed has kept is trusted")
			}
		}
	})
	t.Run("a copy fails", func(t *testing.T) {
		for _, copies := range []string{"1", "2"} {
			k := &keeper{d: device(t, "-DCOPIES="+copies)}
			err := k.d.Do(func(p *Pass) {
				p.Store(p.Load(1, 4, source([]float32{1, 2, 3, 4})), 1, func([]float32, int) { t.Error("elements are given") })
			})
			if err == nil || !strings.Contains(err.Error(), "Async: CUDA_ERROR_OF_A_TEST (1): an error") {
				t.Errorf("copy %s: error %v", copies, err)
			}
		}
	})
	t.Run("there is no cuBLAS", func(t *testing.T) {
		d := device(t, "-DHANDLES")
		lost := 0
		d.Lost = func(error) { lost++ }
		for range 2 {
			err := d.Do(func(*Pass) { t.Error("the work begins") })
			if want := "cuBLAS 13.1.2 on Test Device: cublasCreate: status 13"; err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		if lost != 2 {
			t.Errorf("the device was lost %d times, want twice", lost)
		}
	})
	t.Run("a library without what is needed", func(t *testing.T) {
		t.Setenv(EnvDriver, "libc.so.6")
		if _, err := Open(); err == nil || !strings.Contains(err.Error(), "$TUNE_CUDA names cannot be used") {
			t.Errorf("error %v", err)
		}
	})
}

// TestAPanicLeavesNothingBehind: not what was to be kept, nor a slot or memory that nobody can use any more.
func TestAPanicLeavesNothingBehind(t *testing.T) {
	k := &keeper{d: device(t)}
	k.d.Lost = func(err error) { t.Errorf("the device is lost by a panic: %v", err) }
	x := core.FromFloat32([]float32{1, 2, 3, 4}, 1, 4)
	x.Content = core.NewContent()
	boom := func([]float32, int) { panic("boom") }
	for i := range 2*slotsEach*vector.Threads() + 1 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = k.d.Do(func(p *Pass) {
				if i%2 == 0 {
					p.Keep(1, 4, boom, x)
				} else {
					p.Store(p.Load(1, 4, source(x.Float32s())), 1, boom)
				}
				p.Flush()
			})
		}()
	}
	if got := k.get(t, x); fmt.Sprint(got) != fmt.Sprint(x.Float32s()) {
		t.Errorf("%v is there after panics, want %v", got, x.Float32s())
	}
}
