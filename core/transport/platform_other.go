//go:build !linux

package transport

// native is the portable platform: nothing better is known here.
var native = portable

func nativeLacks() error { return errNoDoorbell }
