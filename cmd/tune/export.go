package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/gguf"
)

const exportLong = `Write a model as a GGUF file, which llama.cpp, Ollama and programs around them
run: with its tokenizer and its chat template, tensor by tensor, so that little
memory is needed. --type says how matrices are stored; the default keeps what
the folder has:

  f32, f16, bf16  as they are, or rounded
  q8_0            8 bits, and a scale for each 32 numbers
  q4_0            4 bits, and a scale for each 32 numbers

A model that llama.cpp would compute otherwise than tune is refused, with the
reason; docs/export.md says what that is.`

func (a *app) exportCommand() *Command {
	c := &Command{Name: "export", Usage: "--model DIR --gguf FILE [FLAGS]",
		Short: "write a model as a file for llama.cpp and Ollama", Long: exportLong,
		Examples: "tune export --model DIR --gguf model.gguf\n" +
			"tune export --model DIR --gguf small.gguf --type q8_0\n"}
	var o gguf.Options
	f := c.Group("Flags")
	f.StringVar(&o.Model, "model", "", "the model `FOLDER`")
	f.StringVar(&o.Out, "gguf", "", "the `FILE` to write, which must not exist")
	f.StringVar(&o.Type, "type", "", "how matrices are stored: "+strings.Join(gguf.TypeNames(),
		", ")+"; default: as in the folder")
	return c.finish(func(_ context.Context, _ []string) (err error) {
		for _, needed := range []string{"model", "gguf"} {
			if c.Flags.Lookup(needed).Value.String() == "" {
				return c.usagef("--%s is missing: export needs --model and --gguf", needed)
			}
		}
		if o.Type != "" {
			if err := c.oneOf("type", o.Type, gguf.TypeNames()...); err != nil {
				return err
			}
		}
		a.saves = true
		mem, err := newMemory()
		if err != nil {
			return err
		}
		defer closing(mem, &err)
		r, err := gguf.Export(o, mem)
		if err != nil {
			return err
		}
		for _, note := range r.Notes {
			a.note("%s", note)
		}
		if n := len(r.Float16); n > 0 {
			a.note("%s whose rows are no multiple of 32 became f16, such as %s", amount.Of(n, "tensor"), r.Float16[0])
		}
		fmt.Fprintf(a.stdout, "saved %s: %s, %s, %s in %s\n", o.Out, r.Arch, r.Type, amount.Of(r.Tensors, "tensor"),
			amount.Bytes(r.Bytes))
		return nil
	})
}
