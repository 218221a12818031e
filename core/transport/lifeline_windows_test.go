package transport

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/windows"

	pluginside "github.com/seed98097648/tune/core/plugin"
)

// platformRoles are the roles of this file; see roles.
func platformRoles() map[string]func() {
	return map[string]func(){"has_child": func() {
		child := exec.Command("ping", "-n", "1000", "127.0.0.1")
		if err := child.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile("child", []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil { // beside it
			panic(err)
		}
		pluginside.Serve("test_kernels", "1.2.3", testKernels()...)
	}}
}

// TestWhatAPluginHasStartedEndsWithIt, whether it is closed or dies.
func TestWhatAPluginHasStartedEndsWithIt(t *testing.T) {
	for name, end := range map[string]func(*plugin) error{
		"closed": (*plugin).Close,
		"dies":   func(p *plugin) error { p.proc.end(); return p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			path := pluginPath(t, "has_child")
			opened, err := Options{}.Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			p := opened.(*plugin)
			text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "child"))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.ParseUint(string(text), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			child, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
			if err != nil {
				t.Fatal(err)
			}
			defer windows.CloseHandle(child)
			if err := end(p); err != nil {
				t.Error(err)
			}
			if ended, err := windows.WaitForSingleObject(child, 5000); ended != windows.WAIT_OBJECT_0 {
				t.Errorf("what the plugin has started goes on: %v, %v", ended, err)
			}
		})
	}
}
