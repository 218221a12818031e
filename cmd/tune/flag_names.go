package main

import (
	"cmp"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/seed98097648/tune/internal/fields"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/generate"
)

// fieldName is how the errors of the trainer's packages name the fields of a configuration.
var fieldName = regexp.MustCompile(`\b[a-z]+\.[A-Z]\w*\.[A-Z]\w*`)

// flagNames has the flag of each field. They are called as in the files of a run, but for a
// few.
var flagNames = sync.OnceValue(func() map[string]string {
	other := map[string]string{"data.paths": "data", "data.eval": "eval-data", "data.format": "data-format",
		"checkpoint_parts": "gradient-checkpointing", "data.cutoff": "seq"} // what it was
	all := map[string]string{
		"trainer.Config.MaxTime":        "--max-time",   // which no file of a run has
		"trainer.Ranks.SyncCheck":       "--sync-check", // nor these
		"trainer.Reduction.Type":        "--reduce-dtype",
		"trainer.Reduction.Behind":      "--reduce-behind",
		"trainer.Reduction.Shard":       "--shard-optimizer",
		"transport.Options.MaxMemory":   "--plugin-memory",
		"transport.Options.MaxCPUs":     "--plugin-cpus",
		"transport.Options.CallTimeout": "--call-timeout",
	}
	for _, of := range []reflect.Type{reflect.TypeFor[trainer.Config](), reflect.TypeFor[generate.Sampling]()} {
		for path, field := range fields.Names(of) {
			name := cmp.Or(other[path], path[strings.LastIndex(path, ".")+1:])
			all[field] = "--" + strings.ReplaceAll(name, "_", "-")
		}
	}
	return all
})

// flagged is a text for somebody who has given flags.
func flagged(text string) string {
	return fieldName.ReplaceAllStringFunc(text, func(field string) string { return cmp.Or(flagNames()[field], field) })
}
