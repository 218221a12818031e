package core_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

const module = "github.com/seed98097648/tune"

// policy says who may import whom, as data: a package, what it may import directly
// besides the standard library, and what its tests may import on top of that. Because
// every package of the module has a row, the rows together also bound what a package
// reaches indirectly: core reaches no other module, and nothing of the trainer reaches a plugin
// or the transport.
//
// A name with a dot in its first element is another module, with all its packages; any
// other is a package of this one. A name that ends in /... stands for a whole subtree, and
// ./... for what is below the package itself.
// Each other module should have one importer, and the row says which.
var policy = []struct{ pkg, imports, tests string }{
	// Leaves: the machine.
	{"internal/amount", "", ""},
	{"internal/clock", "golang.org/x/sys", ""},
	{"internal/confidence", "", ""},
	{"internal/fields", "", ""},
	{"internal/nearest", "", ""},
	{"internal/plainjson", "", ""},
	{"internal/os/cpu", "", ""},
	{"internal/os/dynlib", "github.com/ebitengine/purego golang.org/x/sys", ""},
	{"internal/os/checksum", "golang.org/x/sys", ""},
	{"internal/os/hugepage", "golang.org/x/sys", "internal/os/shm internal/simd"},
	{"internal/os/memory", "", ""},
	{"internal/os/patient", "golang.org/x/sys", ""},
	{"internal/os/plainfile", "internal/nearest", ""},
	{"internal/os/sandbox", "golang.org/x/sys", ""},
	{"internal/os/sched", "golang.org/x/sys", ""},
	{"internal/os/self", "internal/os/checksum", ""},
	{"internal/os/shm", "internal/amount internal/os/plainfile internal/os/temp golang.org/x/sys", ""},
	{"internal/os/temp", "golang.org/x/sys", ""},
	{"internal/simd", "internal/os/sched golang.org/x/sys", ""},
	{"internal/simd/simdtest", "core core/keep core/kerneltest internal/simd", "core/reference"},
	{"internal/ceiling", "internal/clock internal/os/hugepage internal/simd", ""},
	{"internal/opdef", "core", ""},
	{"internal/ops", "core internal/opdef ./...", ""},
	{"internal/ops/...", "core internal/opdef internal/ops/...", "core/kerneltest"},
	{"internal/ops/attention_pre", "core internal/opdef internal/ops/...", "core/kerneltest trainer/checkpoint"},
	{"internal/opbench", "internal/amount core core/kerneltest internal/ceiling internal/clock internal/ops",
		"core/reference core/transport internal/plugintest plugins/linked"},
	{"internal/growth", "core core/transport internal/ceiling trainer trainer/bench", ""},
	{"internal/pace", "core internal/clock internal/os/hugepage internal/simd trainer/generate trainer/models trainer/tokenizer", "internal/testdata"},
	{"internal/chart", "", "internal/browser"},
	{"internal/browser", "", ""},
	{"internal/scaffold", "core examples internal/ops internal/os/patient plugins", ""},
	{"internal/testdata", "golang.org/x/sys", ""},
	{"internal/ctest", "internal/testdata", ""},
	{"internal/golden", "core internal/opdef internal/ops internal/testdata trainer/checkpoint", "core/reference"},
	{"internal/wire", "core internal/os/sched", ""},
	{"internal/plugintest", "core core/transport internal/testdata", ""},

	// The patcher. core itself stays with the standard library, but for spelling.
	{"core", "internal/nearest", "internal/ops"},
	{"core/reference", "core internal/ops", ""},
	{"core/kerneltest", "core core/reference internal/clock internal/opdef internal/ops internal/os/memory", ""},
	{"core/trust", "core internal/os/patient", ""},
	{"core/vector", "core core/keep internal/os/hugepage internal/simd", ""},
	{"core/keep", "core internal/os/memory internal/wire", ""},
	{"core/transport", "core core/reference core/kerneltest core/transport/proto core/trust internal/clock internal/os/checksum " +
		"internal/os/cpu internal/os/memory internal/os/plainfile internal/os/sched internal/os/self internal/os/shm internal/os/temp " +
		"internal/wire golang.org/x/sys " +
		"github.com/hashicorp/go-plugin github.com/hashicorp/go-hclog google.golang.org/grpc", "core/plugin " +
		"core/transport/... internal/ctest internal/plugintest internal/testdata"},
	{"core/transport/proto", "google.golang.org/grpc google.golang.org/protobuf", ""},

	// What a plugin links must stay small: nothing of the host's side, and no other module's library.
	{"core/plugin", "core internal/clock internal/os/memory internal/os/shm internal/wire golang.org/x/sys",
		"core/reference core/transport/proto google.golang.org/protobuf"},

	// Plugins stand on the contract alone: a program and, below it, its kernel.
	{"plugins", "", ""},
	{"plugins/...", "core core/keep core/plugin core/vector ./...",
		"core/kerneltest core/reference internal/plugintest internal/simd internal/simd/simdtest"},
	{"plugins/npu_fused_attention_pre/pre", "core core/vector plugins/npu_fused_linear/qkv plugins/npu_fused_rmsnorm/rmsnorm " +
		"plugins/npu_fused_rope/rope", "core/kerneltest internal/simd/simdtest plugins/npu_fused_linear/w8a8"},
	{"plugins/blas_linear/blas", "core/vector internal/os/dynlib", ""},
	{"plugins/blas_linear/blaslinear", "core core/vector plugins/blas_linear/blas plugins/npu_fused_linear/linear " +
		"plugins/npu_fused_linear_cross_entropy/linearcrossentropy plugins/npu_fused_moe/moe", "core/kerneltest"},
	{"plugins/onednn_linear/onednn", "core/vector internal/os/dynlib", "core"},
	{"plugins/onednn_linear/onednnlinear", "core plugins/npu_fused_linear/linear plugins/onednn_linear/onednn",
		"core/kerneltest"},
	{"plugins/cuda_linear/cuda", "core core/vector internal/os/dynlib", "internal/ctest"},
	{"plugins/cuda_linear/cudalinear", "core core/vector plugins/cuda_linear/cuda",
		"core/kerneltest internal/ctest internal/simd/simdtest"},
	{"plugins/linked", "core plugins/...", ""},
	{"plugins/builtin", "core core/plugin plugins/linked", "core/transport"},

	// The trainer gets a *core.Registry and never knows where kernels come from.
	{"trainer/autograd",
		"core internal/clock internal/os/shm internal/simd gorgonia.org/gorgonia gorgonia.org/tensor github.com/chewxy/hm " +
			"go4.org/unsafe/assume-no-moving-gc", "core/reference"},
	{"trainer/tokenizer", "internal/plainjson github.com/dlclark/regexp2/v2 golang.org/x/text", ""},
	{"internal/jinja", "internal/plainjson", ""},
	{"trainer/chat", "internal/jinja", ""},
	{"trainer/data", "", "trainer/tokenizer"},
	{"trainer/data/records", "internal/plainjson github.com/parquet-go/parquet-go", ""},
	{"trainer/data/format", "internal/plainjson trainer/chat trainer/data/records", ""},
	{"trainer/data/corpus",
		"internal/nearest internal/os/plainfile internal/plainjson trainer/chat trainer/data trainer/data/format " +
			"trainer/data/records", "trainer/tokenizer"},
	{"trainer/checkpoint", "core core/vector internal/os/patient internal/plainjson internal/simd golang.org/x/sys",
		"internal/testdata"},
	{"trainer/distributed", "internal/clock internal/os/dynlib internal/os/sched internal/os/shm internal/simd golang.org/x/sys", ""},
	{"trainer/optim", "core internal/nearest internal/simd", "trainer/checkpoint"},
	{"trainer/preference", "internal/nearest trainer/data", "core trainer/checkpoint"},
	{"trainer/nn", "core internal/clock internal/simd trainer/autograd trainer/data",
		"core/reference core/kerneltest internal/opdef trainer/checkpoint"},
	{"trainer/crosscheck", "core internal/amount internal/clock internal/simd",
		"core/kerneltest core/reference plugins/linked"},
	{"trainer/lora", "gonum.org/v1/gonum core internal/plainjson internal/simd trainer/checkpoint trainer/nn",
		"trainer/autograd trainer/data trainer/models"},
	{"trainer/models", "core internal/os/plainfile internal/plainjson trainer/autograd trainer/checkpoint trainer/data trainer/lora " +
		"trainer/measure trainer/nn trainer/models/...", "core/reference plugins/npu_fused_linear/gateup trainer/optim"},
	{"trainer/models/...",
		"core internal/plainjson trainer/autograd trainer/checkpoint trainer/data trainer/nn " +
			"trainer/models/...", "core/reference trainer/optim"},
	{"trainer/journal", "core internal/plainjson", ""},
	{"trainer/report", "core internal/amount internal/chart internal/plainjson trainer/journal", "internal/browser"},
	{"trainer/tensorboard", "trainer/journal google.golang.org/protobuf", ""},
	{"trainer/trackio", "trainer/journal", ""},
	{"trainer/wandb", "trainer/journal google.golang.org/protobuf", ""},
	{"trainer/placement", "core internal/plainjson internal/simd trainer/journal", ""},
	{"trainer/measure", "core internal/confidence internal/clock internal/os/checksum internal/os/cpu internal/os/memory internal/os/self internal/os/shm internal/simd trainer/checkpoint " +
		"trainer/nn trainer/placement", "core/reference trainer/autograd"},
	{"trainer/forecast", "core core/vector internal/ceiling trainer/autograd trainer/crosscheck " +
		"trainer/distributed trainer/models trainer/nn trainer/optim", "core/reference trainer trainer/lora"},
	{"trainer/progress", "internal/amount internal/plainjson github.com/schollz/progressbar/v3 golang.org/x/term golang.org/x/text/width " +
		"trainer trainer/preference", "core trainer/data/corpus golang.org/x/sys/unix"},
	{"trainer/bench", "internal/amount internal/confidence core internal/ceiling internal/chart internal/clock internal/os/cpu internal/os/memory internal/opbench internal/simd trainer " +
		"trainer/...", "core/reference core/transport internal/plugintest"},
	{"trainer/demo", "core trainer trainer/data trainer/generate trainer/models trainer/tokenizer",
		"core/reference trainer/autograd trainer/nn trainer/optim"},
	{"trainer/generate",
		"core internal/fields internal/plainjson internal/clock internal/simd trainer/autograd trainer/crosscheck " +
			"trainer/models trainer/nn trainer/tokenizer", "plugins/linked core/kerneltest core/transport internal/plugintest trainer/checkpoint trainer/data " +
			"trainer/lora"},
	{"trainer/metric", "core internal/plainjson trainer/crosscheck trainer/data trainer/generate trainer/models trainer/tokenizer",
		"internal/testdata trainer/autograd"},
	{"trainer/gguf", "core internal/amount internal/simd trainer/chat trainer/checkpoint trainer/generate trainer/lora trainer/models " +
		"trainer/models/hf trainer/nn trainer/tokenizer", "internal/os/dynlib internal/testdata trainer/autograd trainer/data"},
	{"trainer/serve", "internal/fields internal/os/memory internal/plainjson trainer/chat trainer/generate trainer/tokenizer",
		"internal/browser trainer/autograd trainer/checkpoint trainer/lora trainer/models"},
	{"trainer/parity", "core internal/plainjson trainer trainer/...",
		"core/reference core/transport internal/plugintest plugins/linked"},
	{"trainer", "core internal/amount internal/clock internal/os/cpu internal/fields internal/nearest internal/os/hugepage " +
		"internal/os/memory internal/plainjson internal/os/shm internal/simd trainer/...", "core/reference core/transport " +
		"internal/plugintest plugins/builtin plugins/npu_fused_linear/linear"},

	// Programs put the parts together.
	{"cmd/tune", "core core/... " +
		"internal/amount internal/ceiling internal/fields internal/os/hugepage internal/os/memory internal/nearest " +
		"internal/opbench internal/ops internal/os/plainfile internal/plainjson internal/scaffold plugins/builtin " +
		"plugins/linked internal/chart internal/os/shm internal/simd trainer trainer/... " +
		"github.com/spf13/pflag go.yaml.in/yaml/v3 golang.org/x/term golang.org/x/sys ./...",
		"internal/browser internal/ctest internal/plugintest github.com/rogpeppe/go-internal"},
	// What a file says needs no trainer to be read.
	{"cmd/tune/internal/configfile", "internal/nearest trainer/preference github.com/spf13/pflag go.yaml.in/yaml/v3", ""},
	{"docs", "", "core trainer/models"},
	{"examples", "", "core core/... internal/ctest internal/plugintest trainer trainer/..."},
	{"examples/...", "core core/... trainer trainer/...", "internal/plugintest"},
}

// anyTest is what every test may import.
const anyTest = "internal/golden internal/os/sandbox internal/testdata github.com/google/go-cmp " +
	"go.uber.org/goleak golang.org/x/sys"

func TestImportsFollowThePolicy(t *testing.T) {
	// Files are chosen by operating system, and so are imports.
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			for _, p := range listPackages(t, goos) {
				name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
				imports, tests, ok := rule(name)
				if !ok {
					t.Errorf("package %q has no row in the table of core/deps_test.go: add one that says what it may import",
						cmp.Or(name, "."))
					continue
				}
				imports = strings.ReplaceAll(imports, "./...", name+"/...")
				for _, bad := range forbidden(p.Imports, imports) {
					t.Errorf("%s imports %s, which its row in core/deps_test.go does not allow", name, bad)
				}
				for _, bad := range forbidden(append(p.TestImports, p.XTestImports...), imports+" "+tests+" "+anyTest+" "+name) {
					t.Errorf("a test of %s imports %s, which its row in core/deps_test.go does not allow", name, bad)
				}
			}
		})
	}
}

// TestPolicyHasNoStaleRows: every name of this module in the table stands for a package
// that exists, so that no permission outlives what it was given to.
func TestPolicyHasNoStaleRows(t *testing.T) {
	var packages []string
	for _, p := range listPackages(t, "linux") {
		packages = append(packages, strings.TrimPrefix(p.ImportPath, module+"/"))
	}
	for _, row := range policy {
		for _, name := range stale(row.pkg+" "+row.imports+" "+row.tests, packages) {
			t.Errorf("the row of %s in core/deps_test.go has %s, which matches no package: remove it", row.pkg, name)
		}
	}
	for _, name := range stale(anyTest, packages) {
		t.Errorf("anyTest in core/deps_test.go has %s, which matches no package: remove it", name)
	}
}

// stale returns the names of this module that stand for none of the packages.
func stale(names string, packages []string) []string {
	return slices.DeleteFunc(strings.Fields(names), func(name string) bool {
		matches := func(p string) bool { return permits(name, p) }
		return strings.Contains(firstElement(name), ".") || slices.ContainsFunc(packages, matches)
	})
}

// rule returns the row of a package: its own before one of a subtree.
func rule(name string) (imports, tests string, ok bool) {
	for _, row := range policy {
		if row.pkg == name {
			return row.imports, row.tests, true
		}
		if tree, isTree := strings.CutSuffix(row.pkg, "/..."); isTree && strings.HasPrefix(name, tree+"/") {
			imports, tests, ok = row.imports, row.tests, true
		}
	}
	return imports, tests, ok
}

// forbidden returns the imports that are neither in the standard library nor allowed.
func forbidden(imports []string, allowed string) []string {
	var bad []string
	for _, imp := range imports {
		if !strings.Contains(firstElement(imp), ".") || permits(allowed, strings.TrimPrefix(imp, module+"/")) {
			continue
		}
		bad = append(bad, imp)
	}
	return bad
}

func permits(allowed, imp string) bool {
	for _, a := range strings.Fields(allowed) {
		tree, isTree := strings.CutSuffix(a, "/...")
		isTree = isTree || strings.Contains(firstElement(a), ".")
		if a == imp || isTree && strings.HasPrefix(imp, tree+"/") {
			return true
		}
	}
	return false
}

func firstElement(imp string) string {
	first, _, _ := strings.Cut(imp, "/")
	return first
}

func TestPolicyCheckNoticesViolations(t *testing.T) {
	tests := []struct {
		name, imp, allowed string
		bad                bool
	}{
		{"standard library", "net/http", "", false},
		{"a package of the row", module + "/core", "core", false},
		{"a package below one of the row", module + "/core/transport", "core", true},
		{"a package of a subtree", module + "/core/transport", "core/...", false},
		{"another module of the row", "google.golang.org/grpc/codes", "google.golang.org/grpc", false},
		{"another module with the same beginning", "google.golang.org/grpcx", "google.golang.org/grpc", true},
		{"another module", "gorgonia.org/tensor", "core", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := len(forbidden([]string{tt.imp}, tt.allowed)) == 1; got != tt.bad {
				t.Errorf("%s with %q allowed: forbidden is %v, want %v", tt.imp, tt.allowed, got, tt.bad)
			}
		})
	}
}

func TestStaleRowsAreNoticed(t *testing.T) {
	packages := []string{"core", "core/transport", "trainer"}
	names := "core core/... core/transport cor core/transport/... trainer/... trainer/nn google.golang.org/grpc"
	want := []string{"cor", "core/transport/...", "trainer/...", "trainer/nn"}
	if got := stale(names, packages); !slices.Equal(got, want) {
		t.Errorf("stale: %v, want %v", got, want)
	}
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// listPackages asks the go command for every package of the module, as built for goos.
func listPackages(t *testing.T, goos string) []listed {
	t.Helper()
	// A folder called testdata is not in ./..., whatever it holds.
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...",
		"./internal/testdata")
	cmd.Dir = testdata.Root(t)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	return packages
}
