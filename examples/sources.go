// Package examples has small programs that show what tune is to an author of Go, or of
// kernels; each is in a folder of its own.
package examples

import "embed"

// C has what "tune kernels new --lang c" starts a plugin from: a kernel for each op that
// there is one in C of, named after it, and the plugin's side of the protocol.
//
//go:embed c_kernel/*.c c_kernel/*.h
var C embed.FS
