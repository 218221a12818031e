package main

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

func TestConforms(t *testing.T) { kerneltest.Run(t, kernel{}, kerneltest.Cases(core.SwiGLU)) }
