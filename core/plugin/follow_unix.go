//go:build unix

package plugin

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/wire"
)

// followHost ends this process when the host ends, which closes the other end of the
// lifeline. Until then it takes in the regions that the host passes.
func followHost(s *server) error {
	for _, fd := range []int{wire.LifelineFD, wire.ControlFD} {
		unix.CloseOnExec(fd) // children of this process must not keep the lifeline open
	}
	conn, err := wire.Lifeline(os.NewFile(wire.LifelineFD, "lifeline"))
	if err != nil {
		return err
	}
	go func() {
		if os.Getenv(wire.EnvLink) == wire.LinkDoorbell {
			receive(conn, s)
		}
		for b := make([]byte, 1); ; { // from which nothing else comes
			if n, err := conn.Read(b); err != nil || n == 0 {
				os.Exit(0)
			}
		}
	}()
	return nil
}
