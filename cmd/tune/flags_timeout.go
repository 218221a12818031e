package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core/transport"
)

// defaultCallTimeout is transport's.
const defaultCallTimeout = 60 * time.Second

// callTimeout is the flag of the commands that use kernels and have no other deadline.
type callTimeout struct {
	limit time.Duration
	flag  bool // the command has it
}

func (t *callTimeout) add(f *pflag.FlagSet) {
	t.flag = true
	f.DurationVar(&t.limit, "call-timeout", defaultCallTimeout, "the most `TIME` that one call of a plugin may take, such as 90s or 5m; one that takes longer is ended and started again")
}

// options adds what the flag says, if the command has it.
func (t callTimeout) options(o transport.Options) (transport.Options, error) {
	if !t.flag {
		return o, nil
	}
	if t.limit <= 0 {
		return o, fmt.Errorf("--call-timeout is %v, must be positive", t.limit)
	}
	o.CallTimeout = t.limit
	return o, nil
}

// given returns the flag's value if it is not the usual one.
func (t callTimeout) given() string {
	if t.limit == 0 || t.limit == defaultCallTimeout {
		return ""
	}
	return t.limit.String()
}
