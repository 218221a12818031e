package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestErrorsOfPathsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.jsonl"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for name, tt := range map[string]struct{ path, want string }{
		"a name that is near": {"trian.jsonl", "trian.jsonl does not exist (did you mean train.jsonl?)"},
		"nothing near":        {"notes.txt", "notes.txt does not exist"},
		"no folder either":    {"data/notes.txt", "data/notes.txt does not exist, nor does the folder data"},
		"a home that stays": {"~/notes.txt",
			"~/notes.txt does not exist; no shell has put a home folder for ~ here: write $HOME/notes.txt"},
		"an address": {"s3://bucket/notes.txt",
			"s3://bucket/notes.txt does not exist; nothing is downloaded: get it yourself, and name the file"},
		"a file taken for folder": {"train.jsonl/x", "train.jsonl/x cannot be: a part of that path is a file, not a folder"},
		"a folder taken for file": {".", ". is a folder; name a file"},
		"a name without end":      {strings.Repeat("x", 4000), strings.Repeat("x", 40) + "...: the name is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := os.ReadFile(tt.path)
			if got := Explain(err); got.Error() != tt.want {
				t.Errorf("error\n%v, want\n%s", got, tt.want)
			} else if !errors.Is(got, errors.Unwrap(err)) {
				t.Errorf("%v is no %v any more", got, err)
			}
		})
	}
	denied := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}
	if got, want := Explain(denied).Error(),
		"x: permission denied; see its owner and mode, and those of the folders above it"; got != want {
		t.Errorf("error %s", got)
	}
}

func TestOtherErrorsStay(t *testing.T) {
	other := errors.New("other")
	if Explain(other) != other || Explain(nil) != nil {
		t.Error("changed")
	}
	odd := &fs.PathError{Op: "read", Path: "x", Err: errors.New("odd")}
	if got := Explain(odd).Error(); got != "x: odd" {
		t.Errorf("error %s", got)
	}
}

func TestTheRemedyForFewOrSmallFilesIsSaidOnce(t *testing.T) {
	other := errors.New("other")
	if got := ExplainFiles(other); got != other {
		t.Errorf("another error is %v", got)
	}
	for cause, want := range map[error]string{
		syscall.EMFILE: "open x: too many open files; raise the limit of open files (ulimit -n)",
		syscall.ENFILE: "open x: too many open files in system; raise the system's limit of open files (fs.file-max)",
		syscall.EFBIG: "open x: file too large; raise the limit of a file's size (ulimit -f), or take a disk whose " +
			"file system has none, as FAT has",
	} {
		err := ExplainFiles(&fs.PathError{Op: "open", Path: "x", Err: cause})
		if got := ExplainFiles(err); got.Error() != want && runtime.GOOS == "linux" || !errors.Is(got, cause) {
			t.Errorf("error %v, want %s", got, want)
		}
	}
}
