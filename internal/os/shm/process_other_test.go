//go:build !linux

package shm

func platformRoles() map[string]func() []string { return nil }
