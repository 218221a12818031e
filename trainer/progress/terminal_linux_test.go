package progress

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/trainer"
)

// terminal opens a terminal, and returns what sets its columns, and what tells what has been written to it since it
// was asked before.
func terminal(t *testing.T) (tty *os.File, columns func(n int), written func() string) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return tty, func(n int) {
			if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(n)}); err != nil {
				t.Fatal(err)
			}
		}, func() string {
			fmt.Fprintln(tty, "end")
			b := make([]byte, 1<<14)
			for n := 0; ; {
				k, err := screen.Read(b[n:])
				if err != nil {
					t.Fatal(err)
				}
				n += k
				if before, found := strings.CutSuffix(string(b[:n]), "end\r\n"); found {
					return before
				}
			}
		}
}

// TestATerminalThatBecomesNarrowGetsNoBar: each that it broke would stay. Nor is a line cleared by more than it has.
func TestATerminalThatBecomesNarrowGetsNoBar(t *testing.T) {
	tty, columns, written := terminal(t)
	columns(200)
	var h trainer.Hooks
	p := New(tty, tty)
	p.Attach(&h, Text)
	h.OnStart(trainer.Start{Steps: 1000, Config: trainer.Config{Batch: 1, Seq: 1, Accumulate: 1}})
	written()
	at := 1
	step := func() string {
		p.drawn = time.Time{}
		at++
		h.OnStep(trainer.Step{Step: at, Loss: 1, TokensPer: 1})
		return written()
	}
	for _, wide := range []int{200, 80, 40, 60, 39} {
		columns(wide)
		step()
		for line := range strings.FieldsFuncSeq(step(), func(r rune) bool { return r == '\r' || r == '\n' || r == '\x1b' }) {
			if n := len([]rune(line)); n > wide {
				t.Errorf("%d columns get %d: %q", wide, n, line)
			}
			if bar := strings.Contains(line, "/1000"); bar != (wide >= 60) && len(line) > len("[0K") {
				t.Errorf("%d columns get %q", wide, line)
			}
		}
	}
}

// TestWorkThatTakesLongHasABar, which is gone before what it comes to is told.
func TestWorkThatTakesLongHasABar(t *testing.T) {
	tty, columns, written := terminal(t)
	columns(80)
	var h trainer.Hooks
	p := New(tty, tty)
	p.Attach(&h, Text)
	for range 2 {
		h.OnWork(trainer.Work{What: "evaluating", Done: 0, Total: 90})
		if got := written(); got != "" {
			t.Errorf("what may take no time draws %q", got)
		}
		p.drawn = time.Time{}
		h.OnWork(trainer.Work{What: "evaluating", Done: 9, Total: 90})
		if got := written(); !strings.Contains(got, " (9/90) ") || !strings.Contains(got, " evaluating\x1b") {
			t.Errorf("it is drawn as %q", got)
		}
		h.OnEval(trainer.Eval{})
		if got := written(); !strings.HasPrefix(got, "\x1b[2K\rheld-out loss") {
			t.Errorf("the bar is not cleared: %q", got)
		}
	}
}
