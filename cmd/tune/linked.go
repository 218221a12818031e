package main

import (
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/bench"
)

// linkedRegistry holds the project's kernels without plugin processes. It owns nothing
// that has to be closed.
func linkedRegistry() (*core.Registry, error) {
	reg := core.NewRegistry()
	for _, k := range linked.Kernels() {
		if err := reg.Register(kerneltest.Verified(k)); err != nil {
			return nil, err
		}
	}
	return reg, nil
}

// needsPlugins reports whether a variant of "bench" takes kernels from plugins.
func needsPlugins(variant string) bool {
	return variant != "none" && !strings.HasPrefix(variant, bench.LinkedPrefix)
}
