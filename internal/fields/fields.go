// Package fields names the fields of a configuration, for errors that are read by Go
// programmers and, translated, by users of a command.
package fields

import (
	"reflect"
	"strings"
)

// Names returns the fields of a struct, and of the structs in it, by their path in its JSON:
// "checkpoints.keep" is "trainer.Checkpoints.Keep", a field by the package and the type that
// has it. Fields that JSON leaves out are missing.
func Names(of reflect.Type) map[string]string {
	all := map[string]string{}
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, t reflect.Type) {
		for f := range t.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case key == "" || key == "-":
			case f.Type.Kind() == reflect.Struct:
				walk(prefix+key+".", f.Type)
			default:
				all[prefix+key] = t.String() + "." + f.Name
			}
		}
	}
	walk("", of)
	return all
}
