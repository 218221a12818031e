package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A name of a hub in place of a folder is told what to do, and where the model already is.
func TestAMissingModelSaysHowToGetIt(t *testing.T) {
	t.Chdir(t.TempDir())
	hub := filepath.Join(t.TempDir(), "hub")
	t.Setenv("HF_HUB_CACHE", hub)
	snapshot := filepath.Join(hub, "models--Qwen--Qwen3-0.6B", "snapshots", "abc")
	for _, dir := range []string{snapshot, "models/llama"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(snapshot, configFile), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	const download = `is no folder, and nothing is downloaded: get the model first, for instance with "hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B", ` +
		`and name the folder Qwen2.5-0.5B`
	for dir, want := range map[string]string{
		"Qwen/Qwen2.5-0.5B":                      "Qwen/Qwen2.5-0.5B " + download,
		"https://hub.example/Qwen/Qwen2.5-0.5B/": "https://hub.example/Qwen/Qwen2.5-0.5B/ " + download,
		"Qwen/Qwen3-0.6B":                        "Qwen/Qwen3-0.6B is no folder, but the cache of the Hugging Face Hub has it: name " + snapshot,
		"gpt2":                                   "gpt2 does not exist; name a Hugging Face model folder (nothing is downloaded)",
		"models/lama":                            "models/lama does not exist (did you mean models/llama?); name a Hugging Face model folder",
		"./Qwen/Qwen2.5-0.5B":                    "./Qwen/Qwen2.5-0.5B does not exist, nor does the folder Qwen; name a Hugging Face",
		"~/llama":                                "write $HOME/llama",
	} {
		if _, err := ReadConfig(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error\n%v, want\n%s", dir, err, want)
		}
	}
}
