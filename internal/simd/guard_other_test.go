//go:build !unix

package simd

import "testing"

// guardedBytes returns memory like any other: there are no guard pages here.
func guardedBytes(_ testing.TB, size int) []byte { return make([]byte, size) }
