package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/checkpoint"
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
reason; docs/export.md says what that is.

With --adapter FOLDER the file has that LoRA adapter alone, as f32 or f16, for
the file of the model of --model. --modelfile FILE writes what Ollama needs
beside the model: "ollama create NAME -f FILE".`

func (a *app) exportCommand() *Command {
	c := &Command{Name: "export", Usage: "--model DIR --gguf FILE [FLAGS]",
		Short: "write a model as a file for llama.cpp and Ollama", Long: exportLong,
		Examples: "tune export --model DIR --gguf model.gguf --modelfile Modelfile\n" +
			"tune export --model DIR --gguf small.gguf --type q8_0\n" +
			"tune export --model DIR --adapter tune-out --gguf adapter.gguf\n"}
	var o gguf.Options
	var adapter, modelfile string
	f := c.Group("Flags")
	f.StringVar(&o.Model, "model", "", "the model `FOLDER`")
	f.StringVar(&o.Out, "gguf", "", "the `FILE` to write, which must not exist")
	f.StringVar(&o.Type, "type", "", "the `TYPE` in which matrices are stored: "+strings.Join(gguf.TypeNames(),
		", ")+"; default: as in the folder")
	f.StringVar(&adapter, "adapter", "", "the `FOLDER` of a LoRA adapter, which is written in place of the model")
	f.StringVar(&modelfile, "modelfile", "", "write a Modelfile for Ollama to this `FILE`, too, which must not exist")
	return c.finish(func(ctx context.Context, _ []string) (err error) {
		for _, needed := range []string{"model", "gguf"} {
			if c.Flags.Lookup(needed).Value.String() == "" {
				return c.usagef("--%s is missing: export needs --model and --gguf", needed)
			}
		}
		if err := c.notStdout("file", "gguf", "modelfile"); err != nil {
			return err
		}
		if o.Type != "" {
			if err := c.oneOf("type", o.Type, gguf.TypeNames()...); err != nil {
				return err
			}
		}
		if adapter != "" && modelfile != "" {
			return c.usagef("--modelfile is for a model: add the line ADAPTER ./FILE to that of the adapter's model")
		}
		if err := checkModelfile(c, modelfile, o.Out); err != nil {
			return err
		}
		return a.export(ctx, o, adapter, modelfile)
	})
}

// checkModelfile refuses one that could not be written, or not without losing a file, before anything is exported.
func checkModelfile(c *Command, file, model string) error {
	if file == "" {
		return nil
	}
	if filepath.Clean(file) == filepath.Clean(model) {
		return c.usagef("--gguf and --modelfile would both write %s: name another file for one of them", file)
	}
	err := checkpoint.Vacant(file)
	if err == nil {
		err = checkWritable(file)
	}
	if err != nil {
		return fmt.Errorf("--modelfile: %w", err)
	}
	return nil
}

func (a *app) export(ctx context.Context, o gguf.Options, adapter, modelfile string) (err error) {
	a.saves = true
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	var r *gguf.Result
	if adapter != "" {
		r, err = gguf.ExportAdapter(ctx, o, adapter, mem)
	} else {
		r, err = gguf.Export(ctx, o, mem)
	}
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
	if modelfile == "" {
		return nil
	}
	text, without, err := gguf.Modelfile(o.Model, o.Out, modelfile)
	if err != nil {
		return err
	}
	if without != "" {
		a.note("the Modelfile has no TEMPLATE, and Ollama may not know the one in the file: %s", without)
	}
	err = checkpoint.WriteNew(modelfile, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "saved %s: ollama create NAME -f %[1]s\n", modelfile)
	return nil
}
