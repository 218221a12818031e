package models

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/os/plainfile"
)

// absent says what to do about a model folder that does not exist. Many a program takes the
// name that a model has on a hub; here nothing is downloaded.
func absent(dir string, err error) error {
	name := hubName(dir)
	if name == "" {
		return fmt.Errorf("%w; name a Hugging Face model folder (nothing is downloaded)", plainfile.Explain(err))
	}
	if folder := cached(name); folder != "" {
		return fmt.Errorf("%s is no folder, but the cache of the Hugging Face Hub has it: name %s", dir, folder)
	}
	return fmt.Errorf("%s is no folder, and nothing is downloaded: get the model first, for instance with \"hf download %s --local-dir %[3]s\", and name the folder %[3]s",
		dir, name, name[strings.IndexByte(name, '/')+1:])
}

// hubForm is how a hub names models, alone or at the end of an address.
var hubForm = regexp.MustCompile(`^(?:https?://[^/]+/)?([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/?$`)

// hubName returns the name of a model on a hub, or nothing if dir is none: an owner and a
// model, where the owner is no folder here.
func hubName(dir string) string {
	match := hubForm.FindStringSubmatch(dir)
	if match == nil {
		return ""
	}
	if owner, _, _ := strings.Cut(dir, "/"); !strings.HasSuffix(owner, ":") {
		if _, err := os.Stat(owner); err == nil {
			return ""
		}
	}
	return match[1]
}

// cached returns the folder in which transformers keeps a model that it has downloaded, the
// newest if there are several.
func cached(name string) string {
	home, _ := os.UserHomeDir()
	hub := cmp.Or(os.Getenv("HF_HUB_CACHE"), filepath.Join(cmp.Or(os.Getenv("HF_HOME"), filepath.Join(home, ".cache", "huggingface")), "hub"))
	configs, _ := filepath.Glob(filepath.Join(hub, "models--"+strings.ReplaceAll(name, "/", "--"), "snapshots", "*", configFile))
	if len(configs) == 0 {
		return ""
	}
	age := func(path string) int64 {
		info, err := os.Lstat(filepath.Dir(path))
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	return filepath.Dir(slices.MaxFunc(configs, func(a, b string) int { return cmp.Compare(age(a), age(b)) }))
}
