package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// bitsAndBytes is what config.json says of weights that bitsandbytes has quantised, with its names. Linear layers
// but the head, and those that are left out, have tensors beside their weight that say what it stands for.
type bitsAndBytes struct {
	Method string `json:"quant_method"`
	Four   bool   `json:"load_in_4bit"`
	Eight  bool   `json:"load_in_8bit"`
	Type   string `json:"bnb_4bit_quant_type"`
}

// What bitsandbytes calls itself, its tensors, and what it stores how.
const (
	bitsandbytes = "bitsandbytes"
	stateSuffix  = ".quant_state.bitsandbytes__"
	scaleSuffix  = "SCB"           // in place of weight: what 127 stands for in each row
	formSuffix   = "weight_format" // likewise: 0 for rows one after the other
	block        = 64              // elements that are multiplied by one number
	nestedBlock  = 256             // such numbers that are
)

// bitsAndBytesOf reads a quantization_config, nil for one of another method.
func bitsAndBytesOf(text []byte) (*bitsAndBytes, error) {
	b := &bitsAndBytes{}
	if json.Unmarshal(text, b) != nil || b.Method != bitsandbytes {
		return nil, nil
	}
	remedy := "; supported of bitsandbytes are 8 bits, and 4 bits with bnb_4bit_quant_type nf4 and " +
		"bnb_4bit_use_double_quant: take the model that this one was made from"
	switch {
	case b.Four == b.Eight:
		return nil, fmt.Errorf("config.json: quantization_config: load_in_4bit is %v and load_in_8bit %v, want one of them%s",
			b.Four, b.Eight, remedy)
	case b.Four && b.Type != "nf4":
		return nil, fmt.Errorf("config.json: quantization_config: bnb_4bit_quant_type is %q, want \"nf4\"%s", b.Type, remedy)
	}
	return b, nil
}

// base is the field of lora.Config that quantises alike.
func (b *bitsAndBytes) base() string {
	if b.Four {
		return "NF4"
	}
	return "Int8"
}

// isNF4 reports whether a tensor of the files is the codes of NF4.
func (b *bitsAndBytes) isNF4(set *checkpoint.Set, name string) bool {
	if b == nil {
		return false
	}
	_, _, found := set.Lookup(name + stateSuffix + "nf4")
	return found
}

// has reports whether a tensor of the files stands for others.
func (b *bitsAndBytes) has(set *checkpoint.Set, name string) bool {
	if b == nil {
		return false
	}
	dtype, _, _ := set.Lookup(name)
	return dtype == core.InvalidDType || dtype == core.Int8
}

// fill fills an entry of a parameter, and returns the names of the tensors beside it.
func (b *bitsAndBytes) fill(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	dtype, _, _ := set.Lookup(e.Name)
	switch {
	case dtype == core.Int8 && p.Tensor.DType == core.Int8:
		return b.fillInt8(set, p, e)
	case dtype == core.InvalidDType && p.Tensor.DType == core.NF4:
		return b.fillNF4(set, p, e)
	case dtype == core.InvalidDType && !b.isNF4(set, e.Name):
		return nil, fmt.Errorf("%s is bytes without %s%snf4 beside it, which says what they are", e.Name, e.Name, stateSuffix)
	}
	return nil, fmt.Errorf("%s is quantised, and tensors that lie beside it in memory are not", e.Name)
}

// fillInt8 fills an entry from int8, and what 127 stands for in each row.
func (b *bitsAndBytes) fillInt8(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	layer := strings.TrimSuffix(e.Name, "weight")
	used = []string{layer + scaleSuffix, layer + formSuffix}
	if form, ok, err := set.Bytes(used[1]); err != nil || ok && (len(form) != 1 || form[0] != 0) {
		return used, fmt.Errorf("%s is not 0, rows one after the other: %v%w", used[1], form, err)
	}
	scale, err := scalesOf(set, used[0], e.Shape[:len(e.Shape)-1].Elems())
	if err != nil {
		return used, err
	}
	for i := range scale {
		scale[i] *= 1.0 / 127
	}
	t, err := set.Tensor(e.Name)
	if err != nil {
		return used, err
	}
	return used, p.SetInt8(e, t, scale)
}

// quantState is what the tensor with stateSuffix says, as JSON.
type quantState struct {
	Type        string  `json:"quant_type"`
	Block       int     `json:"blocksize"`
	Shape       []int   `json:"shape"`
	NestedBlock int     `json:"nested_blocksize"`
	Offset      float32 `json:"nested_offset"`
}

// check compares it with what NF4 is here.
func (s quantState) check(e nn.Entry) error {
	switch {
	case s.Type != "nf4":
		return fmt.Errorf("quant_type is %q, want \"nf4\"", s.Type)
	case s.Block != block:
		return fmt.Errorf("blocksize is %d, want %d", s.Block, block)
	case !slices.Equal(s.Shape, []int(e.Shape)):
		return fmt.Errorf("shape is %v, want %v", s.Shape, e.Shape)
	case s.NestedBlock == 0:
		return fmt.Errorf("nested_blocksize is missing: without bnb_4bit_use_double_quant, absmax is float32, which has no " +
			"place here; quantise the model again with it")
	case s.NestedBlock != nestedBlock:
		return fmt.Errorf("nested_blocksize is %d, want %d", s.NestedBlock, nestedBlock)
	}
	return nil
}

// fillNF4 fills an entry from codes of NF4, and codes of what their blocks are multiplied by.
func (b *bitsAndBytes) fillNF4(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	state := e.Name + stateSuffix + "nf4"
	for _, name := range []string{"absmax", "quant_map", "nested_absmax", "nested_quant_map"} {
		used = append(used, e.Name+"."+name)
	}
	absmax, table, nested, values := used[0], used[1], used[2], used[3]
	used = append(used, state)
	var s quantState
	text, err := b.bytes(set, state)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil {
		err = s.check(e)
	}
	if err != nil {
		return used, fmt.Errorf("%s: %w", state, err)
	}
	codes, err := b.bytes(set, e.Name)
	if err != nil {
		return used, err
	}
	blocks, err := b.bytes(set, absmax)
	if err != nil {
		return used, err
	}
	known, err := scalesOf(set, table, len(core.NF4Values))
	if err == nil && !slices.Equal(known, core.NF4Values[:]) {
		err = fmt.Errorf("%s has other values than NF4", table)
	}
	if err != nil {
		return used, err
	}
	scale, err := scalesOf(set, nested, (len(blocks)+nestedBlock-1)/nestedBlock)
	if err != nil {
		return used, err
	}
	of, err := scalesOf(set, values, 256)
	if err != nil {
		return used, err
	}
	return used, p.SetNF4(e, codes, blocks, of, scale, s.Offset)
}

// bytes reads a tensor that must be bytes.
func (b *bitsAndBytes) bytes(set *checkpoint.Set, name string) ([]byte, error) {
	got, ok, err := set.Bytes(name)
	if err == nil && !ok {
		err = fmt.Errorf("%s is missing, or not of unsigned bytes (U8)", name)
	}
	return got, err
}
