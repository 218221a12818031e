package scaffold_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
	"github.com/seed98097648/tune/internal/scaffold"
	"github.com/seed98097648/tune/internal/testdata"
)

// TestPluginsOfEveryOpCompile type-checks programs and tests as they are written, in
// modules of their own without network. What they compute is tested in the packages that
// they are copies of. The modules are all the same, so that one which has every plugin as a package stands for them:
// to load what a module depends on takes the go command longer than to check a plugin.
func TestPluginsOfEveryOpCompile(t *testing.T) {
	all := t.TempDir()
	module := map[string]string{}
	for _, op := range core.Ops() {
		for _, fast := range []bool{false, true} {
			if fast && ops.Of(op).Fast.Kernel == "" {
				continue
			}
			dir := filepath.Join(all, fmt.Sprintf("%s_fast_%v", op, fast))
			p := scaffold.Plugin{Name: "math", Op: op, Fast: fast, Source: testdata.Root(t)} // like a package of the standard library
			if err := p.Write(dir); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"go.mod", "go.sum"} {
				text := readFile(t, filepath.Join(dir, name))
				if first, ok := module[name]; ok && text != first {
					t.Errorf("%s, fast %v, has another %s than the first:\n%s", op, fast, name, text)
				}
				module[name] = text
				if err := os.Rename(filepath.Join(dir, name), filepath.Join(all, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	goCommand(t, all, "vet", "-mod=readonly", "./...")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goCommand runs the go command in a plugin's folder, without network.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGo(dir, args...)
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return out
}

func tryGo(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS="+testdata.TrimPath())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAFolderThatIsHandedOn is built where the checkout is another one, after the command that
// go.mod has for it, and where there is none, with everything in the folder.
func TestAFolderThatIsHandedOn(t *testing.T) {
	own, theirs := filepath.Join(t.TempDir(), "own"), filepath.Join(t.TempDir(), "theirs")
	for _, at := range []string{own, theirs} {
		if err := os.Symlink(testdata.Root(t), at); err != nil {
			t.Skip(err)
		}
	}
	p := plugin(t)
	p.Source = own
	dir := filepath.Join(t.TempDir(), "k")
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	list := []string{"list", "-deps", "-test", "."}
	goCommand(t, dir, list...)
	vendored := filepath.Join(t.TempDir(), "k")
	if err := os.CopyFS(vendored, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	goCommand(t, vendored, "mod", "vendor")

	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if out, err := tryGo(dir, list...); err == nil {
		t.Errorf("it is built without a checkout:\n%s", out)
	}
	goCommand(t, vendored, list...)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile(`(?m)^//\tgo (mod edit -replace .*)=FOLDER$`).FindSubmatch(mod)
	if told == nil {
		t.Fatalf("go.mod does not say how to change the folder:\n%s", mod)
	}
	goCommand(t, dir, strings.Fields(string(told[1])+"="+theirs)...)
	goCommand(t, dir, list...)
}

// TestAPluginCarriesItsNameAlone: nothing of the placeholders or of the package that is
// copied is left, and every plugin has the same kinds of files.
func TestAPluginCarriesItsNameAlone(t *testing.T) {
	want := []string{".gitignore", "README.md", "bench_test.go", "go.mod", "go.sum", "kernel.go", "kernel_test.go", "main.go", "oracle_test.go"}
	for i := range 2 * len(core.Ops()) {
		op := core.Ops()[i/2]
		if i%2 == 1 && ops.Of(op).Fast.Kernel == "" {
			continue
		}
		files, err := scaffold.Plugin{Name: "quick_one", Op: op, Fast: i%2 == 1, Source: testdata.Root(t)}.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			if len(files[name]) == 0 {
				t.Errorf("%s: no %s", op, name)
			}
		}
		for name, text := range files {
			for _, left := range []string{"my_kernel", "npu_", "ackage kernel", "kernel of the plugin", "{{.", "<no value>", "internal/"} {
				if strings.Contains(string(text), left) {
					t.Errorf("%s: %s has %q", op, name, left)
				}
			}
			if strings.HasSuffix(name, ".go") && !strings.Contains(string(text), "package main\n") {
				t.Errorf("%s: %s is not of package main", op, name)
			}
		}
		for name, part := range map[string]string{"kernel.go": `"quick_one"`, "README.md": "kernels verify bin/quick_one", "go.mod": "module example.com/quick_one\n"} {
			if !strings.Contains(string(files[name]), part) {
				t.Errorf("%s: %s lacks %q", op, name, part)
			}
		}
	}
}

// TestTheReadmeIsOfTheOp: it names every source that is there and none that is not, and promises neither a backward
// pass nor a training run to an op for inference.
func TestTheReadmeIsOfTheOp(t *testing.T) {
	source := regexp.MustCompile("`(\\w+\\.go)`")
	for _, op := range core.Ops() {
		files, err := scaffold.Plugin{Name: "k", Op: op, Source: testdata.Root(t)}.Files()
		if err != nil {
			t.Fatal(err)
		}
		var have, told []string
		for name := range files {
			if strings.HasSuffix(name, ".go") {
				have = append(have, name)
			}
		}
		readme := string(files["README.md"])
		for _, m := range source.FindAllStringSubmatch(readme, -1) {
			told = append(told, m[1])
		}
		slices.Sort(have)
		slices.Sort(told)
		if !slices.Equal(have, told) {
			t.Errorf("%s: the folder has %q, its README tells of %q", op, have, told)
		}
		trained := len(op.Passes()) == 2
		for _, text := range []string{"forward and backward", "and gradients", "--steps"} {
			if strings.Contains(readme, text) != trained {
				t.Errorf("%s, which has the passes %v: README has %q: %v", op, op.Passes(), text, !trained)
			}
		}
	}
}

func plugin(t *testing.T) scaffold.Plugin {
	return scaffold.Plugin{Name: "k", Op: core.RoPE, Source: testdata.Root(t)}
}

// TestNothingIsOverwritten: a folder with anything in it, hidden or not, and a file or a
// link in place of the folder stay as they are.
func TestNothingIsOverwritten(t *testing.T) {
	for name, occupy := range map[string]func(dir string) error{
		"a folder with a file":    func(dir string) error { return occupied(dir, "notes.txt") },
		"a folder with a go file": func(dir string) error { return occupied(dir, "kernel.go") },
		"a folder with .git":      func(dir string) error { return occupied(dir, ".git") },
		"a file":                  func(dir string) error { return os.WriteFile(dir, []byte("mine"), 0o600) },
		"a link to a folder":      func(dir string) error { return os.Symlink(filepath.Dir(dir), dir) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "k")
			if err := occupy(dir); err != nil {
				t.Skip(err)
			}
			before := list(t, parent)
			err := plugin(t).Write(dir)
			if err == nil || !strings.Contains(err.Error(), "exists and is not") || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want one that says what is in the way", err)
			}
			if after := list(t, parent); !slices.Equal(before, after) {
				t.Errorf("files before %q, after %q", before, after)
			}
		})
	}
}

func occupied(dir, name string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600)
}

// list returns all paths below a folder with their contents.
func list(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			all = append(all, path)
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, path+": "+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAnEmptyFolderIsFilled: that is how an author may start.
func TestAnEmptyFolderIsFilled(t *testing.T) {
	dir := t.TempDir()
	if err := plugin(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kernel.go")); err != nil {
		t.Error(err)
	}
}

// TestAFailureLeavesNothing: neither the folder nor a part of it.
func TestAFailureLeavesNothing(t *testing.T) {
	for name, change := range map[string]func(p *scaffold.Plugin){
		"a bad name":          func(p *scaffold.Plugin) { p.Name = "No" },
		"an unknown op":       func(p *scaffold.Plugin) { p.Op = "gelu" },
		"no kernel in C":      func(p *scaffold.Plugin) { p.C = true },
		"no checkout":         func(p *scaffold.Plugin) { p.Source = t.TempDir() },
		"a go.mod of nothing": func(p *scaffold.Plugin) { p.Source = written(t, "go.mod", "go 1.26\n") },
		"no go.sum":           func(p *scaffold.Plugin) { p.Source = written(t, "go.mod", "module m\n") },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			p := plugin(t)
			change(&p)
			if err := p.Write(filepath.Join(parent, "k")); err == nil {
				t.Error("no error")
			}
			if after := list(t, parent); len(after) != 1 {
				t.Errorf("left behind: %q", after)
			}
		})
	}
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"my_rmsnorm", "k", "rope2", "a_"} {
		if err := scaffold.CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "My", "2fast", "_k", "a-b", "a b", "a/b", "..", "a.b", "µ", "func", "auto", "none"} {
		if err := scaffold.CheckName(bad); err == nil {
			t.Errorf("%q is taken as a name", bad)
		}
	}
}

// TestACheckoutWithBlanksInItsPath: the go command reads the path back.
func TestACheckoutWithBlanksInItsPath(t *testing.T) {
	source := filepath.Join(t.TempDir(), "a checkout, (mine)")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(testdata.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := plugin(t)
	p.Source = source
	dir := t.TempDir()
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-m", "-f", "{{with .Replace}}{{.Path}}{{end}}", "github.com/seed98097648/tune")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if got := strings.TrimSpace(string(out)); err != nil || filepath.FromSlash(got) != source {
		t.Errorf("go list: %v, the checkout is at %q, want %q", err, got, source)
	}
}
