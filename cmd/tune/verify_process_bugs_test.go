package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/core"
)

// Bugs of plugins that are in no output: in what a process keeps, and leaves behind.
func processBugs() map[string]planted {
	var kept []any
	after := func(op core.Op, f func(c *core.Call)) planted {
		return planted{op, func(run func() error, c *core.Call) error {
			err := run()
			f(c)
			return err
		}}
	}
	// go-plugin has put something else into os.Stderr
	raw := sync.OnceValue(func() *os.File { return os.NewFile(2, "stderr") })
	calls := 0
	every := func(n int, f func()) func(*core.Call) {
		return func(*core.Call) {
			if calls++; calls%n == 0 {
				f()
			}
		}
	}
	return map[string]planted{
		"bug_descriptors": after(core.RMSNorm, every(100, func() { kept = append(kept, must(os.Open(os.DevNull))) })),
		"bug_threads_left": after(core.RMSNorm, every(50, func() {
			go func() {
				runtime.LockOSThread()
				time.Sleep(time.Hour)
			}()
		})),
		"bug_children": after(core.RMSNorm, every(100, func() { start("sleep", "600") })),
		// Its child has left its group and its session, and the parent between them has ended.
		"bug_daemon":    after(core.RMSNorm, once(func() { start("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &") })),
		"bug_temporary": after(core.RMSNorm, every(100, func() { must(os.CreateTemp("", "scratch-*")).Close() })),
		"bug_one_temporary": after(core.RMSNorm, once(func() {
			if err := os.WriteFile(filepath.Join(os.TempDir(), "compiled.bin"), nil, 0o600); err != nil {
				panic(err)
			}
		})),
		"bug_working_folder": after(core.RMSNorm, once(func() {
			if err := os.WriteFile("bug_working_folder.log", nil, 0o600); err != nil {
				panic(err)
			}
		})),
		"bug_maps":   after(core.RMSNorm, func(*core.Call) { mapMemory() }),
		"bug_prints": after(core.RMSNorm, func(c *core.Call) { fmt.Println("rms_norm of", c.Tokens(), "tokens") }),
		"bug_prints_raw": after(core.RMSNorm, func(c *core.Call) {
			fmt.Fprintln(raw(), "rms_norm of", c.Tokens(), "tokens")
		}),
		"bug_spins": after(core.RMSNorm, once(func() {
			go func() {
				for i := 0; ; i++ {
				}
			}()
		})),
		// It answers before it is done.
		"bug_late": after(core.SwiGLU, func(c *core.Call) {
			b := c.Out[0].Data
			last := b[len(b)-1]
			go func() {
				b[len(b)-1] = ^last
				time.Sleep(20 * time.Millisecond)
				if c.Facts.Intermediate > 0 {
					b[len(b)-1] = last ^ 1
				}
			}()
		}),
		// It writes to its memory far behind an output: beyond the guards, into somebody else's.
		"bug_bystander": after(core.RMSNorm, func(c *core.Call) {
			if last := c.Out[len(c.Out)-1].Data; c.Tokens() == 512 && c.Pass == core.Backward &&
				os.Getenv("TUNE_THREADS") != "1" {
				*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(last)), len(last)+1000)) = 1
			}
		}),
		// It uses four threads where it was told to use one: for so much work, not for so long, as
		// on a busy machine it would else be over before the threads had run; and for so much that who
		// calls, and has to wait for a processor between calls, hardly counts.
		"bug_all_processors": {core.SwiGLU, func(run func() error, c *core.Call) error {
			var wg sync.WaitGroup
			if c.Tokens() == 512 && os.Getenv("TUNE_THREADS") == "1" {
				runtime.GOMAXPROCS(4)
				for i := range 4 {
					wg.Go(func() {
						x := uint64(i)
						for range 50_000_000 {
							x = x*6364136223846793005 + 1
						}
						runtime.KeepAlive(x)
					})
				}
			}
			err := run()
			wg.Wait()
			return err
		}},
	}
}

// once does something the first time.
func once(f func()) func(*core.Call) {
	do := sync.OnceFunc(f)
	return func(*core.Call) { do() }
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// start starts a program that nobody waits for.
func start(name string, args ...string) {
	if err := exec.Command(name, args...).Start(); err != nil {
		panic(err)
	}
}
