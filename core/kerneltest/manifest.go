package kerneltest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
)

// CheckManifest returns what is wrong with what a plugin says about itself: a name that
// --kernels can take, a version, and for each kernel the plugin's name, an op of the
// contract that no other kernel of it has, a summary of one line and storage types.
func CheckManifest(m core.Manifest) []Violation {
	var all []Violation
	say := func(format string, args ...any) { all = append(all, Violation{Text: fmt.Sprintf(format, args...)}) }
	if err := core.CheckName(m.Name); err != nil {
		say("the name is %q: %v", m.Name, err)
	}
	if m.Version == "" || strings.ContainsAny(m.Version, " \t\n") {
		say("the version is %q; a version has no blanks and is not empty", m.Version)
	}
	if len(m.Kernels) == 0 {
		say("it offers no kernel")
	}
	seen := map[core.Op]bool{}
	for _, k := range m.Kernels {
		if !slices.Contains(core.Ops(), k.Op) {
			say("it offers %q, which is no op of the contract; known: %v", k.Op, core.Ops())
		}
		if seen[k.Op] {
			say("it offers %s twice", k.Op)
		}
		seen[k.Op] = true
		if k.Name != m.Name {
			say("its kernel for %s is called %q; a plugin's kernels carry its name, %s", k.Op, k.Name, m.Name)
		}
		if k.Summary == "" || strings.ContainsAny(k.Summary, "\r\n") {
			say("the summary of %s is %q; it must be one line", k.Op, k.Summary)
		}
		if err := checkDTypes(k.DTypes); err != nil {
			say("the storage types of %s: %v", k.Op, err)
		}
	}
	return all
}

// CompareManifests says in which way two processes of one plugin differ in what they say about it, "" if in none but
// the words for people. Kernels are asked for by their place, so their order counts.
func CompareManifests(a, b core.Manifest) string {
	ops := func(m core.Manifest) (all []core.Op) {
		for _, k := range m.Kernels {
			all = append(all, k.Op)
		}
		return all
	}
	switch {
	case a.Name != b.Name || a.Version != b.Version:
		return fmt.Sprintf("it was %s %s, and now is %s %s", a.Name, a.Version, b.Name, b.Version)
	case !slices.Equal(ops(a), ops(b)):
		return fmt.Sprintf("its kernels were for %v, and now are for %v", ops(a), ops(b))
	}
	for i, was := range a.Kernels {
		x, y := reflect.ValueOf(was), reflect.ValueOf(b.Kernels[i])
		for n := range x.NumField() {
			name, _, _ := strings.Cut(x.Type().Field(n).Tag.Get("json"), ",")
			old, now := x.Field(n).Interface(), y.Field(n).Interface()
			if name != "summary" && !reflect.DeepEqual(old, now) {
				return fmt.Sprintf("%s of its kernel for %s was %v, and now is %v", name, was.Op, old, now)
			}
		}
	}
	return ""
}

func checkDTypes(dtypes []core.DType) error {
	if len(dtypes) == 0 {
		return fmt.Errorf("none is named")
	}
	for i, d := range dtypes {
		if !slices.Contains([]core.DType{core.Float32, core.BFloat16, core.Float16, core.Float64, core.Int8, core.NF4}, d) {
			return fmt.Errorf("%s is not a type of activations or weights", d)
		}
		if slices.Contains(dtypes[:i], d) {
			return fmt.Errorf("%s is named twice", d)
		}
	}
	return nil
}

// checkClaims compares the storage types that a kernel names, and the outputs that it can add to, with those of the
// cases that it supports: what it names and no case has would go unchecked.
func checkClaims(info core.Info, results []Result) []Violation {
	ran := map[core.DType]bool{}
	for _, r := range results {
		ran[r.Facts.DType] = ran[r.Facts.DType] || r.Status != Skipped
	}
	var all []Violation
	for _, d := range storage() {
		switch named := slices.Contains(info.DTypes, d); {
		case named && !ran[d]:
			all = append(all, Violation{Text: fmt.Sprintf("names %s as a storage type but supports no case in it, "+
				"so nothing was checked", d)})
		case !named && ran[d]:
			all = append(all, Violation{Text: fmt.Sprintf("supports cases in %s, which it does not name as a storage type", d)})
		}
	}
	for _, name := range info.Adds {
		if !slices.ContainsFunc(results, func(r Result) bool { return r.Status != Skipped && r.canAdd(info, name) }) {
			all = append(all, Violation{Text: fmt.Sprintf("says that it can add to %q, which is a float32 output of backward "+
				"in no case that it supports, so nobody ever asks it to", name)})
		}
	}
	return all
}

// canAdd reports whether the case has an output of that name that the kernel can add to.
func (r Result) canAdd(info core.Info, name string) bool {
	sig, err := core.NewSignature(info.Op, core.Backward, r.Facts)
	return err == nil && info.CanAdd(name, r.Tokens) && slices.ContainsFunc(sig.Out, func(a core.Arg) bool {
		return a.Name == name && a.DType == core.Float32
	})
}

// storage are the types that a model's tensors can have.
func storage() []core.DType { return []core.DType{core.Float32, core.BFloat16, core.Float16} }
