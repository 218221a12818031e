package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/internal/nearest"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// Source is one data set: the files of a path, or an entry of a dataset_info.json.
type Source struct {
	Name    string // as it was given, without the weight
	Set     string // of evaluation data, what its figures are told under; see ResolveEval
	Files   []string
	Skipped []string // what else is in the folder, by name
	Weight  float64  // the share of its examples that a pass over the data has
	Samples int      // how many examples that is at a weight of 1; 0 for all

	describe func(first records.Record) (format.Layout, error) // nil: by the columns
}

// Resolve finds what paths name. Each is a file, a folder, or a name in dir's
// dataset_info.json, where dir is not empty, with a weight after an @ if it has one; or
// several of these with commas between. A file whose name has an @ or a comma is found
// before these mean anything.
func Resolve(paths []string, dir string) ([]Source, error) {
	info, err := readInfo(dir)
	if err != nil {
		return nil, err
	}
	var all []Source
	for _, path := range paths {
		for _, one := range split(path) {
			s, err := resolve(one, dir, info)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// split cuts a list at its commas, beside which there may be spaces, unless it is the name of one file.
func split(path string) []string {
	if exists(path) || !strings.Contains(path, ",") {
		return []string{path}
	}
	parts := strings.Split(path, ",")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}
	return parts
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func resolve(path, dir string, info map[string]*entry) (Source, error) {
	name, weight, err := cutWeight(path)
	if err != nil {
		return Source{}, err
	}
	s := Source{Name: name, Weight: weight}
	if e := info[name]; e != nil {
		return s, e.fill(&s, dir)
	}
	if name == "" {
		return s, errors.New("a path is empty")
	}
	s.Files, s.Skipped, err = dataFiles(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, absent(name, dir, info, err)
	}
	return s, err
}

// absent says what to do about a path that is nothing.
func absent(name, dir string, info map[string]*entry, err error) error {
	if dir != "" {
		known := slices.Sorted(maps.Keys(info))
		if meant, ok := nearest.Name(name, known); ok {
			return fmt.Errorf("%q is neither a file or folder nor a name in %s; did you mean %s?", name,
				filepath.Join(dir, infoFile), meant)
		}
		return fmt.Errorf("%q is neither a file or folder nor a name in %s, which has %s", name,
			filepath.Join(dir, infoFile), cmp.Or(some(known), "none"))
	}
	if !strings.ContainsAny(name, `./\`) {
		return fmt.Errorf("%w; to name a data set of a %s, give its folder with corpus.Config.Dir", err, infoFile)
	}
	if hubForm.MatchString(name) && !exists(filepath.Dir(name)) {
		return fmt.Errorf("%w, and nothing is downloaded: get the data set first, and name its files or folder", err)
	}
	return err
}

// hubForm is how a hub names data sets: an owner and a name without an extension.
var hubForm = regexp.MustCompile(`^[A-Za-z0-9][\w-]*/[\w-]+$`)

// cutWeight takes the weight off a path.
func cutWeight(path string) (name string, weight float64, err error) {
	i := strings.LastIndexByte(path, '@')
	if i < 0 || exists(path) {
		return path, 1, nil
	}
	weight, err = strconv.ParseFloat(path[i+1:], 64)
	const most = 1000
	if err != nil || !(weight > 0 && weight <= most) { // NaN, too
		return "", 0, fmt.Errorf("%s: the weight %q must be a number above 0 and at most %d", path, path[i+1:], most)
	}
	return path[:i], weight, nil
}

// dataFiles returns path itself, or the data files in the folder at path, in the order of
// their names. Folders below it are not read.
func dataFiles(path string) (files, others []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, plainfile.Explain(err)
	}
	if !info.IsDir() {
		return []string{path}, nil, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, nil, plainfile.Explain(err)
	}
	for _, e := range entries {
		switch {
		case e.IsDir():
			others = append(others, e.Name()+"/")
		case records.Known(e.Name()):
			files = append(files, filepath.Join(path, e.Name()))
		default:
			others = append(others, e.Name())
		}
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("folder %s holds no data file (%s), %s", path, records.Extensions(), found(others))
	}
	return files, others, nil
}

// found says what a folder without data has instead.
func found(names []string) string {
	if len(names) == 0 {
		return "it is empty"
	}
	return "only " + some(names)
}

// some lists names, or the first of many.
func some(names []string) string {
	const most = 8
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
