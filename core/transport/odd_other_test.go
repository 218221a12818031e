//go:build (!linux || !(amd64 || arm64)) && !windows

package transport

func platformRoles() map[string]func() { return nil }
