package corpus

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/data"
)

// Set is a part of the evaluation data that is told apart.
type Set struct {
	Name string
	Rows data.Rows
}

// setName is what may stand before the = of NAME=FILE.
var setName = regexp.MustCompile(`^[\w.-]+$`)

// ResolveEval is Resolve for evaluation data, of which each may have the name of its set before it, as in
// maths=test.jsonl. Without one, it is called as its file is, without the folder and the extension, or as it was
// given where two would be called so.
func ResolveEval(paths []string, dir string) ([]Source, error) {
	var all []Source
	var named []bool
	for _, path := range paths {
		for _, one := range split(path) {
			name, rest, ok := strings.Cut(one, "=")
			if ok = ok && setName.MatchString(name) && !exists(one); !ok {
				rest = one
			}
			found, err := Resolve([]string{rest}, dir)
			if err != nil {
				return nil, err
			}
			for _, s := range found {
				if s.Set = name; !ok {
					s.Set = strings.TrimSuffix(filepath.Base(s.Name), filepath.Ext(s.Name))
				}
				all, named = append(all, s), append(named, ok)
			}
		}
	}
	return distinct(all, named), nil
}

// distinct gives sources that nobody has named, and that would be called as others are, longer names.
func distinct(all []Source, named []bool) []Source {
	count := map[string]int{}
	for _, s := range all {
		count[s.Set]++
	}
	for i, s := range all {
		if !named[i] && count[s.Set] > 1 {
			all[i].Set = s.Name
		}
	}
	return all
}

// evaluationSets reads the sources, and returns the numbers of each set's examples, in the order of the names'
// first places. No example is there twice.
func (l *loader) evaluationSets(ctx context.Context, sources []Source) (names []string, examples [][]int, err error) {
	for _, s := range sources {
		read, err := l.mix(ctx, []Source{s})
		if err != nil {
			return nil, nil, err
		}
		i := slices.Index(names, s.Set)
		if i < 0 {
			i = len(names)
			names, examples = append(names, s.Set), append(examples, nil)
		}
		examples[i] = append(examples[i], read[0].examples...)
	}
	return names, examples, nil
}

// packSets lays each set into rows of its own. There are no sets where there is only one, which is all of the rows.
func (l *loader) packSets(names []string, examples [][]int) (data.Rows, []Set, error) {
	var all data.Joined
	var sets []Set
	for i, name := range names {
		rows, err := l.pack(examples[i])
		if err != nil {
			return nil, nil, err
		}
		all, sets = append(all, rows), append(sets, Set{name, rows})
	}
	if len(sets) == 1 {
		return sets[0].Rows, nil, nil
	}
	return all, sets, nil
}
