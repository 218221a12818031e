package core_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestDTypeNamesAndSizes(t *testing.T) {
	for d, size := range map[core.DType]int{core.Float32: 4, core.BFloat16: 2, core.Float16: 2, core.Int32: 4,
		core.Float64: 8, core.Int64: 8, core.Int8: 1} {
		if got := d.Size(); got != size {
			t.Errorf("%s has %d bytes, want %d", d, got, size)
		}
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var back core.DType
		if err := json.Unmarshal(data, &back); err != nil || back != d {
			t.Errorf("%s is %s in JSON, which reads as %s, %v", d, data, back, err)
		}
	}
	if got := core.DType(99); got.Size() != 0 || got.String() != "dtype(99)" {
		t.Errorf("an unknown dtype is %s of %d bytes", got, got.Size())
	}
	for _, name := range []string{"", "invalid", "float8"} {
		if _, err := core.ParseDType(name); err == nil || !strings.Contains(err.Error(), "known: float32") {
			t.Errorf("ParseDType(%q): %v, want an error that lists the known", name, err)
		}
	}
}

func TestValid(t *testing.T) {
	good := core.NewTensor(core.Float32, 2, 3)
	odd := core.NewTensor(core.Float32, 3).Data[2:10]
	tests := []struct {
		name   string
		tensor core.Tensor
		want   string // in the error; "" for none
	}{
		{"whole", good, ""},
		{"scalar", core.NewTensor(core.Int64), ""},
		{"empty", core.NewTensor(core.Float16, 0, 4), ""},
		{"view at an odd element", good.Slice(1, 3, 2), ""},
		{"no dtype", core.Tensor{}, "no dtype"},
		{"negative axes", core.Tensor{DType: core.Float32, Shape: core.Shape{-1, -1}, Data: make([]byte, 4)},
			"negative axis"},
		{"too few bytes", core.Tensor{DType: core.Float32, Shape: core.Shape{2}, Data: good.Data[:4]},
			"needs 8 bytes, has 4"},
		{"not aligned", core.Tensor{DType: core.Float32, Shape: core.Shape{2}, Data: odd}, "not aligned"},
		{"size overflows", core.Tensor{DType: core.Float32, Shape: core.Shape{math.MaxInt/2 + 1, 4}}, "too large"},
		{"size overflows behind no elements",
			core.Tensor{DType: core.Float32, Shape: core.Shape{0, math.MaxInt, math.MaxInt}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.tensor.Valid()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestViewsShareMemory(t *testing.T) {
	x := core.FromFloat32([]float32{0, 1, 2, 3, 4, 5}, 2, 3)
	row := x.Slice(3, 6, 3)
	row.Float32s()[0] = 30
	if got := x.Reshape(6).Float32s()[3]; got != 30 {
		t.Errorf("element 3 is %v, want 30", got)
	}
	if first := x.Slice(0, 3, 3); cap(first.Data) != 12 {
		t.Errorf("a view of 12 bytes can grow to %d, into what follows", cap(first.Data))
	}
	if x.Rows() != 2 || x.Elems() != 6 || core.NewTensor(core.Float32).Rows() != 1 {
		t.Error("wrong number of rows or elements")
	}
}

func TestViewsOfAnotherDTypePanic(t *testing.T) {
	x := core.NewTensor(core.Float32, 4)
	for name, f := range map[string]func(){
		"float64s": func() { x.Float64s() },
		"int32s":   func() { x.Int32s() },
		"int64s":   func() { x.Int64s() },
		"int8s":    func() { x.Int8s() },
		"uint16s":  func() { x.Uint16s() },
		"float32s": func() { core.NewTensor(core.Int32, 4).Float32s() },
		"reshape":  func() { x.Reshape(5) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// limited is memory that has no room for more than 64 bytes.
type limited struct{ frees int }

func (*limited) Alloc(n int) ([]byte, error) {
	if n > 64 {
		return nil, errors.New("no room")
	}
	return core.NewTensor(core.Int64, 8).Data[:n], nil
}
func (m *limited) Free([]byte) { m.frees++ }

func TestATensorIsMadeInAMemory(t *testing.T) {
	x, err := core.NewTensorIn(&limited{}, core.BFloat16, 2, 3)
	if err != nil || x.Valid() != nil || !x.Shape.Equal(core.Shape{2, 3}) {
		t.Errorf("%v, %v", x, err)
	}
	for want, try := range map[string]func() (core.Tensor, error){
		"no room":       func() (core.Tensor, error) { return core.NewTensorIn(&limited{}, core.Float32, 17) },
		"negative axis": func() (core.Tensor, error) { return core.NewTensorIn(&limited{}, core.Float32, -1) },
		"too large":     func() (core.Tensor, error) { return core.NewTensorIn(&limited{}, core.Float32, 1<<40, 1<<40) },
		"tensor nf4":    func() (core.Tensor, error) { return core.NewTensorIn(&limited{}, core.NF4, math.MaxInt) },
		"no dtype":      func() (core.Tensor, error) { return core.NewTensorIn(&limited{}, core.InvalidDType, 1) },
		"needs a memory: pass one of transport.NewMemory": func() (core.Tensor,
			error) {
			return core.NewTensorIn(nil, core.Float32, 1)
		},
	} {
		if x, err := try(); err == nil || !strings.Contains(err.Error(), want) || !x.IsZero() {
			t.Errorf("%v, error %v, want one that says %q", x, err, want)
		}
	}
}

// owner is a kernel with memory for its outputs, perhaps none.
type owner struct {
	*fakeKernel
	memory core.Memory
}

func (o owner) OutputMemory() core.Memory { return o.memory }

func TestOutputsGoWhereAKernelCanWrite(t *testing.T) {
	own, other := &limited{}, &limited{frees: 1}
	for name, tt := range map[string]struct {
		k    core.Kernel
		want core.Memory
	}{
		"its own":        {owner{newKernel("k", core.RMSNorm), own}, own},
		"none after all": {owner{newKernel("k", core.RMSNorm), nil}, other},
		"no ability":     {newKernel("k", core.RMSNorm), other},
	} {
		if got := core.OutputsOf(tt.k, other); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
