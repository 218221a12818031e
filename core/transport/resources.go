package transport

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/internal/os/plainfile"
)

// errResources is why a plugin that may be fine is not started.
var errResources = errors.New("a limit of this process or machine is reached")

// orFewer is the other remedy where no further file can be opened.
const orFewer = ", or use fewer plugins"

// outOfFiles reports whether an error is for want of descriptors.
func outOfFiles(err error) bool { return plainfile.MoreFiles(err) != "" }

// explainFiles adds the remedies to an error that is for want of descriptors.
func explainFiles(err error) error {
	if !outOfFiles(err) || strings.Contains(err.Error(), orFewer) {
		return err
	}
	return fmt.Errorf("%w%s", plainfile.ExplainFiles(err), orFewer)
}
