package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// infoFile is LLaMA-Factory's registry of data sets.
const infoFile = "dataset_info.json"

// entry is a data set of a dataset_info.json, with the names of its fields.
type entry struct {
	File       string            `json:"file_name"`
	Formatting string            `json:"formatting"`
	Columns    map[string]string `json:"columns"`
	Tags       map[string]string `json:"tags"`
	Ranking    bool              `json:"ranking"`
	Samples    int               `json:"num_samples"`
	Split      string            `json:"split"`
	Subset     string            `json:"subset"`
	Folder     string            `json:"folder"`

	HubURL        string `json:"hf_hub_url"`
	ModelScopeURL string `json:"ms_hub_url"`
	OpenMindURL   string `json:"om_hub_url"`
	ScriptURL     string `json:"script_url"`
	CloudFile     string `json:"cloud_file_name"`

	name string
	bad  error // what does not fit these fields
}

// readInfo reads the registry of a folder; nil if dir is empty.
func readInfo(dir string) (map[string]*entry, error) {
	if dir == "" {
		return nil, nil
	}
	path := filepath.Join(dir, infoFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && exists(dir) {
		return nil, fmt.Errorf("corpus.Config.Dir: %s has no %s; without that file, give its files to corpus.Config.Paths",
			dir, infoFile)
	}
	if err != nil {
		return nil, fmt.Errorf("corpus.Config.Dir: %w", plainfile.Explain(err))
	}
	var raw map[string]json.RawMessage
	if err := plainjson.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("corpus.Config.Dir: %s: %w", path, err)
	}
	entries := map[string]*entry{}
	for name, fields := range raw {
		// Only what is wrong with an entry that is used matters.
		e := &entry{name: name}
		d := json.NewDecoder(bytes.NewReader(fields))
		d.DisallowUnknownFields()
		e.bad = plainjson.Explain(fields, e, d.Decode(e))
		entries[name] = e
	}
	return entries, nil
}

// fill completes a source from the entry.
func (e *entry) fill(s *Source, dir string) (err error) {
	if err := errors.Join(e.bad, e.refused()); err != nil {
		return fmt.Errorf("%s: %s: %w", filepath.Join(dir, infoFile), e.name, err)
	}
	if s.Files, s.Skipped, err = dataFiles(filepath.Join(dir, filepath.FromSlash(e.File))); err != nil {
		return fmt.Errorf("%s: %s: %w", filepath.Join(dir, infoFile), e.name, err)
	}
	s.Samples = e.Samples
	s.describe = func(first records.Record) (format.Layout, error) {
		if e.Ranking || e.Columns["kto_tag"] != "" {
			return format.DescribedPreference(e.Formatting, e.Columns, e.Tags, first)
		}
		return format.Described(e.Formatting, e.Columns, e.Tags, first)
	}
	return nil
}

// refused says what of an entry cannot be done.
func (e *entry) refused() error {
	for _, field := range []struct{ name, value string }{{"hf_hub_url", e.HubURL}, {"ms_hub_url", e.ModelScopeURL},
		{"om_hub_url", e.OpenMindURL}, {"script_url", e.ScriptURL}, {"cloud_file_name", e.CloudFile}} {
		if field.value != "" {
			return fmt.Errorf("%s is %q, but nothing is downloaded: get the data set yourself, and replace the field by "+
				"file_name", field.name, field.value)
		}
	}
	for _, field := range []struct{ name, value string }{{"subset", e.Subset}, {"folder", e.Folder}} {
		if field.value != "" {
			return fmt.Errorf("%s is %q, which means something only on a hub; name the file with file_name instead", field.name,
				field.value)
		}
	}
	switch {
	case e.File == "":
		return errors.New("no file_name")
	case e.Split != "" && e.Split != "train":
		return fmt.Errorf("split is %q, but a file has no split other than train; name the file of that split with "+
			"file_name", e.Split)
	case e.Samples < 0:
		return fmt.Errorf("num_samples is %d, must not be negative", e.Samples)
	}
	for _, media := range []string{"images", "videos", "audios"} {
		if e.Columns[media] != "" {
			return fmt.Errorf("columns has %s, but only text can be trained on", media)
		}
	}
	return e.unknown()
}

// The columns and tags that LLaMA-Factory has.
var (
	columns = strings.Fields("prompt query response history messages system tools images videos audios " +
		"chosen rejected kto_tag")
	tags = strings.Fields("role_tag content_tag user_tag assistant_tag observation_tag function_tag system_tag")
)

// unknown reports a column or tag that LLaMA-Factory does not have.
func (e *entry) unknown() error {
	for name := range e.Columns {
		if !slices.Contains(columns, name) {
			return fmt.Errorf("columns has the unknown key %q", name)
		}
	}
	for name := range e.Tags {
		if !slices.Contains(tags, name) {
			return fmt.Errorf("tags has the unknown key %q", name)
		}
	}
	if f := e.Formatting; f != "" && f != "alpaca" && f != "sharegpt" {
		return fmt.Errorf("formatting is %q; want alpaca or sharegpt", f)
	}
	return nil
}
