// Package plugins has the sources of the project's kernels, which "tune kernels new --fast"
// starts a plugin from.
package plugins

import "embed"

// Sources has the Go files of every kernel's package, as npu_fused_rope/rope/kernel.go.
//
//go:embed npu_*/*/*.go
var Sources embed.FS
