package models

import (
	"encoding/json"
	"errors"
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

	dtypes map[string]string // of each weight in 4 bits, what it was before
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
	b := &bitsAndBytes{dtypes: map[string]string{}}
	if json.Unmarshal(text, b) != nil || b.Method != bitsandbytes {
		return nil, nil
	}
	remedy := "; supported of bitsandbytes are 8 bits, and 4 bits with bnb_4bit_quant_type nf4: " +
		"take the model that this one was made from"
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

// storedAs is how a tensor that isNF4 is stored in memory: as it is, where the numbers of its blocks are codes too, and
// otherwise, as nothing here has a place for them in float32, widened.
func (b *bitsAndBytes) storedAs(set *checkpoint.Set, name string) core.DType {
	if dtype, _, found := set.Lookup(name + ".absmax"); found && dtype == core.Float32 {
		return core.Float32
	}
	return core.NF4
}

// has reports whether a tensor of the files stands for others.
func (b *bitsAndBytes) has(set *checkpoint.Set, name string) bool {
	if b == nil {
		return false
	}
	dtype, _, _ := set.Lookup(name)
	return dtype == core.InvalidDType || dtype == core.Int8 || b.isNF4(set, name)
}

// fill fills an entry of a parameter, and returns the names of the tensors beside it.
func (b *bitsAndBytes) fill(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	dtype, _, _ := set.Lookup(e.Name)
	switch {
	case dtype == core.Int8 && p.Tensor.DType == core.Int8:
		return b.fillInt8(set, p, e)
	case p.Tensor.DType == core.NF4:
		return b.fillNF4(set, p, e)
	case b.isNF4(set, e.Name) && p.Tensor.DType == core.Float32 && b.storedAs(set, e.Name) == core.Float32:
		return b.fillWidened(set, p, e)
	case dtype == core.InvalidDType && !b.isNF4(set, e.Name):
		return nil, fmt.Errorf("%s is bytes without %s%snf4 beside it, which says what they are", e.Name, e.Name, stateSuffix)
	}
	return nil, fmt.Errorf("%s is quantised, which is read of the weights of linear layers alone, and where those beside it in memory "+
		"are, too", e.Name)
}

// fillInt8 fills an entry from int8, and what 127 stands for in each row.
func (b *bitsAndBytes) fillInt8(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	layer := strings.TrimSuffix(e.Name, "weight")
	used = []string{layer + scaleSuffix, layer + formSuffix}
	form, ok, err := set.Bytes(used[1])
	if ok && err == nil && (len(form) != 1 || form[0] != 0) {
		err = fmt.Errorf("%s is %v, and not 0, rows one after the other", used[1], form)
	}
	if err != nil {
		return used, err
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
	Type        string   `json:"quant_type"`
	Block       int      `json:"blocksize"`
	DType       string   `json:"dtype"`
	Shape       []int    `json:"shape"`
	NestedBlock int      `json:"nested_blocksize"`
	NestedDType string   `json:"nested_dtype"`
	Offset      *float32 `json:"nested_offset"`
}

// check compares it with what NF4 is here, whose blocks' numbers are codes if they are nested.
func (s quantState) check(e nn.Entry, nested bool) error {
	switch {
	case s.Type != "nf4":
		return fmt.Errorf("quant_type is %q, want \"nf4\"", s.Type)
	case s.Block != block:
		return fmt.Errorf("blocksize is %d, want %d", s.Block, block)
	case !slices.Equal(s.Shape, []int(e.Shape)):
		return fmt.Errorf("shape is %v, want %v", s.Shape, e.Shape)
	case nested && s.NestedBlock != nestedBlock:
		return fmt.Errorf("nested_blocksize is %d, want %d", s.NestedBlock, nestedBlock)
	case nested && s.Offset == nil:
		return errors.New("nested_offset is missing")
	case !nested && s.NestedBlock != 0:
		return fmt.Errorf("nested_blocksize is %d, but absmax is float32, and no code", s.NestedBlock)
	}
	return nil
}

// codes reads the codes of an entry, once it is clear what they are, and what is said of them.
func (b *bitsAndBytes) codes(set *checkpoint.Set, e nn.Entry, nested bool) (codes []byte, s quantState, err error) {
	state, table := e.Name+stateSuffix+"nf4", e.Name+".quant_map"
	text, err := b.bytes(set, state)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil {
		err = s.check(e, nested)
	}
	if err != nil {
		return nil, s, fmt.Errorf("%s: %w", state, err)
	}
	known, err := scalesOf(set, table, len(core.NF4Values))
	if err == nil && !slices.Equal(known, core.NF4Values[:]) {
		err = fmt.Errorf("%s has other values than NF4", table)
	}
	if err != nil {
		return nil, s, err
	}
	b.dtypes[e.Name] = s.DType
	codes, isBytes, err := set.Bytes(e.Name)
	if err == nil && !isBytes { // numbers whose bytes they are: bnb_4bit_quant_storage
		var t core.Tensor
		t, err = set.Tensor(e.Name)
		codes = t.Data
	}
	return codes, s, err
}

// beside are the names of the tensors beside the codes of an entry.
func beside(e nn.Entry, names ...string) (all []string) {
	for _, name := range append(names, "quant_map") {
		all = append(all, e.Name+"."+name)
	}
	return append(all, e.Name+stateSuffix+"nf4")
}

// fillNF4 fills an entry from codes of NF4, and codes of what their blocks are multiplied by.
func (b *bitsAndBytes) fillNF4(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	used = beside(e, "absmax", "nested_absmax", "nested_quant_map")
	codes, s, err := b.codes(set, e, true)
	if err != nil {
		return used, err
	}
	blocks, err := b.bytes(set, used[0])
	if err != nil {
		return used, err
	}
	scale, err := scalesOf(set, used[1], (len(blocks)+nestedBlock-1)/nestedBlock)
	if err != nil {
		return used, err
	}
	of, err := scalesOf(set, used[2], 256)
	if err != nil {
		return used, err
	}
	return used, p.SetNF4(e, codes, blocks, of, scale, *s.Offset)
}

// fillWidened fills an entry in float32 with what codes of NF4 stand for, whose blocks are multiplied by numbers in float32.
func (b *bitsAndBytes) fillWidened(set *checkpoint.Set, p *nn.Param, e nn.Entry) (used []string, err error) {
	used = beside(e, "absmax")
	codes, _, err := b.codes(set, e, false)
	if err != nil {
		return used, err
	}
	to := e.View(p.Tensor).Float32s()
	absmax, err := scalesOf(set, used[0], (len(to)+block-1)/block)
	if err != nil {
		return used, err
	}
	if len(codes) != (len(to)+1)/2 {
		return used, fmt.Errorf("%s has %d bytes, want %d", e.Name, len(codes), (len(to)+1)/2)
	}
	p.Written()
	for i := range to {
		to[i] = core.NF4Values[codes[i/2]>>(4*(1-i%2))&15] * absmax[i/block]
	}
	return used, nil
}

// bytes reads a tensor that must be bytes.
func (b *bitsAndBytes) bytes(set *checkpoint.Set, name string) ([]byte, error) {
	got, ok, err := set.Bytes(name)
	if err == nil && !ok {
		err = fmt.Errorf("%s is missing, or not of unsigned bytes (U8)", name)
	}
	return got, err
}
